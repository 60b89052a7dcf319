"""Admission checks of a Workload: which ones apply, their list, and their states.

Pure, like `workload_state`. Parity: E-111, E-112, E-153.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from multiqueue.api.conditions import MAX_MESSAGE, CheckState
from multiqueue.api.v1beta2 import (
    Admission,
    AdmissionCheckState,
    ClusterQueueSpec,
    PodSetUpdate,
    WorkloadStatus,
)
from multiqueue.api.v1beta2.meta import format_time, parse_time

_MERGED = (("labels", "labels"), ("annotations", "annotations"), ("node_selector", "nodeSelector"))


def applicable_checks(spec: ClusterQueueSpec, admission: Admission | None) -> tuple[str, ...]:
    """Return the sorted names of the checks that a Workload of this ClusterQueue needs (E-111).

    With an admission, these are the checks for any of the assigned flavors. Without one, these are
    the checks for all flavors of the queue, because they apply to any assignment.
    """
    strategy = spec.admission_checks_strategy
    if strategy is None:
        return ()
    all_flavors = {flavor.name for group in spec.resource_groups for flavor in group.flavors}
    assigned = {
        flavor
        for assignment in (admission.pod_set_assignments if admission else ())
        for flavor in assignment.flavors.values()
    }

    def applies(on_flavors: Sequence[str]) -> bool:
        wanted = set(on_flavors) or all_flavors
        if admission is None:
            return wanted >= all_flavors
        # A pod set without requests has no flavors: a check for all flavors still applies to it.
        return bool(wanted & assigned) or not on_flavors

    return tuple(
        sorted({rule.name for rule in strategy.admission_checks if applies(rule.on_flavors)})
    )


def sync_checks(status: WorkloadStatus, names: Iterable[str], now: datetime) -> WorkloadStatus:
    """Make the list hold exactly these checks, sorted by name; new ones are Pending (E-111)."""
    by_name = {check.name: check for check in status.admission_checks}
    checks = tuple(
        by_name.get(name)
        or AdmissionCheckState(
            name=name, state=CheckState.PENDING, last_transition_time=format_time(now)
        )
        for name in sorted(set(names))
    )
    if checks == status.admission_checks:
        return status
    return msgspec.structs.replace(status, admission_checks=checks)


def find_check(status: WorkloadStatus, name: str) -> AdmissionCheckState | None:
    """Return the state of that check, or None."""
    return next((check for check in status.admission_checks if check.name == name), None)


def set_check_state(
    status: WorkloadStatus,
    name: str,
    state: CheckState,
    *,
    message: str,
    now: datetime,
    requeue_after_seconds: int | None = None,
    pod_set_updates: Sequence[PodSetUpdate] | None = None,
) -> WorkloadStatus:
    """Set the state of a listed check; the transition time changes only with the state.

    ``retryCount`` and, unless given, ``requeueAfterSeconds`` and ``podSetUpdates`` are kept.
    """
    old = find_check(status, name)
    if old is None:
        return status
    new = msgspec.structs.replace(
        old,
        state=str(state),
        message=message[:MAX_MESSAGE],
        last_transition_time=old.last_transition_time
        if old.state == state and old.last_transition_time
        else format_time(now),
        requeue_after_seconds=old.requeue_after_seconds
        if requeue_after_seconds is None
        else requeue_after_seconds,
        pod_set_updates=old.pod_set_updates if pod_set_updates is None else tuple(pod_set_updates),
    )
    if new == old:
        return status
    return msgspec.structs.replace(
        status,
        admission_checks=tuple(
            new if check.name == name else check for check in status.admission_checks
        ),
    )


def reset_checks(status: WorkloadStatus, now: datetime) -> WorkloadStatus:
    """Put every check back to Pending, as an eviction does (E-103)."""
    checks = tuple(_reset(check, now) for check in status.admission_checks)
    if checks == status.admission_checks:
        return status
    return msgspec.structs.replace(status, admission_checks=checks)


def _reset(check: AdmissionCheckState, now: datetime) -> AdmissionCheckState:
    if check.state == CheckState.PENDING:
        return check
    retried = check.state == CheckState.RETRY
    return AdmissionCheckState(
        name=check.name,
        state=CheckState.PENDING,
        last_transition_time=format_time(now),
        message=f"Reset to Pending after eviction. Previously: {check.state}",
        requeue_after_seconds=check.requeue_after_seconds,
        retry_count=(check.retry_count or 0) + 1 if retried else None,
    )


def checks_in(status: WorkloadStatus, state: CheckState) -> tuple[AdmissionCheckState, ...]:
    """Return the checks in that state, in list order."""
    return tuple(check for check in status.admission_checks if check.state == state)


def describe_checks(checks: Iterable[AdmissionCheckState], state: CheckState) -> str:
    """Return a sentence with the checks in a state and their messages (E-112)."""
    ordered = sorted(checks, key=lambda check: check.name)
    named = "; ".join(
        f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"'
        for check in ordered
    )
    noun = "AdmissionCheck" if len(ordered) == 1 else "AdmissionChecks"
    return f"{noun} in {state} state: {named}"


def retry_at(status: WorkloadStatus) -> datetime | None:
    """Return the latest retry time of all Retry checks (E-112); None if none has one."""
    times = [
        moment + timedelta(seconds=check.requeue_after_seconds)
        for check in checks_in(status, CheckState.RETRY)
        if check.requeue_after_seconds is not None
        and (moment := parse_time(check.last_transition_time)) is not None
    ]
    return max(times, default=None)


def merge_pod_set_updates(status: WorkloadStatus) -> Mapping[str, PodSetUpdate] | str:
    """Merge the checks' additions to each pod set; a text names contradicting values (E-153)."""
    merged: dict[str, PodSetUpdate] = {}
    for check in status.admission_checks:
        for update in check.pod_set_updates:
            joined = _join(merged.get(update.name) or PodSetUpdate(name=update.name), update)
            if isinstance(joined, str):
                return f'AdmissionCheck "{check.name}", pod set "{update.name}": {joined}'
            merged[update.name] = joined
    return merged


def _join(first: PodSetUpdate, second: PodSetUpdate) -> PodSetUpdate | str:
    joined: dict[str, dict[str, str]] = {}
    for field, wire in _MERGED:
        ours: dict[str, str] = getattr(first, field)
        theirs: dict[str, str] = getattr(second, field)
        for key in sorted(ours.keys() & theirs.keys()):
            if ours[key] != theirs[key]:
                return f'conflict for {wire}: "{key}" is "{ours[key]}" and "{theirs[key]}"'
        joined[field] = {**ours, **theirs}
    tolerations = (
        *first.tolerations,
        *(t for t in second.tolerations if t not in first.tolerations),
    )
    return PodSetUpdate(
        name=first.name,
        labels=joined["labels"],
        annotations=joined["annotations"],
        node_selector=joined["node_selector"],
        tolerations=tolerations,
    )
