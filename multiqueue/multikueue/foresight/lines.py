"""Who waits on a worker, ready to be played forward. Pure.

Equals of one ClusterQueue stand in one line, by rank. Lines are kept as Workloads come and go, and
built anew when a queue or a flavor changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from operator import attrgetter
from typing import TypeVar

from multiqueue.engine.flavors.eligibility import wants_topology
from multiqueue.engine.queues.entry import is_queueable, rank_of
from multiqueue.model.cluster_queue import ClusterQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Shape, Workload
from multiqueue.multikueue.foresight.curve import Curve
from multiqueue.multikueue.foresight.needs import Needs, build_needs
from multiqueue.multikueue.foresight.runs import draw_shares
from multiqueue.multikueue.foresight.sites import Gang
from multiqueue.multikueue.foresight.timeline import Waiter

_RANK = attrgetter("rank")
_Place = tuple[str, Shape]
T = TypeVar("T")


class Lines:
    """Who waits, by queue.

    Attributes:
        arrivals: Grows with everybody who comes to wait.
    """

    def __init__(self) -> None:
        self.arrivals = 0
        self._cluster_queues: dict[str, ClusterQueue] = {}
        self._flavors: dict[str, ResourceFlavor] = {}
        self._targets: dict[str, str] = {}
        self._waiting: dict[str, tuple[Workload, Curve]] = {}
        self._lines: dict[str, dict[Shape, list[Waiter]]] = {}
        self._places: dict[str, tuple[_Place, Waiter]] = {}
        self._late: set[str] = set()

    # ------------------------------------------------------------ queues

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> None:
        """Add, change or (None) remove a ClusterQueue."""
        self._set(self._cluster_queues, name, queue)

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> None:
        """Add, change or (None) remove a ResourceFlavor."""
        self._set(self._flavors, name, flavor)

    def set_local_queue(self, key: str, cluster_queue: str | None) -> None:
        """Add, change or (None) remove a LocalQueue."""
        self._set(self._targets, key, cluster_queue)

    def _set(self, objects: dict[str, T], key: str, value: T | None) -> None:
        if objects.get(key) == value:
            return
        if value is None:
            del objects[key]
        else:
            objects[key] = value
        self._lines.clear()
        self._places.clear()
        self._late = set(self._waiting)
        self.arrivals += 1

    # ------------------------------------------------------------ who waits

    def put(self, workload: Workload, curve: Curve) -> None:
        """Add or change one; it is put in line when somebody asks."""
        known = self._waiting.get(workload.key)
        if known == (workload, curve):
            return
        self.drop(workload.key)
        if is_queueable(workload):
            self._waiting[workload.key] = (workload, curve)
            self._late.add(workload.key)
            self.arrivals += known is None

    def drop(self, key: str) -> None:
        """Remove one."""
        self._waiting.pop(key, None)
        self._late.discard(key)
        place = self._places.pop(key, None)
        if place is None:
            return
        (queue, shape), waiter = place
        line = self._lines[queue][shape]
        del line[bisect_left(line, waiter.rank, key=_RANK)]
        if not line:
            del self._lines[queue][shape]

    def knows(self, key: str) -> bool:
        """Whether a Workload waits."""
        return key in self._waiting

    def of(self, queues: Iterable[str], *, without: str) -> list[list[Waiter]]:
        """Return the lines of these queues; the Workload of that key stands in none."""
        self._settle()
        own = self._places.get(without)
        found = [line for queue in queues for line in self._lines.get(queue, {}).values()]
        if own is None:
            return found
        rest = ([waiter for waiter in line if waiter.key != without] for line in found)
        return [line for line in rest if line]

    def build_waiter(self, workload: Workload, curve: Curve) -> Waiter | None:
        """Return a Workload as it would wait; None where its queue is unknown."""
        name = self._targets.get(workload.queue, "")
        queue = self._cluster_queues.get(name)
        if queue is None:
            return None
        needs = build_needs(workload, queue, self._flavors)
        flavors = _flavors_of(needs)
        is_implied = all(self._flavors[flavor].topology_name for flavor in flavors)
        return Waiter(
            key=workload.key,
            rank=rank_of(workload),
            queue=name,
            needs=needs,
            curve=curve,
            shares=draw_shares(workload.key),
            gangs=tuple(
                Gang(pod_set.count, pod_set.node_requests, pod_set.topology_request)
                for pod_set in workload.pod_sets
                if is_implied or wants_topology(pod_set)
            ),
            flavors=flavors,
        )

    def _settle(self) -> None:
        for key in sorted(self._late):
            workload, curve = self._waiting[key]
            waiter = self.build_waiter(workload, curve)
            if waiter is None:
                continue
            lines = self._lines.setdefault(waiter.queue, {})
            insort(lines.setdefault(workload.shape, []), waiter, key=_RANK)
            self._places[key] = ((waiter.queue, workload.shape), waiter)
        self._late.clear()


def _flavors_of(needs: Needs) -> tuple[str, ...]:
    found = {pair[0] for options in needs for option in options for pair, _ in option}
    return tuple(sorted(found))
