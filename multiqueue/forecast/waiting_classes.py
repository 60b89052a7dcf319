"""The waiting Workloads of a worker, ready for a timeline. Pure.

Equal Workloads of one ClusterQueue form a line, ordered by rank. Lines are updated as Workloads
appear and disappear. What their Workloads need is computed on demand, and again after a change of a
queue or a flavor.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TypeVar

from multiqueue.engine.queues.entry import Rank, is_queueable, rank_of
from multiqueue.forecast.curve import Curve
from multiqueue.forecast.forecast_input import ShapeDemand, Waiter, WaitingClass, build_demand
from multiqueue.model.cluster_queue import ClusterQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Shape, Workload

_RANK = attrgetter("rank")
_Place = tuple[str, Shape]
FindRank = Callable[[Workload, str], Rank]
"""Returns the rank of a Workload in a ClusterQueue."""
T = TypeVar("T")
MOST = 10_000
"""Most shapes whose needs are cached."""
FEW = 64
"""So many Workloads may wait to be sorted into their lines."""


def find_submission_rank(workload: Workload, cluster_queue: str) -> Rank:
    """Return the rank by priority and submission: no policies are known of a worker's queues."""
    del cluster_queue
    return rank_of(workload)


class WaitingClasses:
    """Waiting Workloads by queue.

    Args:
        find_rank: Finds the rank of a Workload.

    Attributes:
        arrivals: Grows with every new waiting Workload.
    """

    def __init__(self, find_rank: FindRank = find_submission_rank) -> None:
        self.arrivals = 0
        self._find_rank = find_rank
        self._cluster_queues: dict[str, ClusterQueue] = {}
        self._flavors: dict[str, ResourceFlavor] = {}
        self._targets: dict[str, str] = {}
        self._waiting: dict[str, tuple[Workload, Curve]] = {}
        self._lines: dict[str, dict[Shape, list[Waiter]]] = {}
        self._places: dict[str, tuple[_Place, Waiter]] = {}
        self._demands: dict[_Place, ShapeDemand] = {}
        self._late: dict[str, tuple[Workload, Curve]] = {}

    # ------------------------------------------------------------ queues

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> None:
        """Add, change or (None) remove a ClusterQueue."""
        if _set(self._cluster_queues, name, queue):
            self._demands.clear()
            self.arrivals += 1

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> None:
        """Add, change or (None) remove a ResourceFlavor."""
        if _set(self._flavors, name, flavor):
            self._demands.clear()
            self.arrivals += 1

    def set_local_queue(self, key: str, cluster_queue: str | None) -> None:
        """Add, change or (None) remove a LocalQueue."""
        if not _set(self._targets, key, cluster_queue):
            return
        self.arrivals += 1
        for workload, curve in list(self._waiting.values()):
            if workload.queue == key:
                self._leave_line(workload.key)
                self._late[workload.key] = (workload, curve)

    # ------------------------------------------------------------ waiting Workloads

    def put(self, workload: Workload, curve: Curve) -> None:
        """Add or change a Workload."""
        known = self._waiting.get(workload.key)
        if known == (workload, curve):
            return
        self.drop(workload.key)
        if is_queueable(workload):
            self._late[workload.key] = self._waiting[workload.key] = (workload, curve)
            self.arrivals += known is None
            if self.unsettled_count >= FEW:
                self._settle()

    def drop(self, key: str) -> None:
        """Remove a Workload."""
        self._waiting.pop(key, None)
        self._late.pop(key, None)
        self._leave_line(key)

    def rank_again(self, cluster_queue: str) -> bool:
        """Follow a change of ranks in a queue; return whether there was one."""
        moved = [
            waiter.key
            for line in self._lines.get(cluster_queue, {}).values()
            for waiter in line
            if self._find_rank(self._waiting[waiter.key][0], cluster_queue) != waiter.rank
        ]
        for key in moved:
            self._leave_line(key)
            self._late[key] = self._waiting[key]
        return bool(moved)

    def _leave_line(self, key: str) -> None:
        place = self._places.pop(key, None)
        if place is None:
            return
        (queue, shape), waiter = place
        line = self._lines[queue][shape]
        del line[bisect_left(line, waiter.rank, key=_RANK)]
        if not line:
            del self._lines[queue][shape]

    @property
    def unsettled_count(self) -> int:
        """How many Workloads the next question puts in order first."""
        return len(self._late)

    def knows(self, key: str) -> bool:
        """Whether a Workload waits."""
        return key in self._waiting

    def of(self, queues: Iterable[str], *, without: str) -> list[WaitingClass]:
        """Return the lines of these queues, leaving out one Workload."""
        self._settle()
        own = self._places.get(without)
        found = []
        for name in queues:
            queue = self._cluster_queues.get(name)
            for shape, line in self._lines.get(name, {}).items() if queue is not None else ():
                assert queue is not None
                waiters: Sequence[Waiter] = line
                if own is not None and own[0] == (name, shape):
                    waiters = [waiter for waiter in line if waiter.key != without]
                if waiters:
                    demand = self._find_demand(self._waiting[waiters[0].key][0], queue)
                    found.append(WaitingClass(demand, waiters))
        return found

    def build_line(self, workload: Workload, curve: Curve) -> WaitingClass | None:
        """Return a line of one Workload alone; None if its queue is unknown."""
        queue = self._cluster_queues.get(self._targets.get(workload.queue, ""))
        if queue is None:
            return None
        rank = self._find_rank(workload, queue.name)
        waiter = Waiter(workload.key, rank, queue.name, curve)
        return WaitingClass(self._find_demand(workload, queue), (waiter,))

    def _find_demand(self, workload: Workload, queue: ClusterQueue) -> ShapeDemand:
        """Return what equal Workloads of a queue need; computed once for all of them."""
        place = (queue.name, workload.shape)
        found = self._demands.get(place)
        if found is None:
            if len(self._demands) >= MOST:
                self._demands.clear()
            found = self._demands[place] = build_demand(workload, queue, self._flavors)
        return found

    def _settle(self) -> None:
        for key, (workload, curve) in self._late.items():
            queue = self._targets.get(workload.queue)
            if queue is None:
                continue
            waiter = Waiter(key, self._find_rank(workload, queue), queue, curve)
            line = self._lines.setdefault(queue, {}).setdefault(workload.shape, [])
            insort(line, waiter, key=_RANK)
            self._places[key] = ((queue, workload.shape), waiter)
        self._late.clear()


def _set(objects: dict[str, T], key: str, value: T | None) -> bool:
    """Add, change or (None) remove a value; return whether that changed anything."""
    if objects.get(key) == value:
        return False
    if value is None:
        del objects[key]
    else:
        objects[key] = value
    return True
