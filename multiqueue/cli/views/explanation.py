"""The state of one Workload and why it waits, with the numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from multiqueue.api import names
from multiqueue.api.conditions import (
    ACTIVE,
    DRAINED,
    Reason,
    WorkloadCondition,
    find_condition,
)
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_finished
from multiqueue.cli.views.checks import (
    CheckRow,
    RequestRow,
    explain_checks_of_queue,
    list_checks,
    list_requests,
    next_step,
)
from multiqueue.cli.views.inactive import explain_local_queue
from multiqueue.cli.views.rivals import RivalRow, explain_preemption, list_rivals
from multiqueue.cli.views.slices import explain_slice
from multiqueue.cli.views.topology import explain_topology
from multiqueue.cli.views.width import explain_width
from multiqueue.cli.visibility import FlavorNumbers, ManagerAnswer
from multiqueue.views.phase import AT_WORK, ENDED, PhaseState
from multiqueue.views.workloads import WorkloadRow, view_workload

if TYPE_CHECKING:
    from multiqueue.api.autoscaling import ProvisioningRequest
    from multiqueue.cli.queue_objects import QueueObjects

MAX_TURNS = 8
"""The number of LocalQueues named in a sentence about their turns."""
ENDLESS = 2**63 - 1
"""The weighted share of a queue that borrows with weight zero."""
NO_ANSWER = ManagerAnswer()
NEEDS_NUMBERS = frozenset({PhaseState.QUEUED, PhaseState.EVICTED, PhaseState.MOVING})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker that the Workload could run on; ``there`` is the state of its copy there."""

    name: str
    connected: bool
    role: str
    reason: str
    there: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadExplanation:
    """Everything that ``why`` shows.

    Attributes:
        owner: Who is charged for it, and whose budgets count its stops.
        cause: The cause of ``view.why``, if its queue admits nothing.
        next: When, or by whose action, it continues; empty if quota decides.
        preempted: The Workload that preempted it; empty if none did.
        order: Whose turn it is, if LocalQueues take turns; else empty.
        share: How much its ClusterQueue borrows, compared with other queues, with fair sharing;
            else empty.
        no_preemption: Why no running Workload leaves for it; empty if one does, or none has to.
        pods: How many pods it runs with and why, if that depends on the hardware; else empty.
        asks: Its topology request, or its request beside its running job, while it waits; else
            empty.
        stays: Why it runs on although its worker is cordoned or drained; else empty.
        start: When it is expected to start, as the manager tells it; empty if it does not wait.
        position, waiting, numbers: The manager's numbers; None or empty if it gave none.
        rivals: Workloads that must leave first: those that it preempted, and those whose pods
            still run.
        problem: What is missing in the manager's answer, and why; empty if nothing is.
    """

    view: WorkloadRow
    owner: str
    cause: str
    next: str
    preempted: str
    order: str
    share: str
    no_preemption: str
    pods: str
    asks: str
    stays: str
    start: Mapping[str, Any]
    cluster_queue: str
    cohort: str
    position: int | None
    waiting: int | None
    rivals: tuple[RivalRow, ...]
    numbers: tuple[FlavorNumbers, ...]
    checks: tuple[CheckRow, ...]
    requests: tuple[RequestRow, ...]
    workers: tuple[WorkerRow, ...]
    conditions: tuple[dict[str, Any], ...]
    problem: str

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation for ``-o json``."""
        return {
            **self.view.to_dict(),
            "owner": self.owner,
            "cause": self.cause or None,
            "next": self.next or None,
            "preempted": self.preempted or None,
            "order": self.order or None,
            "share": self.share or None,
            "noPreemption": self.no_preemption or None,
            "pods": self.pods or None,
            "asks": self.asks or None,
            "stays": self.stays or None,
            "start": dict(self.start) or None,
            "clusterQueue": self.cluster_queue or None,
            "cohort": self.cohort or None,
            "position": self.position,
            "waiting": self.waiting,
            "rivals": [asdict(row) for row in self.rivals],
            "flavors": [asdict(row) for row in self.numbers],
            "checks": [asdict(row) for row in self.checks],
            "provisioningRequests": [asdict(row) for row in self.requests],
            "workers": [asdict(row) for row in self.workers],
            "conditions": list(self.conditions),
            "problem": self.problem or None,
        }


def explain(
    objects: QueueObjects,
    workload: Workload,
    answer: ManagerAnswer = NO_ANSWER,
    *,
    remote: Mapping[str, str] | None = None,
    requests: Sequence[ProvisioningRequest] = (),
    owner: str = "",
) -> WorkloadExplanation:
    """Collect what is known about a Workload.

    Args:
        objects: The cluster's objects.
        workload: The Workload to explain.
        answer: The manager's answer, if the Workload waits.
        remote: The state of its copies on workers, by cluster.
        requests: Its ProvisioningRequests.
        owner: The owner of its namespace, by which usage is added up.
    """
    view = _why(view_workload(workload, objects.job_of(workload)), workload, answer)
    queue = objects.cluster_queue_of(workload) or answer.cluster_queue
    spec = objects.cluster_queues[queue].spec if queue in objects.cluster_queues else None
    waits_for = next_step(workload, objects.now)
    place = answer.place
    return WorkloadExplanation(
        view=view,
        owner=owner or workload.metadata.namespace,
        cause=_cause(objects, workload, view, queue),
        next=waits_for,
        preempted=explain_preemption(objects, workload),
        order=_order(answer) if place else "",
        share=_share(answer) if place else "",
        no_preemption=answer.no_preemption if place else "",
        pods=explain_width(workload) if view.state not in ENDED else "",
        asks=_asks(objects, workload) if view.state in NEEDS_NUMBERS else "",
        stays=_stays(objects, view) if view.state in AT_WORK else "",
        start=answer.start if view.state in NEEDS_NUMBERS else {},
        cluster_queue=queue,
        cohort=spec.cohort_name if spec else "",
        position=place.in_cluster_queue if place else None,
        waiting=answer.waiting,
        rivals=list_rivals(objects, workload),
        numbers=answer.numbers if view.state in NEEDS_NUMBERS and not waits_for else (),
        checks=list_checks(objects, workload),
        requests=list_requests(requests),
        workers=_workers(objects, workload, queue, remote or {}),
        problem=answer.problem,
        conditions=tuple(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "since": condition.last_transition_time,
            }
            for condition in workload.status.conditions
        ),
    )


def _cause(objects: QueueObjects, workload: Workload, view: WorkloadRow, queue: str) -> str:
    if view.state not in NEEDS_NUMBERS:
        return ""
    key = names.key_of(workload.metadata.namespace, workload.spec.queue_name)
    cause = explain_local_queue(objects, key)
    if not cause:
        return ""
    told = "" if cause in view.why else cause.rstrip(".")
    return "; ".join(filter(None, (told, explain_checks_of_queue(objects, queue))))


def _stays(objects: QueueObjects, view: WorkloadRow) -> str:
    from multiqueue.api.cluster_orders import Orders, read_orders
    from multiqueue.drain.report import find_stay, parse_report

    cluster = objects.clusters.get(view.worker)
    orders = read_orders(cluster.metadata.annotations) if cluster is not None else Orders()
    if cluster is None or not orders.cordoned:
        return ""
    told = f"{view.worker} {orders.refusal}"
    if orders.problem:
        return f"{told}; nothing is moved: {orders.problem}"
    if orders.drain is None:
        return f"{told}; what runs there goes on"
    drained = find_condition(cluster.status.conditions, DRAINED)
    message = drained.message if drained is not None else ""
    why = find_stay(message, view.key) or parse_report(message).trouble
    return f"{told}; it stays for now: {why}" if why else f"{told}; it is moved when its turn comes"


def _asks(objects: QueueObjects, workload: Workload) -> str:
    asked = (explain_slice(workload, objects.workloads), explain_topology(workload))
    return "; ".join(filter(None, asked))


def _why(view: WorkloadRow, workload: Workload, answer: ManagerAnswer) -> WorkloadRow:
    """Use the manager's reason, which may be newer than the Workload's condition."""
    written = find_condition(workload.status.conditions, WorkloadCondition.QUOTA_RESERVED)
    # A new leader has evaluated nothing yet, so the written condition says more.
    is_unseen = answer.reason == Reason.PENDING_EVALUATION and answer.why in {"", answer.message}
    is_older = is_unseen and written is not None
    if view.state is not PhaseState.QUEUED or not answer.reason or is_older:
        return view
    words = answer.why or answer.message
    told = f"{answer.reason}: {words}" if words else answer.reason
    return replace(view, phase=replace(view.phase, why=told))


def _order(answer: ManagerAnswer) -> str:
    """Return how past usage orders the LocalQueues of a ClusterQueue, with the numbers."""
    rows = [
        f"{name or 'one of another namespace'} {'endless' if used is None else f'{used:.4g}'}"
        for name, used in answer.past_usage
    ]
    if not rows:
        return ""
    more = f" and {len(rows) - MAX_TURNS} more" if len(rows) > MAX_TURNS else ""
    shown = ", ".join(rows[:MAX_TURNS])
    return f"LocalQueues take turns by past usage, the least first: {shown}{more}"


def _share(answer: ManagerAnswer) -> str:
    """Return how much the ClusterQueues of the cohort use of what others lend."""
    if answer.share is None:
        return ""
    own = f"ClusterQueue {answer.cluster_queue} has a weighted share of {_number(answer.share)}"
    others = [
        f"{name or 'another queue'} {_number(share)}"
        for name, share in answer.shares
        if name != answer.cluster_queue
    ]
    more = f" and {len(others) - MAX_TURNS} more" if len(others) > MAX_TURNS else ""
    beside = f" (others: {', '.join(others[:MAX_TURNS])}{more})" if others else ""
    return f"{own}{beside}; less goes first"


def _number(share: int) -> str:
    return "endless" if share == ENDLESS else str(share)


def _workers(
    objects: QueueObjects, workload: Workload, queue: str, remote: Mapping[str, str]
) -> tuple[WorkerRow, ...]:
    candidates = _candidate_clusters(objects, workload, queue)
    if not candidates:
        return ()
    from multiqueue.capacity.filters import Candidate, why_not

    status, job = workload.status, objects.job_of(workload)
    rows = []
    for name in candidates:
        cluster = objects.clusters.get(name)
        active = find_condition(cluster.status.conditions, ACTIVE) if cluster else None
        connected = active is not None and active.status == "True"
        reason = ""
        if cluster is None:
            reason = "no such MultiKueueCluster"
        elif active is None:
            reason = "not connected yet; is a manager running?"
        elif not connected:
            reason = f"{active.reason}: {active.message}"
        elif not is_finished(status):
            reason = why_not(Candidate(cluster=cluster, workload=workload, job=job))
        role = ""
        if name == status.cluster_name:
            role = "ran here" if is_finished(status) else "runs here"
        elif name in status.nominated_cluster_names:
            role = "nominated"
        rows.append(
            WorkerRow(
                name=name,
                connected=connected,
                role=role,
                reason=reason,
                there=remote.get(name, ""),
            )
        )
    return tuple(rows)


def _candidate_clusters(objects: QueueObjects, workload: Workload, queue: str) -> list[str]:
    """Return the workers of the Workload's MultiKueue checks, or of its queue's checks."""
    check_names = [check.name for check in workload.status.admission_checks]
    if not check_names and queue in objects.cluster_queues:
        strategy = objects.cluster_queues[queue].spec.admission_checks_strategy
        check_names = [rule.name for rule in strategy.admission_checks] if strategy else []
    found: dict[str, None] = {}
    for name in check_names:
        check = objects.checks.get(name)
        if check is None or check.spec.controller_name != names.MULTIKUEUE_CONTROLLER:
            continue
        parameters = check.spec.parameters
        config = objects.configs.get(parameters.name) if parameters else None
        found.update(dict.fromkeys(config.spec.clusters if config else ()))
    if found:
        from multiqueue.capacity.filters import list_constraints, list_names

        # A requested cluster is shown even if there is no such worker.
        wished = list_names(list_constraints(workload, objects.job_of(workload))[0])
        found.update(dict.fromkeys(wished))
    return list(found)
