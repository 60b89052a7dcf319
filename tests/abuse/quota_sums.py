"""What the queues of a cluster say of quota, against what the Workloads there say. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from multiqueue.lib.quantity import parse_quantity
from tests.abuse.fleet import Object
from tests.integration.waiting import is_true


@dataclass(slots=True)
class Sums:
    """Counts and amounts of one queue; amounts by flavor and resource, those of zero left out."""

    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    reservation: Counter[tuple[str, str]] = field(default_factory=Counter)
    usage: Counter[tuple[str, str]] = field(default_factory=Counter)


def told(status: Object) -> Sums:
    """Return what the status of a ClusterQueue or LocalQueue says."""
    return Sums(
        pending=status["pendingWorkloads"],
        reserving=status["reservingWorkloads"],
        admitted=status["admittedWorkloads"],
        reservation=_amounts(status.get("flavorsReservation") or ()),
        usage=_amounts(status.get("flavorsUsage") or ()),
    )


def counted(workloads: Iterable[Object]) -> Sums:
    """Return what these Workloads hold together."""
    sums = Sums()
    for workload in workloads:
        if is_true(workload, "Finished") or not workload["spec"].get("active", True):
            continue
        if not is_true(workload, "QuotaReserved"):
            sums.pending += 1
            continue
        held = _held(workload)
        sums.reserving += 1
        sums.reservation.update(held)
        if is_true(workload, "Admitted"):
            sums.admitted += 1
            sums.usage.update(held)
    return sums


def compare(
    cluster_queues: Sequence[Object], local_queues: Sequence[Object], workloads: Sequence[Object]
) -> Iterator[str]:
    """Yield each queue whose status says something else than its Workloads."""
    leads_to = {
        (queue["metadata"]["namespace"], queue["metadata"]["name"]): queue["spec"]["clusterQueue"]
        for queue in local_queues
    }
    by_local: dict[tuple[str, str], list[Object]] = {key: [] for key in leads_to}
    by_cluster: dict[str, list[Object]] = {q["metadata"]["name"]: [] for q in cluster_queues}
    for workload in workloads:
        key = (workload["metadata"]["namespace"], workload["spec"].get("queueName", ""))
        by_local.get(key, []).append(workload)
        by_cluster.get(leads_to.get(key, ""), []).append(workload)
    for queue in (*cluster_queues, *local_queues):
        meta = queue["metadata"]
        name, namespace = meta["name"], meta.get("namespace")
        its = by_cluster[name] if namespace is None else by_local[namespace, name]
        says, want = told(queue["status"]), counted(its)
        if says != want:
            yield f'{queue["kind"]} "{name}": its status says {says}, its Workloads {want}'


def _amounts(flavors: Iterable[Object]) -> Counter[tuple[str, str]]:
    amounts = Counter(
        {
            (flavor["name"], each["name"]): _milli(each["total"])
            for flavor in flavors
            for each in flavor["resources"]
        }
    )
    return +amounts


def _held(workload: Object) -> Counter[tuple[str, str]]:
    held: Counter[tuple[str, str]] = Counter()
    for assigned in workload["status"]["admission"]["podSetAssignments"]:
        for resource, flavor in (assigned.get("flavors") or {}).items():
            held[flavor, resource] += _milli(assigned["resourceUsage"][resource])
    return +held


def _milli(quantity: str) -> int:
    return parse_quantity(quantity).milli_value()
