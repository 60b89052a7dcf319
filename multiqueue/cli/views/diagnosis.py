"""Why Workloads of a queue wait: one finding for each cause, the first one first to solve. Pure.

The reasons are the manager's: for the first Workloads from its answers, for the others from the
conditions that it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from multiqueue.api import names, workload_state
from multiqueue.api.conditions import ACTIVE, CheckState, Reason, WorkloadCondition, find_condition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.cli.views.checks import explain_check
from multiqueue.cli.views.inactive import explain_cluster_queue, explain_local_queue
from multiqueue.cli.visibility import ManagerAnswer, QueuePosition
from multiqueue.views.ages import format_age
from multiqueue.views.phase import PhaseState, find_phase

if TYPE_CHECKING:
    from multiqueue.cli.queue_objects import QueueObjects

SILENT_AFTER = timedelta(minutes=5)
"""How long a check may be without an answer: provisioning and a slow worker take minutes."""
MAX_NAMES = 3
"""How many Workloads a finding names; it counts the others."""
_NEVER = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR})
_WAITING = frozenset({PhaseState.QUEUED, PhaseState.EVICTED, PhaseState.MOVING})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFinding:
    """One cause, what was found, and what to do."""

    cause: str
    what: str
    todo: str

    def to_dict(self) -> dict[str, Any]:
        """Return the finding for ``-o json``."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class WaitingWorkload:
    """A waiting Workload; ``answer`` is the manager's, if it was asked."""

    workload: Workload
    answer: ManagerAnswer | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.workload.metadata.key

    @property
    def reason(self) -> str:
        """The reason why it waits: the manager's, else the last one written."""
        if self.answer is not None and self.answer.reason:
            return self.answer.reason
        conditions = self.workload.status.conditions
        written = find_condition(conditions, WorkloadCondition.QUOTA_RESERVED)
        return written.reason if written is not None else ""

    @property
    def words(self) -> str:
        """What it waits for: the manager's text, else the last message written."""
        if self.answer is not None and (self.answer.why or self.answer.message):
            return self.answer.why or self.answer.message
        conditions = self.workload.status.conditions
        written = find_condition(conditions, WorkloadCondition.QUOTA_RESERVED)
        return written.message if written is not None else ""


def list_waiting(
    objects: QueueObjects,
    places: Mapping[str, QueuePosition],
    *,
    local_queue: str,
    cluster_queue: str,
) -> list[WaitingWorkload]:
    """Return the waiting Workloads of a LocalQueue, or else of a ClusterQueue, in queue order."""
    found = [
        workload
        for workload in _members(objects, local_queue, cluster_queue)
        if find_phase(workload).state in _WAITING
    ]
    last = len(places) + 1

    def order(workload: Workload) -> tuple[int, str, str]:
        place = places.get(workload.metadata.key)
        created = workload.metadata.creation_timestamp
        return place.in_cluster_queue if place else last, created, workload.metadata.key

    return [WaitingWorkload(workload=each) for each in sorted(found, key=order)]


def diagnose(
    objects: QueueObjects,
    waiting: Sequence[WaitingWorkload],
    *,
    local_queue: str,
    cluster_queue: str,
) -> list[QueueFinding]:
    """Return the causes for which Workloads of a queue wait.

    Args:
        objects: The queues, Workloads, checks and workers that were read.
        waiting: The waiting Workloads in their order.
        local_queue: The LocalQueue in question; empty for a whole ClusterQueue.
        cluster_queue: The ClusterQueue.
    """
    told: list[QueueFinding] = list(_inactive(objects, local_queue, cluster_queue))
    if not told:
        told.extend(_misconfigured(waiting))
    for ask in (_blocked, _too_large, _share, _quota):
        told.extend(ask(waiting))
    told.extend(_workers(objects, cluster_queue))
    told.extend(_silent_checks(objects, _members(objects, local_queue, cluster_queue)))
    return told


def _members(objects: QueueObjects, local_queue: str, cluster_queue: str) -> list[Workload]:
    def own(workload: Workload) -> bool:
        if local_queue:
            key = names.key_of(workload.metadata.namespace, workload.spec.queue_name)
            return key == local_queue
        return objects.cluster_queue_of(workload) == cluster_queue

    return [workload for workload in objects.workloads.values() if own(workload)]


_REMEDIES = {
    "is stopped": "set its stopPolicy to None",
    "doesn't exist": "create it, or correct the name",
    "": "create what is missing, or correct the name; `multiqueue lint --cluster` has the fields",
}
"""What to do, by words of the cause."""


def _inactive(
    objects: QueueObjects, local_queue: str, cluster_queue: str
) -> Iterator[QueueFinding]:
    found = objects.cluster_queues.get(cluster_queue)
    why = explain_cluster_queue(found) if found is not None else ""
    if local_queue:
        why = explain_local_queue(objects, local_queue) or why
    if why:
        what = f"{why.rstrip('.')}: nothing is admitted"
        todo = next(todo for words, todo in _REMEDIES.items() if words in why)
        yield QueueFinding(cause="queue inactive", what=what, todo=todo)


def _misconfigured(waiting: Sequence[WaitingWorkload]) -> Iterator[QueueFinding]:
    wrong = [w for w in waiting if w.reason == Reason.MISCONFIGURED]
    if wrong:
        in_namespace = "namespace" in wrong[0].words
        yield QueueFinding(
            cause="misconfigured",
            what=f"{_name(wrong)}: {wrong[0].words}",
            todo="label the namespace as namespaceSelector of the ClusterQueue asks, or change it"
            if in_namespace
            else "correct the job, and submit it again",
        )


def _blocked(waiting: Sequence[WaitingWorkload]) -> Iterator[QueueFinding]:
    blocked = [w for w in waiting if w.answer is not None and w.answer.blocked_by is not None]
    if blocked:
        yield QueueFinding(
            cause="blocked head",
            what=f"{_name(blocked)}: {blocked[0].words}",
            todo="wait for it, hold or cancel it, or let the queue be BestEffortFIFO, in which "
            "smaller Workloads pass",
        )


def _too_large(waiting: Sequence[WaitingWorkload]) -> Iterator[QueueFinding]:
    large = [w for w in waiting if w.reason in _NEVER]
    if large:
        yield QueueFinding(
            cause="jobs too large",
            what=f"{_name(large)} can never start here: {large[0].words}",
            todo="ask for less, use another queue, or raise the quota or its borrowingLimit",
        )


def _share(waiting: Sequence[WaitingWorkload]) -> Iterator[QueueFinding]:
    short = [w for w in waiting if w.answer is not None and w.answer.lacks_share]
    if short:
        answer = short[0].answer
        assert answer is not None, "the caller has looked"
        yield QueueFinding(
            cause="share too small",
            what=f"{_name(short)}: {answer.no_preemption or short[0].words}",
            todo="wait until others end, or raise fairSharing.weight or the nominal quota",
        )


def _quota(waiting: Sequence[WaitingWorkload]) -> Iterator[QueueFinding]:
    def lacks(each: WaitingWorkload) -> bool:
        answer = each.answer
        is_other = answer is not None and (answer.lacks_share or answer.blocked_by is not None)
        return each.reason == Reason.WAITING_FOR_QUOTA and not is_other

    short = [w for w in waiting if lacks(w)]
    if short:
        kept = short[0].answer.no_preemption if short[0].answer is not None else ""
        what = f"{_name(short)}: {short[0].words}{f' ({kept})' if kept else ''}"
        yield QueueFinding(
            cause="quota too low",
            what=what,
            todo="wait until others end, raise nominalQuota or borrowingLimit, or let it preempt",
        )


def _workers(objects: QueueObjects, cluster_queue: str) -> Iterator[QueueFinding]:
    for name in _checks_of(objects, cluster_queue):
        check = objects.checks.get(name)
        if check is None or check.spec.controller_name != names.MULTIKUEUE_CONTROLLER:
            continue
        parameters = check.spec.parameters
        config = objects.configs.get(parameters.name) if parameters else None
        for worker in config.spec.clusters if config else ():
            if why := _unreachable(objects, worker):
                yield QueueFinding(
                    cause="worker out of reach",
                    what=f"{worker}: {why}",
                    todo=f"multiqueue clusters; then multiqueue clusters verify {worker}",
                )


def _unreachable(objects: QueueObjects, worker: str) -> str:
    cluster = objects.clusters.get(worker)
    if cluster is None:
        hidden = "multikueueclusters" in objects.hidden
        return "" if hidden else "there is no MultiKueueCluster of that name"
    active = find_condition(cluster.status.conditions, ACTIVE)
    if active is None:
        return "not connected yet"
    return "" if active.status == "True" else f"{active.reason}: {active.message}"


def _silent_checks(objects: QueueObjects, members: Sequence[Workload]) -> Iterator[QueueFinding]:
    """Yield the checks for which Workloads with quota have waited for long."""
    silent: dict[str, list[Workload]] = {}
    since: dict[str, str] = {}
    for workload in members:
        status = workload.status
        if workload_state.is_finished(status) or not workload_state.has_quota(status):
            continue
        for check in status.admission_checks:
            at = parse_time(check.last_transition_time)
            is_old = at is not None and objects.now - at >= SILENT_AFTER
            if check.state == CheckState.PENDING and is_old:
                silent.setdefault(check.name, []).append(workload)
                oldest = since.get(check.name, check.last_transition_time)
                since[check.name] = min(oldest, check.last_transition_time)
    for name, workloads in sorted(silent.items()):
        age = format_age(parse_time(since[name]), objects.now)
        found = objects.checks.get(name)
        controller = f"; its controller is {found.spec.controller_name}" if found else ""
        broken = explain_check(objects, name)
        waits = _name([WaitingWorkload(workload=each) for each in workloads])
        yield QueueFinding(
            cause="check without answer",
            what=f"{name} has not answered {waits} for {age}{f': {broken}' if broken else ''}",
            todo=f"see whether what answers it runs{controller}",
        )


def _checks_of(objects: QueueObjects, cluster_queue: str) -> list[str]:
    found = objects.cluster_queues.get(cluster_queue)
    strategy = found.spec.admission_checks_strategy if found is not None else None
    return [rule.name for rule in strategy.admission_checks] if strategy is not None else []


def _name(found: Sequence[WaitingWorkload]) -> str:
    """Return the first Workloads by name, and how many more there are."""
    shown = ", ".join(each.key for each in found[:MAX_NAMES])
    more = len(found) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
