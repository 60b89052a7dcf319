"""The rows of `standings`: read from the informers and the engine when somebody asks.

A row is built again only if its Workload, its job, its position, its start or its reason changed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from multiqueue.api.names import key_of, split_key
from multiqueue.api.v1beta2 import Workload
from multiqueue.capacity.owners import find_job
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.model.owners import find_owner
from multiqueue.views.phase import PhaseState
from multiqueue.views.standing import Standing, view_standing
from multiqueue.visibility.fleet.journal import Journal
from multiqueue.visibility.fleet.queued_starts import QueuedStarts
from multiqueue.visibility.fleet.reasons import RowReasons
from multiqueue.visibility.fleet.resources import STANDINGS
from multiqueue.visibility.fleet.rows import FleetRow
from multiqueue.visibility.positions import PositionReader, Positions

MAX_CACHED = 20_000
"""Rows that are kept for the next reader: about 40 MB."""
STEP = 40
"""Rows that are built before other tasks run; this takes two or three milliseconds."""
ORDER_SECONDS, ORDER_SHARE = 1.0, 20
"""How old a queue's order in rows may be: a second, or twenty times as long as it took to sort.

So readers of a deep queue take at most one twentieth of the time.
"""
MAX_MOVED, MAX_RETOLD = 200, 20
"""Waiting Workloads at the head of a queue whose new positions, or reasons, are sent at once."""


class RowStarts(Protocol):
    """Estimates when a Workload starts."""

    def find_start(self, key: str) -> Mapping[str, Any] | None:
        """Return ``at``, ``earliest``, ``latest``, ...; or ``reason``; None if nothing is known."""
        ...


class _Known(NamedTuple):
    workload: Workload
    job: Mapping[str, Any] | None
    facts: Standing


class _Built(NamedTuple):
    facts: Standing
    position: int | None
    start: Mapping[str, Any] | None
    why: str
    row: FleetRow


class Standings:
    """The rows of all Workloads.

    Args:
        context: The manager's context.
        engine: Knows the queues.
        positions: Reads the queues' orders.
        starts: Foresees starts on workers.
        journal: Where moved positions, new starts and reasons are noted.
        queued: Estimates when Workloads get quota.
        reasons: Knows why Workloads wait.

    Attributes:
        built: How many rows were built since the start.
    """

    resource = STANDINGS

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        positions: PositionReader,
        starts: RowStarts,
        journal: Journal,
        *,
        queued: QueuedStarts,
        reasons: RowReasons,
    ) -> None:
        self._context = context
        self._engine = engine
        self._positions = positions
        self._starts = starts
        self._queued = queued
        self._reasons, self._retold = reasons, 0
        self._journal = journal
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._built: OrderedDict[str, _Built] = OrderedDict()
        self._orders: dict[str, tuple[float, Positions]] = {}
        self.built = 0

    @property
    def workloads(self) -> Any:
        """The store of Workloads."""
        return self._context.informers.workloads.store

    @property
    def remembered(self) -> int:
        """How many rows, and facts for rows, are remembered."""
        return len(self._known) + len(self._built)

    def list_keys(self) -> Iterable[str]:
        """Return the keys of all Workloads, in no order."""
        keys: list[str] = self.workloads.keys()
        return keys

    def find_facts(self, key: str) -> Standing | None:
        """Return where a Workload stands; None if it does not exist."""
        workload: Workload | None = self.workloads.get(key)
        if workload is None:
            self._known.pop(key, None)
            return None
        job = find_job(workload, self._context)
        known = self._known.get(key)
        if known is not None and known.workload is workload and known.job is job:
            return known.facts
        namespace = workload.metadata.namespace
        target = self._engine.local_queue_target(key_of(namespace, workload.spec.queue_name))
        facts = view_standing(
            workload, job, cluster_queue=target or "", team=self.find_team(namespace)
        )
        _keep(self._known, key, _Known(workload, job, facts))
        return facts

    def find_team(self, namespace: str) -> str:
        """Return the owner of a namespace: its label, or its name."""
        found = self._context.informers.namespaces.store.get(namespace) or {}
        return find_owner(namespace, found.get("metadata", {}).get("labels"))

    async def refresh(self) -> None:
        """Note Workloads whose place or reason at the head of a read queue, or start, changed."""
        for name in list(self._orders):
            await self._find_order(name)
        if self._retold != self._reasons.renew():
            await self._note_reasons()
        for key in await self._queued.refresh():
            self._journal.note(self.resource.plural, key)

    async def _note_reasons(self) -> None:
        self._retold = self._reasons.renew()
        heads = [key for _, order in self._orders.values() for key in order.keys[:MAX_RETOLD]]
        for count, key in enumerate(heads, start=1):
            built = self._built.get(key)
            if built is not None and built.why != self._find_why(key, built.facts):
                self._journal.note(self.resource.plural, key)
            if count % STEP == 0:
                await asyncio.sleep(0)

    async def find_rows(self, keys: Sequence[str]) -> list[FleetRow]:
        """Return the rows of these Workloads that exist, in this order."""
        rows = []
        for count, key in enumerate(keys, start=1):
            facts = self.find_facts(key)
            if facts is not None:
                rows.append(await self._build(key, facts))
            if count % STEP == 0:
                await asyncio.sleep(0)
        return rows

    async def _build(self, key: str, facts: Standing) -> FleetRow:
        position = await self.find_position(key, facts)
        start = await self._find_start(key, facts)
        why = self._find_why(key, facts)
        built = self._built.get(key)
        if built is not None and built.facts is facts and built[1:4] == (position, start, why):
            return built.row
        self.built += 1
        row = FleetRow.of(key, facts.metadata(), facts.status(position, start, why))
        _keep(self._built, key, _Built(facts, position, start, why, row))
        return row

    def _find_why(self, key: str, facts: Standing) -> str:
        if facts.view.state is not PhaseState.QUEUED or not facts.cluster_queue:
            return facts.why
        return self._reasons.find_words(key, facts.uid, facts.cluster_queue) or facts.why

    async def _find_start(self, key: str, facts: Standing) -> Mapping[str, Any] | None:
        if facts.view.state is PhaseState.QUEUED:
            return await self._queued.find_start(key)
        return self._starts.find_start(key)

    async def find_position(self, key: str, facts: Standing) -> int | None:
        """Return the position in the ClusterQueue from 1; None if it does not wait there."""
        if facts.view.state is not PhaseState.QUEUED or not facts.cluster_queue:
            return None
        order = await self._find_order(facts.cluster_queue)
        place = order.places.get(key)
        return None if place is None else place + 1

    async def _find_order(self, cluster_queue: str) -> Positions:
        loop = asyncio.get_running_loop()
        begun, known = loop.time(), self._orders.get(cluster_queue)
        if known is not None and begun < known[0]:
            return known[1]
        order = await self._positions.of_cluster_queue(cluster_queue) or Positions()
        ended = loop.time()
        due_at = ended + max(ORDER_SECONDS, ORDER_SHARE * (ended - begun))
        self._orders[cluster_queue] = (due_at, order)
        if known is not None and known[1] is not order:
            for place, key in enumerate(order.keys[:MAX_MOVED]):
                if known[1].places.get(key) != place:
                    self._journal.note(self.resource.plural, key)
        return order

    def forget(self, key: str) -> None:
        """Forget a Workload that is gone."""
        self._known.pop(key, None)
        self._built.pop(key, None)

    def forget_unread(self) -> None:
        """Forget the orders of queues, so that nothing is sorted while nobody reads."""
        self._orders.clear()


def _keep(cache: OrderedDict[str, Any], key: str, value: object) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > MAX_CACHED:
        cache.popitem(last=False)


def namespace_of(key: str) -> str:
    """Return the namespace of a row's key."""
    return split_key(key)[0]
