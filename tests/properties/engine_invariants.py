"""What must hold of an engine after every event, whatever it is: looked at from the inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.engine import Engine
from multiqueue.engine.fairness.usage import add, weigh
from multiqueue.engine.queues.entry import Entry, QueuePlace
from multiqueue.engine.queues.lanes import Lanes
from multiqueue.engine.tas.charges import placed_pods
from multiqueue.model.workload import Workload

Pair = tuple[str, str]


def assert_all(engine: Engine, known: Mapping[str, Workload]) -> None:
    assert_sums_hold(engine)
    assert_slices_hold(engine)
    assert_local_queues_hold(engine)
    assert_nodes_hold(engine)
    assert_nothing_is_lost(engine, known)
    assert_everybody_is_looked_at(engine)
    assert_past_usage_holds(engine)


def total(entries: Iterable[Entry]) -> dict[Pair, int]:
    """Return what workloads hold together, without zeros."""
    found: dict[Pair, int] = {}
    for entry in entries:
        for pair, amount in entry.usage.items():
            found[pair] = found.get(pair, 0) + amount
    return {pair: amount for pair, amount in found.items() if amount}


def nodes_of(tree: Tree) -> list[QuotaNode]:
    return [*tree.cohorts.values(), *(queue.node for queue in tree.queues.values())]


def assert_sums_hold(engine: Engine) -> None:
    """Each queue uses what its workloads hold, each cohort what its children borrow (E-33)."""
    holders_by_queue = engine.parts.quota_usage.holders
    for tree in engine.parts.cache.trees.values():
        nodes = nodes_of(tree)
        for cohort in tree.cohorts.values():
            children = [node for node in nodes if node.parent is cohort]
            for slot in range(len(cohort.usage)):
                assert cohort.usage[slot] == sum(borrowed(child, slot) for child in children)
        for queue in tree.queues.values():
            holders = holders_by_queue.get(queue.name, {}).values()
            admitted = [entry for entry in holders if entry.admitted]
            assert queue.usage() == total(holders)
            assert queue.admitted_usage == total(admitted)
            assert (queue.reserving, queue.admitted) == (len(holders), len(admitted))
    everybody = [entry for holders in holders_by_queue.values() for entry in holders.values()]
    assert engine.parts.quota_usage.unready == sum(
        not entry.workload.pods_ready for entry in everybody
    )


def assert_slices_hold(engine: Engine) -> None:
    """What a slice took over is counted once, and all else in full (E-167)."""
    for holders in engine.parts.quota_usage.holders.values():
        taken = {entry.took_from for entry in holders.values()}
        for entry in holders.values():
            reservation = entry.workload.reservation
            if entry.key in taken and not takes_from_itself(entry, holders):
                assert entry.usage == {}
            elif reservation is not None and not entry.assumed:
                assert entry.usage == reservation.admission.usage()


def takes_from_itself(entry: Entry, holders: Mapping[str, Entry]) -> bool:
    key = entry.took_from
    for _ in holders:
        if key == entry.key:
            return True
        key = holders[key].took_from if key in holders else ""
    return False


def borrowed(child: QuotaNode, slot: int) -> int:
    return sum(
        max(0, child.usage[own] - child.local_quota[own])
        for own, above in enumerate(child.up)
        if above == slot
    )


def assert_local_queues_hold(engine: Engine) -> None:
    """Each LocalQueue counts its own workloads."""
    by_queue: dict[str, dict[str, Entry]] = {}
    for key, entry in engine.parts.entries.items():
        by_queue.setdefault(entry.workload.queue, {})[key] = entry
    records = engine.parts.quota_usage.local_queues
    assert by_queue.keys() <= records.keys()
    for name, record in records.items():
        entries = by_queue.get(name, {})
        holders = [entry for entry in entries.values() if entry.place is QueuePlace.HOLDING]
        admitted = [entry for entry in holders if entry.admitted]
        assert record.entries == entries
        assert record.waiting == sum(bool(entry.queue) for entry in entries.values())
        assert (record.reserving, record.admitted) == (len(holders), len(admitted))
        assert record.reserved_usage == total(holders)
        assert record.admitted_usage == total(admitted)


def assert_nodes_hold(engine: Engine) -> None:
    """What is taken of nodes is what the pods of the holders take, and nothing else (E-130)."""
    cache, quota_usage = engine.parts.cache, engine.parts.quota_usage
    usage = cache.forest.usage
    expected = {}
    for holders in quota_usage.holders.values():
        for key, entry in holders.items():
            reservation = entry.workload.reservation
            admission = quota_usage.placing.get(key, reservation and reservation.admission)
            if admission is not None and not entry.assumed:
                placed = placed_pods(entry.workload, admission, cache.flavors)
                expected[key] = usage.charges_of(placed)
            else:
                expected[key] = usage.of(key)
    assert {key: charges for key, charges in expected.items() if charges} == usage.charges
    rooms: dict[object, dict[str, int]] = {}
    for charges in expected.values():
        for charge in charges:
            room = rooms.setdefault((charge.pool, charge.key), {})
            for resource, amount in charge.requests:
                room[resource] = room.get(resource, 0) + amount * charge.pods
    without_zeros = {
        at: {name: amount for name, amount in room.items() if amount}
        for at, room in usage.rooms.items()
    }
    assert {at: room for at, room in without_zeros.items() if room} == rooms


def assert_nothing_is_lost(engine: Engine, known: Mapping[str, Workload]) -> None:
    """Every unfinished workload is in exactly one place, and the places know it."""
    entries = engine.parts.entries
    assert set(entries) == set(known)
    for key, entry in entries.items():
        waits_in = [name for name, p in engine.parts.pending.items() if key in p.members]
        holds = [name for name, h in engine.parts.quota_usage.holders.items() if key in h]
        if entry.place is QueuePlace.HOLDING:
            assert (waits_in, holds) == ([], [entry.charged])
            assert not entry.displaced
        elif entry.place is QueuePlace.NOWHERE:
            assert (waits_in, holds) == ([], [])
        else:
            assert (waits_in, holds) == ([entry.queue], [])
        assert entry.place is QueuePlace.HOLDING or not (entry.preempted or entry.assumed)
        assert (entry.equals is not None) == (entry.place is QueuePlace.QUEUED)
        if entry.equals is not None:
            assert (entry in entry.equals.active) != (entry in entry.equals.parked)
    for pending in engine.parts.pending.values():
        assert pending.sticky is None or pending.sticky.key in pending.members


def assert_everybody_is_looked_at(engine: Engine) -> None:
    """Whoever is active is in the schedule of its tree, and so is whoever is parked (E-27)."""
    for name, pending in engine.parts.pending.items():
        tree = engine.parts.cache.tree_by_queue[name]
        schedule = engine.parts.schedule.tree(tree.key)
        for entry in pending.members.values():
            if entry.place is QueuePlace.HELD:
                backoff = (
                    entry.workload.requeue_at is not None or entry in engine.parts.schedule.backoffs
                )
                assert backoff
            elif entry.is_parked:
                assert name in schedule.parked
            elif tree.queues[name].is_active:
                assert name in schedule.heads
        heads = [e for e in pending.members.values() if e.equals and e in e.equals.active]
        assert (pending.classes.peek() is None) == (not heads)


def assert_past_usage_holds(engine: Engine) -> None:
    """Penalties are of unfinished workloads (E-125); values and the order follow (E-120)."""
    if engine.usage is None:
        return
    for name, record in engine.usage.records.items():
        pending: Mapping[str, int] = {}
        for key, penalty in record.penalties.items():
            pending = add(pending, penalty)
            assert key in engine.parts.entries
        assert _nonzero(record.pending) == _nonzero(pending)
        assert record.value == _weigh_anew(engine, name)
    for pending_queue in engine.parts.pending.values():
        lanes = pending_queue.classes
        assert isinstance(lanes, Lanes) == engine.usage.counts_in(pending_queue.name)
        if isinstance(lanes, Lanes):
            for name, lane in lanes.classes.items():
                rank = lane.rank(lane.peek())
                assert lanes.order.rank(name) == (engine.usage.usage_of(name), rank)


def _weigh_anew(engine: Engine, name: str) -> float:
    """What a LocalQueue is compared by; with shares by owner, all before its ClusterQueue are one.

    The histories have one namespace.
    """
    options, known = engine.parts.options.admission_fair_sharing, engine.parts.quota_usage
    before = known.local_queues[name].cluster_queue if name in known.local_queues else ""
    peers = {name}
    if options.by_owner and before:
        peers = {key for key, each in known.local_queues.items() if each.cluster_queue == before}
    total: Mapping[str, int] = {}
    for record in filter(None, map(engine.usage.records.get, peers)):
        total = add(total, record.total)
    weight = max(engine.usage.weight_of(peer) for peer in peers)
    return weigh(total, options.resource_weights, weight)


def _nonzero(nanos: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in nanos.items() if amount}


# -------------------------------------------------------------------- what cycles must not do


def overuse(engine: Engine) -> dict[object, int]:
    """How much more than it may have each quota node and each leaf uses, by name and slot."""
    found: dict[object, int] = {}
    for tree in engine.parts.cache.trees.values():
        for node in nodes_of(tree):
            for slot, usage in enumerate(node.usage):
                over = usage - node.potential[slot]
                limit = node.borrowing_limit[slot]
                if node.parent is not None and limit is not None:
                    over = max(over, usage - node.subtree_quota[slot] - limit)
                if over > 0:
                    found[node.name, slot] = over
    forest = engine.parts.cache.forest
    for flavor in engine.parts.cache.flavors:
        grown = forest.tree(flavor)
        for leaf, key in enumerate(grown.tree.keys if grown is not None else ()):
            free, used = grown.tree.free[leaf], grown.tree.used[leaf]
            for resource, amount in used.items():
                if amount > free.get(resource, 0):
                    found[flavor, key, resource] = amount - free.get(resource, 0)
    return found
