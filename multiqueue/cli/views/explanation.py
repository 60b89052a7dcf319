"""Where one Workload stands and what it waits for, with the numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from multiqueue.api import names
from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.cluster_orders import Orders, read_orders
from multiqueue.api.conditions import ACTIVE, DRAINED, find_condition
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
from multiqueue.cli.views.slices import explain_slice, find_replaced_requests
from multiqueue.cli.views.topology import explain_topology
from multiqueue.cli.views.width import explain_width
from multiqueue.cli.views.workloads import WorkloadView, requests_on, view_workload
from multiqueue.lib.amount import Amount
from multiqueue.model.resources import format_amount
from multiqueue.multikueue.drains.report import find_stay, parse_report
from multiqueue.multikueue.filters import why_not
from multiqueue.multikueue.filters.candidate import Candidate, list_wishes
from multiqueue.multikueue.filters.restriction import list_names
from multiqueue.multikueue.phase import AT_WORK, ENDED, State

if TYPE_CHECKING:
    from multiqueue.cli.mirror import Mirror

MAX_TURNS = 8
"""LocalQueues named in a sentence about whose turn it is."""
_NEEDS_NUMBERS = frozenset({State.QUEUED, State.EVICTED, State.MOVING})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorNumbers:
    """Quota of one resource in one flavor, against what the Workload asks. Wire quantities."""

    flavor: str
    resource: str
    asked: str
    nominal: str
    used: str
    free: str
    borrowable: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker that the Workload could run on; ``there`` is what its copy there says."""

    name: str
    connected: bool
    role: str
    reason: str
    there: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that ``why`` shows.

    Attributes:
        cause: What is behind ``view.why``, where its queue admits nothing.
        next: When it goes on by itself, or what makes it go on; empty where quota decides.
        preempted: For whom it had to leave; empty where it had not.
        order: Whose turn it is where LocalQueues take turns; empty where they do not.
        pods: With how many it runs and why, where that depends on the hardware; else empty.
        asks: What it asks of a topology, or beyond what its job has, while it waits; else empty.
        stays: Why it runs on although its worker is taken out of use; empty where that is not.
        rivals: Whom it preempted and waits for, or whose pods it waits for.
    """

    view: WorkloadView
    cause: str
    next: str
    preempted: str
    order: str
    pods: str
    asks: str
    stays: str
    cluster_queue: str
    cohort: str
    position: int | None
    waiting: int
    rivals: tuple[RivalRow, ...]
    numbers: tuple[FlavorNumbers, ...]
    checks: tuple[CheckRow, ...]
    requests: tuple[RequestRow, ...]
    workers: tuple[WorkerRow, ...]
    conditions: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the form for ``-o json``."""
        return {
            **self.view.to_dict(),
            "cause": self.cause or None,
            "next": self.next or None,
            "preempted": self.preempted or None,
            "order": self.order or None,
            "pods": self.pods or None,
            "asks": self.asks or None,
            "stays": self.stays or None,
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
        }


def explain(
    mirror: Mirror,
    workload: Workload,
    remote: Mapping[str, str] | None = None,
    requests: Sequence[ProvisioningRequest] = (),
) -> Explanation:
    """Put together what is known about a Workload.

    Args:
        mirror: The cluster.
        workload: What to explain.
        remote: What its copies on workers say, by cluster.
        requests: Its ProvisioningRequests.
    """
    view = view_workload(workload, mirror.job_of(workload))
    queue = mirror.cluster_queue_of(workload)
    place = mirror.place_of(view.key)
    spec = mirror.cluster_queues[queue].spec if queue in mirror.cluster_queues else None
    waits_for = next_step(workload, mirror.now)
    counts = spec is not None and not waits_for and view.state in _NEEDS_NUMBERS
    return Explanation(
        view=view,
        cause=_cause(mirror, workload, view, queue),
        next=waits_for,
        preempted=explain_preemption(mirror, workload),
        order=_order(mirror, queue) if place else "",
        pods=explain_width(workload) if view.state not in ENDED else "",
        asks=_asks(mirror, workload) if view.state in _NEEDS_NUMBERS else "",
        stays=_stays(mirror, view) if view.state in AT_WORK else "",
        cluster_queue=queue,
        cohort=spec.cohort_name if spec else "",
        position=place.position_in_cluster_queue + 1 if place else None,
        waiting=len(mirror.pending(queue)) if spec else 0,
        rivals=list_rivals(mirror, workload),
        numbers=_numbers(mirror, workload, queue) if counts else (),
        checks=list_checks(mirror, workload),
        requests=list_requests(requests),
        workers=_workers(mirror, workload, queue, remote or {}),
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


def _cause(mirror: Mirror, workload: Workload, view: WorkloadView, queue: str) -> str:
    if view.state not in _NEEDS_NUMBERS:
        return ""
    key = names.key_of(workload.metadata.namespace, workload.spec.queue_name)
    cause = explain_local_queue(mirror, key)
    if not cause:
        return ""
    told = "" if cause in view.why else cause.rstrip(".")
    return "; ".join(filter(None, (told, explain_checks_of_queue(mirror, queue))))


def _stays(mirror: Mirror, view: WorkloadView) -> str:
    cluster = mirror.clusters.get(view.worker)
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


def _asks(mirror: Mirror, workload: Workload) -> str:
    asked = (explain_slice(workload, mirror.workloads), explain_topology(workload))
    return "; ".join(filter(None, asked))


def _order(mirror: Mirror, queue: str) -> str:
    """Say how the past usage of LocalQueues orders a ClusterQueue, with the numbers."""
    rows = mirror.past_usage(queue)
    if not rows:
        return ""
    shown = ", ".join(f"{key} {used:.4g}" for key, used in rows[:MAX_TURNS])
    more = f" and {len(rows) - MAX_TURNS} more" if len(rows) > MAX_TURNS else ""
    return f"LocalQueues take turns by past usage, the least first: {shown}{more}"


def _numbers(mirror: Mirror, workload: Workload, queue: str) -> tuple[FlavorNumbers, ...]:
    had = find_replaced_requests(workload, mirror.workloads)
    state = mirror.engine.cluster_queue_state(names.ClusterQueueName(queue))
    assert state is not None, "the mirror has fed it"
    rows = []
    for flavor, nominal_by_resource in state.nominal.items():
        found = mirror.flavors.get(flavor)
        requests = requests_on(workload, flavor, found.spec.node_labels if found else {})
        for resource, nominal in nominal_by_resource.items():
            asked = requests.get(resource, 0) - had.get(resource, 0)
            if asked <= 0:
                continue
            used = state.reservation.get(flavor, {}).get(resource)
            free = state.free.get(flavor, {}).get(resource, 0)
            borrowable = state.borrowable.get(flavor, {}).get(resource, 0)
            rows.append(
                FlavorNumbers(
                    flavor=flavor,
                    resource=resource,
                    asked=format_amount(resource, asked),
                    nominal=format_amount(resource, nominal),
                    used=format_amount(resource, used.total if used else 0),
                    free=format_amount(resource, free),
                    borrowable=format_amount(resource, borrowable),
                    verdict=_verdict(resource, asked, free=free, borrowable=borrowable),
                )
            )
    return tuple(rows)


def _verdict(resource: str, asked: int, *, free: Amount, borrowable: Amount) -> str:
    if asked <= free:
        return "fits"
    if asked <= free + borrowable:
        return "fits by borrowing"
    return f"{format_amount(resource, asked - free - borrowable)} more needed"


def _workers(
    mirror: Mirror, workload: Workload, queue: str, remote: Mapping[str, str]
) -> tuple[WorkerRow, ...]:
    status, job = workload.status, mirror.job_of(workload)
    rows = []
    for name in _candidate_clusters(mirror, workload, queue):
        cluster = mirror.clusters.get(name)
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


def _candidate_clusters(mirror: Mirror, workload: Workload, queue: str) -> list[str]:
    """Workers of the MultiKueue checks of the Workload, or of those that its queue will ask."""
    check_names = [check.name for check in workload.status.admission_checks]
    if not check_names and queue in mirror.cluster_queues:
        strategy = mirror.cluster_queues[queue].spec.admission_checks_strategy
        check_names = [rule.name for rule in strategy.admission_checks] if strategy else []
    found: dict[str, None] = {}
    for name in check_names:
        check = mirror.checks.get(name)
        if check is None or check.spec.controller_name != names.MULTIKUEUE_CONTROLLER:
            continue
        parameters = check.spec.parameters
        config = mirror.configs.get(parameters.name) if parameters else None
        found.update(dict.fromkeys(config.spec.clusters if config else ()))
    if found:
        # What it asks for is shown even where there is no such worker.
        wished = list_names(list_wishes(workload, mirror.job_of(workload))[0])
        found.update(dict.fromkeys(wished))
    return list(found)
