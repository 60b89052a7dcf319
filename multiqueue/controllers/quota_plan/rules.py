"""Reads the spec of a QuotaPlan, and finds the quotas that it is about. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from multiqueue.api.conditions import QUOTA_AUTOMATION, find_condition
from multiqueue.api.durations import parse_duration
from multiqueue.api.v1alpha1 import PlanBounds, QuotaPlan
from multiqueue.api.v1beta2 import ClusterQueue, Cohort
from multiqueue.controllers.quota_plan.propose import (
    PlanRules,
    QuotaBounds,
    QuotaKey,
)
from multiqueue.lib.amount import Amount
from multiqueue.lib.quantity import QuantityError
from multiqueue.model.cluster_queue import StopPolicy
from multiqueue.model.resources import parse_quota

LONGEST_CREDIT = timedelta(hours=48)
"""Samples within it are kept singly in the status: 576 of them."""
LONGEST_WATCH = timedelta(hours=168)
"""The same hours of the week before are before the change then."""
LEAST_TIME = timedelta(hours=1)


class PlanError(ValueError):
    """A plan cannot be followed; the message says which field of which object, and what to do."""


def build_plan_rules(plan: QuotaPlan, quotas: Iterable[QuotaKey]) -> PlanRules:
    """Return the rules of a plan for some quotas.

    Raises:
        PlanError: a value cannot be used.
    """
    spec, known = plan.spec, list(quotas)
    if not known:
        raise PlanError(
            f'spec.cohort: no ClusterQueue in Cohort "{spec.cohort}" or below has a quota of '
            "spec.resources; correct the names, or set spec.cohortName of ClusterQueues"
        )
    steps: dict[tuple[str, str], Amount] = {}
    for number, each in enumerate(spec.resources):
        path = f"spec.resources[{number}]"
        step = _amount(each.resource, each.step, f"{path}.step")
        if step <= 0:
            raise PlanError(f'{path}.step: "{each.step}" must be more than 0')
        place = (each.flavor, each.resource)
        if not any(key[1:] == place for key in known):
            raise PlanError(
                f'{path}: no ClusterQueue of Cohort "{spec.cohort}" has a quota of {each.resource} '
                f'in flavor "{each.flavor}"; correct the names, or take it out'
            )
        steps[place] = step
    return PlanRules(
        name=plan.metadata.name,
        changes=plan.status.changes,
        steps=steps,
        every=_time(spec.every, "spec.every", least=LEAST_TIME),
        half_life=_time(spec.history.half_life, "spec.history.halfLife", least=LEAST_TIME),
        least=_time(spec.history.least, "spec.history.least"),
        percentile=spec.history.percentile,
        bounds=_build_bounds(plan, known),
        percent=spec.max_change.percent,
        month_percent=spec.max_change.month_percent,
        deadband_percent=spec.deadband_percent,
        watch=_time(spec.guard.watch, "spec.guard.watch", most=LONGEST_WATCH),
        wait_percent=spec.guard.wait_percent,
        wait_at_least=_time(spec.guard.wait_at_least, "spec.guard.waitAtLeast"),
    )


def read_credit(plan: QuotaPlan) -> timedelta:
    """Return the most of a wait that counts.

    Raises:
        PlanError: it cannot be used.
    """
    return _time(plan.spec.history.credit, "spec.history.credit", most=LONGEST_CREDIT)


def _build_bounds(plan: QuotaPlan, known: list[QuotaKey]) -> dict[QuotaKey, QuotaBounds]:
    bounds: dict[QuotaKey, QuotaBounds] = {}
    for number, each in enumerate(plan.spec.bounds):
        path = f"spec.bounds[{number}]"
        keys = [key for key in known if _is_bounded(key, each)]
        if not keys:
            raise PlanError(
                f'{path}: ClusterQueue "{each.cluster_queue}" has no quota in this plan; correct '
                "the name, or take the bounds out"
            )
        for key in keys:
            least = _amount(key.resource, each.min or 0, f"{path}.min")
            most = None if each.max is None else _amount(key.resource, each.max, f"{path}.max")
            if most is not None and least > most:
                raise PlanError(
                    f"{path}: min {each.min} is more than max {each.max}; lower min or raise max"
                )
            bounds[key] = QuotaBounds(least=least, most=most)
    return bounds


def _is_bounded(key: QuotaKey, bounds: PlanBounds) -> bool:
    return (
        key.cluster_queue == bounds.cluster_queue
        and bounds.flavor in {"", key.flavor}
        and bounds.resource in {"", key.resource}
    )


def _amount(resource: str, raw: str | float, path: str) -> Amount:
    try:
        amount = parse_quota(resource, raw)
    except QuantityError as error:
        raise PlanError(f"{path}: {error}") from None
    if amount < 0:
        raise PlanError(f"{path}: {raw} is negative; write a number from 0 on")
    return amount


def _time(
    text: str,
    path: str,
    *,
    least: timedelta = timedelta(),
    most: timedelta = timedelta(days=366),
) -> timedelta:
    try:
        time = timedelta(seconds=parse_duration(text).total_seconds())
    except (ValueError, OverflowError) as error:
        raise PlanError(f"{path}: {error}") from None
    if not least <= time <= most:
        raise PlanError(f"{path}: {text} must be between {_hours(least)} and {_hours(most)}")
    return time


def _hours(time: timedelta) -> str:
    return f"{time.total_seconds() / 3600:g}h"


# ---------------------------------------------------------------- queues


def list_queues(
    cohort: str, cohorts: Mapping[str, Cohort], queues: Iterable[ClusterQueue]
) -> list[ClusterQueue]:
    """Return the ClusterQueues in a Cohort or below, by name.

    A Cohort does not need an object, if a ClusterQueue names it.
    """
    found = [
        queue
        for queue in queues
        if not queue.metadata.deletion_timestamp
        and cohort in _cohorts_above(queue.spec.cohort_name, cohorts)
    ]
    return sorted(found, key=lambda queue: queue.metadata.name)


def _cohorts_above(cohort: str, cohorts: Mapping[str, Cohort]) -> list[str]:
    path: list[str] = []
    while cohort and cohort not in path:  # Cohorts may form a cycle
        path.append(cohort)
        above = cohorts.get(cohort)
        cohort = above.spec.parent_name if above is not None else ""
    return path


def read_nominal(plan: QuotaPlan, queues: Iterable[ClusterQueue]) -> dict[QuotaKey, Amount]:
    """Return the nominal quotas that a plan moves."""
    places = {(each.flavor, each.resource) for each in plan.spec.resources}
    return {
        QuotaKey(queue.metadata.name, flavor.name, quota.name): parse_quota(
            quota.name, quota.nominal_quota
        )
        for queue in queues
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
        if (flavor.name, quota.name) in places
    }


def find_stopped(queues: Iterable[ClusterQueue]) -> str:
    """Return which ClusterQueue is stopped, in words; empty if none is."""
    stopped = (queue for queue in queues if queue.spec.stop_policy != StopPolicy.NONE)
    return next(
        (
            f'ClusterQueue "{queue.metadata.name}" has spec.stopPolicy {queue.spec.stop_policy}'
            for queue in stopped
        ),
        "",
    )


def check_queues(plan: QuotaPlan, queues: list[ClusterQueue], others: Mapping[str, str]) -> None:
    """Check that the queues of a plan can be planned.

    Args:
        plan: The plan.
        queues: Its ClusterQueues.
        others: The older plan by name of each ClusterQueue that another plan has.

    Raises:
        PlanError: they cannot.
    """
    for queue in queues:
        name = queue.metadata.name
        if name in others:
            raise PlanError(
                f'ClusterQueue "{name}" is in QuotaPlan "{others[name]}" already, which is older; '
                "let the plans have different Cohorts, or delete one of them"
            )
        automation = find_condition(queue.status.conditions, QUOTA_AUTOMATION)
        if automation is not None and automation.status == "True":
            raise PlanError(
                f'ClusterQueue "{name}" takes its quotas from its workers; take it out of Cohort '
                f'"{plan.spec.cohort}", or set quotaManagement of its MultiKueueConfig to Manual'
            )
