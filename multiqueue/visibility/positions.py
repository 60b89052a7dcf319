"""The order of a queue, computed on request and shared until the queue changes.

Sorting a deep queue takes a third of a second. So it is done in steps between which other tasks can
run, and all readers of one state of a queue share the result.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from multiqueue.engine.engine import Engine

MAX_ORDERS = 8
"""The number of queues whose order is cached; an order of 100,000 Workloads takes 10 MB."""


@dataclass(frozen=True, slots=True)
class Positions:
    """The order of one ClusterQueue.

    ``keys`` has the Workloads in queue order, ``places`` the index of each; ``in_local_queue`` each
    one's position within its LocalQueue; ``by_local_queue`` the indexes in ``keys`` of a
    LocalQueue's Workloads.
    """

    keys: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    in_local_queue: array[int] = field(default_factory=lambda: array("l"))
    by_local_queue: dict[str, array[int]] = field(default_factory=dict)

    def add(self, key: str, local_queue: str) -> None:
        """Append the next Workload."""
        mine = self.by_local_queue.get(local_queue)
        if mine is None:
            mine = self.by_local_queue[local_queue] = array("l")
        self.in_local_queue.append(len(mine))
        place = self.places[key] = len(self.keys)
        mine.append(place)
        self.keys.append(key)


NOBODY = Positions()


class _Order(NamedTuple):
    """``number`` of the sort that made it, and the queue's ``revision`` when that sort began."""

    number: int
    revision: object
    positions: Positions


class PositionReader:
    """Reads positions from the engine.

    A standby's engine receives the same changes as the leader's, so every replica can answer.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._orders: OrderedDict[str, _Order] = OrderedDict()
        self._sorting = asyncio.Lock()
        self._sorted = 0

    async def of_cluster_queue(self, name: str) -> Positions | None:
        """Return the order of a ClusterQueue; None if there is no such queue.

        The returned order was correct at some moment since the call.
        """
        asked_at = self._sorted
        async with self._sorting:  # other readers wait for the result, or for their turn
            order = self._orders.get(name)
            revision = self._engine.pending_revision(name)
            if revision is None:
                return None
            if order is None or (order.revision is not revision and order.number <= asked_at):
                order = await self._sort(name, revision)
            return order.positions

    async def _sort(self, name: str, revision: object) -> _Order:
        self._sorted += 1
        order = self._orders[name] = _Order(self._sorted, revision, Positions())
        try:
            for piece in self._engine.pending_in_steps(name):
                for key, local_queue in piece:
                    order.positions.add(key, local_queue)
                await asyncio.sleep(0)
        except BaseException:
            del self._orders[name]  # it is incomplete
            raise
        self._orders.move_to_end(name)
        if len(self._orders) > MAX_ORDERS:
            self._orders.popitem(last=False)
        return order

    async def of_local_queue(self, key: str) -> Positions | None:
        """Return the order of a LocalQueue's ClusterQueue; None if there is no such LocalQueue.

        The order is empty if its ClusterQueue does not exist.
        """
        target = self._engine.local_queue_target(key)
        if target is None:
            return None
        return await self.of_cluster_queue(target) or NOBODY
