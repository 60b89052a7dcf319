"""Deliver due wakes, ended backoffs and the retries of trees (E-27)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.world import EngineParts


def deliver_due(world: EngineParts, now: datetime) -> None:
    """Make everything active that is due at this time."""
    schedule = world.schedule
    schedule.stamp(now)
    schedule.end_due_pauses(now)
    unblock(world)
    for entry in schedule.take_due_backoffs(now):
        world.pending[entry.queue].release(entry)
        world.quota_usage.changed_cluster_queues.add(entry.queue)
        schedule.poke(world.cache.tree_by_queue[entry.queue].key, (entry.queue,))
    hasten_wakes(world, now)
    for key in schedule.take_due_wakes(now):
        wake_tree(world, world.cache.trees[key])


def hasten_wakes(world: EngineParts, now: datetime) -> None:
    """Wake a tree under load before a head takes quota that a higher priority waits for.

    Deviates: from E-27, which always waits for the batch. In upstream most of the time of a cycle
    is spent on writing why heads wait, so under load a wake comes between any two cycles. Without
    that, lower priorities are admitted meanwhile, only to be evicted by the wake.
    """
    schedule = world.schedule
    for key in schedule.list_hastenable(now):
        tree = schedule.tree(key)
        queues = (world.pending.get(name) for name in tree.heads)
        heads = (queue.best for queue in queues if queue is not None)
        if any(head is not None and head.rank[0] > tree.parked_rank for head in heads):
            schedule.hasten(key)


def unblock(world: EngineParts) -> None:
    """Let heads try again that waited for pods, once all pods are ready (E-81)."""
    if world.quota_usage.unready:
        return
    for key in sorted(world.blocked & world.cache.trees.keys()):
        world.schedule.poke(key)
    world.blocked.clear()


def wake_tree(world: EngineParts, tree: Tree) -> None:
    """Wake the parked workloads of a tree that could be admitted now.

    Workloads whose namespace does not match stay parked; a change that makes one match
    pokes the queue.
    """
    namespaces = world.cache.namespaces
    schedule = world.schedule.tree(tree.key)
    woken = schedule.take_parked()
    for name in woken:
        queue, pending = tree.queues.get(name), world.pending.get(name)
        if queue is None or pending is None:
            continue
        pending.wake(partial(_matches, queue, namespaces))
        world.quota_usage.changed_cluster_queues.add(name)
    world.schedule.poke(tree.key, woken)


def _matches(queue: CachedQueue, labels: Mapping[str, Mapping[str, str]], namespace: str) -> bool:
    return namespace in labels and queue.selector.matches(labels[namespace])
