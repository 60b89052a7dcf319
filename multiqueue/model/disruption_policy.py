"""DisruptionPolicies, and what jobs declare about their checkpoints, as the engine's values.

Units: all durations are whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.declarations import ON_NOTICE, ON_TERM, parse_runtime, parse_save_trigger, read
from multiqueue.api.disruptions import LONGEST_WINDOW, StopCause
from multiqueue.api.durations import format_duration, parse_duration
from multiqueue.api.v1alpha1 import (
    DisruptionBudget,
    DisruptionPolicy,
    DisruptionProtection,
    MinimumRun,
)
from multiqueue.lib.digits import is_number
from multiqueue.lib.moments import in_utc

E = TypeVar("E", bound=StrEnum)
QueueOf = Callable[[str], api.ClusterQueue | None]
CohortOf = Callable[[str], api.Cohort | None]
PolicyOf = Callable[[str], DisruptionPolicy | None]
DEFAULT_GRACE = 30
"""Seconds that pods without a grace period get to stop."""
CLOCK_SKEW = 60
"""Seconds by which the clock of a job may be ahead of the manager's; later reports are ignored."""


class Preference(StrEnum):
    """Whom preemption stops first among candidates of the same priority."""

    DEFAULT = "Default"
    LEAST_LOST_WORK = "LeastLostWork"
    LEAST_RUN = "LeastRun"
    FEWEST_VICTIMS = "FewestVictims"
    SMALLEST_THAT_FITS = "SmallestThatFits"


class BudgetScope(StrEnum):
    """Whose stops a budget adds up."""

    POLICY = "Policy"
    CLUSTER_QUEUE = "ClusterQueue"
    NAMESPACE = "Namespace"
    OWNER = "Owner"


class OwnQuotaRule(StrEnum):
    """Whether use of the own nominal quota comes before the claims of other ClusterQueues."""

    PASSES = "Passes"
    WAITS = "Waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRule:
    """A budget; 0 means no limit."""

    policy: str
    name: str
    per: BudgetScope = BudgetScope.POLICY
    window: int = 86_400
    max_workloads: int = 0
    max_device_seconds: int = 0
    max_lost_percent: int = 0
    causes: frozenset[StopCause] = frozenset(
        {StopCause.QUEUE, StopCause.FAIR_SHARE, StopCause.MIGRATION}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRule:
    """What a stop is assumed to cost; ``longest_notice`` is 0 if nobody may save its work first."""

    undeclared: int = 1800
    longest_interval: int = 3600
    restart: int = 120
    longest_restart: int = 900
    longest_notice: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPreemptibleRule:
    """How much of its nominal quota a ClusterQueue gives to jobs that nobody may stop.

    Units: ``longest_run`` is in seconds; ``percent`` is 0 if there are no such jobs.
    """

    percent: int = 0
    longest_run: int = 86_400

    def allows(self, run_limit: int) -> bool:
        """Whether a job that ends after these seconds may ask for it; 0 is no limit."""
        return self.percent > 0 and 0 < run_limit <= self.longest_run


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionRule:
    """When a Workload may not be stopped. Shape: ``min_run`` has no zeros."""

    min_run: Mapping[StopCause, int] = field(default_factory=dict)
    growth: int = 1
    longest: int = 7200
    max_preemptions: int = 0
    window: int = 86_400
    concede: int = 7200
    non_preemptible: NonPreemptibleRule = NonPreemptibleRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRule:
    """In which order Workloads wait, and when room is kept for one; ``claims`` is 0 for never.

    ``passing`` is the percentage of a Workload's device time for which others may pass it.

    ``own_quota`` says what Workloads of the governed ClusterQueues do if they stay within its
    nominal quota and would delay a Workload of another ClusterQueue that has room kept for it.
    """

    passing: int = 0
    claims: int = 0
    after: int = 14_400
    horizon: int = 86_400
    own_quota: OwnQuotaRule = OwnQuotaRule.PASSES


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionRules:
    """A DisruptionPolicy that can be used, or (with a ``problem``) one that cannot."""

    name: str = ""
    max_preempted_workloads: int = 0
    max_device_seconds: int = 0
    prefer: Preference = Preference.DEFAULT
    budgets: tuple[BudgetRule, ...] = ()
    cost: CostRule = CostRule()
    protection: ProtectionRule = ProtectionRule()
    waiting: ClaimRule = ClaimRule()
    patience: int = 0
    gain: int = 0
    exempt_priority: int | None = None
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether all decisions are what they are without a policy."""
        return not (
            self.problem
            or self.budgets
            or self.max_preempted_workloads
            or self.max_device_seconds
            or self.prefer is not Preference.DEFAULT
            or self.protection.min_run
            or self.protection.max_preemptions
            or self.protection.non_preemptible.percent
            or self.cost.longest_notice
            or self.patience
            or self.gain
            or self.waiting.passing
            or self.waiting.claims
            or self.waiting.own_quota is not OwnQuotaRule.PASSES
        )

    def exempts(self, priority: int) -> bool:
        """Whether Workloads of this priority are not held up."""
        return self.exempt_priority is not None and priority >= self.exempt_priority


NO_RULES = DisruptionRules()


def find_policy(
    cluster_queue: str, queue_of: QueueOf, cohort_of: CohortOf, policy_of: PolicyOf
) -> DisruptionPolicy | None:
    """Return the nearest policy of a ClusterQueue (P-8); None if none is named, or it is gone."""
    queue = queue_of(cluster_queue)
    if queue is None:
        return None
    named, above = named_policy(queue.metadata), queue.spec.cohort_name
    seen: set[str] = set()
    while not named and above and above not in seen:
        seen.add(above)
        cohort = cohort_of(above)
        if cohort is None:
            return None
        named, above = named_policy(cohort.metadata), cohort.spec.parent_name
    return policy_of(named) if named else None


def named_policy(metadata: api.ObjectMeta) -> str:
    """Return the policy that a ClusterQueue or Cohort names; "" if it names none."""
    return metadata.annotations.get(names.DISRUPTION_POLICY, "").strip()


def build_disruption_rules(obj: DisruptionPolicy) -> DisruptionRules:
    """Turn a policy into the engine's value; ``problem`` says what cannot be used."""
    name, spec = obj.metadata.name, obj.spec
    try:
        return DisruptionRules(
            name=name,
            max_preempted_workloads=_count(
                "spec.maxPreemptedWorkloads", spec.max_preempted_workloads
            ),
            max_device_seconds=_count("spec.maxDeviceSeconds", spec.max_device_seconds),
            prefer=_one_of("spec.prefer", Preference, spec.prefer),
            budgets=_build_budgets(name, spec.budgets),
            cost=CostRule(
                undeclared=_seconds("spec.cost.undeclared", spec.cost.undeclared),
                longest_interval=_seconds("spec.cost.longestInterval", spec.cost.longest_interval),
                restart=_seconds("spec.cost.restart", spec.cost.restart),
                longest_restart=_seconds("spec.cost.longestRestart", spec.cost.longest_restart),
                longest_notice=_seconds("spec.notice.longest", spec.notice.longest),
            ),
            protection=_build_protection(spec.protection),
            waiting=ClaimRule(
                passing=_count("spec.waiting.passing", spec.waiting.passing, most=1000),
                claims=_count("spec.waiting.claims", spec.waiting.claims, most=1),
                after=_seconds("spec.waiting.after", spec.waiting.after),
                horizon=_seconds("spec.waiting.horizon", spec.waiting.horizon),
                own_quota=_one_of("spec.waiting.ownQuota", OwnQuotaRule, spec.waiting.own_quota),
            ),
            patience=_seconds("spec.notice.patience", spec.notice.patience),
            gain=_count("spec.migration.gain", spec.migration.gain, most=100),
            exempt_priority=spec.exempt_priority,
        )
    except ValueError as error:
        return DisruptionRules(name=name, problem=str(error))


def _build_protection(spec: DisruptionProtection) -> ProtectionRule:
    path = "spec.protection"
    if not 1 <= spec.growth <= 4:
        raise ValueError(f"{path}.growth: {spec.growth} is not between 1 and 4")
    return ProtectionRule(
        min_run=_build_min_run(f"{path}.minRun", spec.min_run),
        growth=spec.growth,
        longest=_seconds(f"{path}.longest", spec.longest),
        max_preemptions=_count(f"{path}.maxPreemptions", spec.max_preemptions),
        window=_window(f"{path}.window", spec.window),
        concede=_seconds(f"{path}.concede", spec.concede),
        non_preemptible=NonPreemptibleRule(
            percent=_count(
                f"{path}.nonPreemptible.percent", spec.non_preemptible.percent, most=100
            ),
            longest_run=_seconds(
                f"{path}.nonPreemptible.longestRun", spec.non_preemptible.longest_run
            ),
        ),
    )


def _build_min_run(path: str, spec: MinimumRun) -> dict[StopCause, int]:
    fair_share = _seconds(f"{path}.fairShare", spec.fair_share)
    found = {
        StopCause.QUEUE: _seconds(f"{path}.queue", spec.queue),
        StopCause.RECLAIM: _seconds(f"{path}.reclaim", spec.reclaim),
        StopCause.FAIR_SHARE: fair_share,
        StopCause.MIGRATION: fair_share,
    }
    return {cause: seconds for cause, seconds in found.items() if seconds}


def _build_budgets(policy: str, specs: tuple[DisruptionBudget, ...]) -> tuple[BudgetRule, ...]:
    rules: dict[str, BudgetRule] = {}
    for index, spec in enumerate(specs):
        path = f"spec.budgets[{index}]"
        if not spec.name or spec.name in rules:
            raise ValueError(f'{path}.name: "{spec.name}" must be a name that no other budget has')
        rule = rules[spec.name] = BudgetRule(
            policy=policy,
            name=spec.name,
            per=_one_of(f"{path}.per", BudgetScope, spec.per),
            window=_window(f"{path}.window", spec.window),
            max_workloads=_count(f"{path}.maxWorkloads", spec.max_workloads),
            max_device_seconds=_count(f"{path}.maxDeviceSeconds", spec.max_device_seconds),
            max_lost_percent=_count(f"{path}.maxLostPercent", spec.max_lost_percent, most=100),
            causes=frozenset(_one_of(f"{path}.causes", StopCause, each) for each in spec.causes),
        )
        limits = (rule.max_workloads, rule.max_device_seconds, rule.max_lost_percent)
        if not any(limits):
            raise ValueError(
                f"{path}: set maxWorkloads, maxDeviceSeconds or maxLostPercent to more than 0"
            )
        if rule.max_lost_percent and rule.per not in {
            BudgetScope.POLICY,
            BudgetScope.CLUSTER_QUEUE,
        }:
            raise ValueError(
                f"{path}.maxLostPercent: needs quota to be a part of; "
                "set per to Policy or ClusterQueue"
            )
    return tuple(rules.values())


def _one_of(path: str, kind: type[E], text: str) -> E:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f'{path}: "{text}" is not one of {", ".join(kind)}') from None


def _count(path: str, value: int, *, most: int = 2**63 - 1) -> int:
    if not 0 <= value <= most:
        raise ValueError(f"{path}: {value} is not between 0 and {most}")
    return value


def _seconds(path: str, text: str) -> int:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if found < timedelta():
        raise ValueError(f'{path}: "{text}" is negative')
    return int(found.total_seconds())


def _window(path: str, text: str) -> int:
    found = _seconds(path, text)
    if not 60 <= found <= LONGEST_WINDOW.total_seconds():
        raise ValueError(f'{path}: "{text}" is not between 1m and 168h')
    return found


@lru_cache(maxsize=4096)
def format_seconds(seconds: int) -> str:
    """Return a duration in words of the policy: ``10m``, ``24h``, ``1h30m``."""
    text = format_duration(timedelta(seconds=seconds))
    for tail in ("0s", "0m"):
        if text.endswith(tail) and len(text) > len(tail) and text[-len(tail) - 1].isalpha():
            text = text.removesuffix(tail)
    return text


# -------------------------------------------------------------------- what jobs declare


class SaveHabits(NamedTuple):
    """What a job declares about its checkpoints; None if it does not say.

    Shape: ``save_seconds`` is set if it saves its work when its pods are told to stop, and they get
    enough time for that. ``on_notice`` says that it saves its work when it is told in advance,
    which takes ``notice_seconds``.
    """

    interval: int | None = None
    restart: int | None = None
    save_seconds: int | None = None
    on_notice: bool = False
    notice_seconds: int | None = None

    def notice_length(self, longest: int) -> int:
        """Return the seconds of notice that it gets, 0 for none (P-49, P-51).

        Args:
            longest: of the policy of its queue, in seconds.
        """
        if not self.on_notice or self.notice_seconds is None:
            return longest if self.on_notice else 0
        return min(longest, -(-(5 * self.notice_seconds + 120) // 40) * 10)


def read_save_habits(obj: api.Workload) -> SaveHabits | None:
    """Return what the annotations of a Workload declare; None if that is nothing.

    A value that cannot be read counts as absent.
    """
    annotations = obj.metadata.annotations
    if not any(map(annotations.__contains__, _DECLARED)):
        return None
    interval, restart = (
        None
        if (found := read(annotations, name, parse_runtime)) is None
        else int(found.total_seconds())
        for name in (names.CHECKPOINT_INTERVAL, names.RESTART)
    )
    on_notice = read(annotations, names.CHECKPOINT_ON, parse_save_trigger) == ON_NOTICE
    text = annotations.get(names.CHECKPOINT_SECONDS, "").strip()
    seconds = int(text) if on_notice and is_number(text) else None
    habits = SaveHabits(interval, restart, _find_save_seconds(obj), on_notice, seconds)
    return habits if habits != SaveHabits() else None


_DECLARED = (names.CHECKPOINT_INTERVAL, names.CHECKPOINT_ON, names.RESTART)


def _find_save_seconds(obj: api.Workload) -> int | None:
    annotations = obj.metadata.annotations
    text = annotations.get(names.CHECKPOINT_SECONDS, "")
    if annotations.get(names.CHECKPOINT_ON, "").strip() != ON_TERM or not is_number(text):
        return None
    graces = (
        (item.template.get("spec") or {}).get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        for item in obj.spec.pod_sets
    )
    shortest = min((each for each in graces if isinstance(each, int)), default=DEFAULT_GRACE)
    return int(text) if int(text) < shortest else None


def parse_last_checkpoint(text: str) -> datetime | None:
    """Read when a job last saved its work; None if that is no RFC 3339 time with a zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return None if moment.tzinfo is None else in_utc(moment)
    except ValueError:
        return None
