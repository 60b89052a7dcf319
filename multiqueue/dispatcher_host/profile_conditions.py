"""The status of a DispatchProfile: conditions and figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from multiqueue.api.conditions import (
    ACTIVE,
    CANARY,
    HEALTHY,
    ProfileReason,
    find_condition,
    set_condition,
)
from multiqueue.api.v1alpha1 import (
    CanaryStatus,
    DispatchProfile,
    DispatchProfileStatus,
    ShadowStatus,
)
from multiqueue.api.v1beta2 import Condition, format_time
from multiqueue.dispatcher_host.canary import Side
from multiqueue.dispatcher_host.live_profile import LiveProfile
from multiqueue.dispatcher_host.runner import DispatchRunner

MAX_DIFFERENCE = 1024
"""The maximum length in the CRD."""


def why_returned(profile: DispatchProfile) -> str:
    """Return why the canary returned, from the status; empty for a new generation."""
    condition = find_condition(profile.status.conditions, CANARY)
    if condition is None or condition.reason != ProfileReason.RETURNED:
        return ""
    is_current = condition.observed_generation == profile.metadata.generation
    return condition.message if is_current else ""


def build_status(
    profile: DispatchProfile, live: LiveProfile, now: datetime
) -> DispatchProfileStatus:
    """Return the new status of a profile."""
    conditions = profile.status.conditions
    if live.policy.canary is None and not _canary_problem(live):
        conditions = tuple(each for each in conditions if each.type != CANARY)
    for type_, (status, reason, message) in _judge(live):
        conditions = set_condition(
            conditions,
            type_=type_,
            status=status,
            reason=reason,
            message=message,
            now=now,
            observed_generation=live.policy.generation,
        )
    figures = live.figures
    return DispatchProfileStatus(
        conditions=conditions,
        observed_generation=live.policy.generation,
        since=format_time(figures.since),
        decisions=figures.decisions,
        failures=figures.failures,
        fallbacks=figures.fallbacks,
        shadow=_shadow_status(live),
        canary=_canary_status(live),
    )


def find_news(
    old: tuple[Condition, ...], new: tuple[Condition, ...]
) -> Iterator[tuple[Condition, bool]]:
    """Yield the conditions that deserve an Event, and whether it is a warning."""
    for condition in new:
        before = find_condition(old, condition.type)
        if before is not None and before.status == condition.status:
            continue
        if before is not None or condition.status == "False":
            yield condition, condition.status == "False"


Judgement = tuple[bool, ProfileReason, str]


def _judge(live: LiveProfile) -> Iterator[tuple[str, Judgement]]:
    yield ACTIVE, _judge_active(live)
    yield HEALTHY, _judge_health(live)
    problem = _canary_problem(live)
    if problem:
        yield CANARY, (False, ProfileReason.BROKEN, problem)
    elif live.policy.canary is not None and live.returned:
        yield CANARY, (False, ProfileReason.RETURNED, live.returned)
    elif live.policy.canary is not None:
        canary = live.policy.canary
        words = f'"{canary.way.dispatcher}" decides for {canary.percent} % of the Workloads'
        yield CANARY, (True, ProfileReason.RUNNING, words)


def _judge_active(live: LiveProfile) -> Judgement:
    base = live.base
    problem = live.policy.problem or (base.load_state if base is not None else "")
    reason = ProfileReason.INVALID if problem else ProfileReason.FAILING
    if not problem and base is not None:
        problem = base.trouble
    if not problem:
        assert base is not None  # else the policy has a problem
        return True, ProfileReason.READY, _describe_decider(base)
    if live.fallback is not None and not live.fallback.trouble:
        return False, reason, f'{problem}; "{live.fallback.way.dispatcher}" decides meanwhile'
    return False, reason, f"{problem}; its Workloads wait"


def _describe_decider(runner: DispatchRunner) -> str:
    words = f'dispatcher "{runner.way.dispatcher}" decides'
    if not runner.is_unchecked:
        return words
    names = ", ".join(sorted(runner.way.arguments))
    return f"{words}; it does not check arguments, so nobody can say whether it heeds {names}"


def _judge_health(live: LiveProfile) -> Judgement:
    broken = [
        f'dispatcher "{runner.way.dispatcher}" {finding.words}'
        for runner in live.runners
        for finding in runner.findings.values()
    ]
    if broken:
        return False, ProfileReason.PROMISES_BROKEN, "; ".join(dict.fromkeys(broken))
    sides = [live.shadow, live.fallback, None if live.returned else live.canary]
    troubles = [runner.trouble for runner in sides if runner is not None and runner.trouble]
    troubles += live.policy.side_problems
    if troubles:
        return False, ProfileReason.SIDE_FAILING, "; ".join(dict.fromkeys(troubles))
    return True, ProfileReason.AS_PROMISED, "no promise of a dispatcher was found broken"


def _canary_problem(live: LiveProfile) -> str:
    """Return why a requested canary decides nothing at all; empty if it works."""
    if live.canary is not None:
        return live.canary.load_state
    return next((p for p in live.policy.side_problems if p.startswith("spec.canary")), "")


def _shadow_status(live: LiveProfile) -> ShadowStatus | None:
    figures = live.shadow_figures
    if figures is None:
        return None
    return ShadowStatus(
        decisions=figures.decisions,
        differences=figures.differences,
        failures=figures.failures,
        skipped=figures.skipped,
        last_difference=figures.last_difference[:MAX_DIFFERENCE],
    )


def _canary_status(live: LiveProfile) -> CanaryStatus | None:
    if _canary_problem(live):
        return CanaryStatus(state=ProfileReason.BROKEN)
    if live.trials is None:
        return None
    tallies = live.trials.tallies
    return CanaryStatus(
        state=ProfileReason.RETURNED if live.returned else ProfileReason.RUNNING,
        canary=tallies[Side.CANARY].to_status(),
        base=tallies[Side.BASE].to_status(),
    )
