"""What the engine would do with a workload now, without doing it.

For those who choose between engines: the question is asked of a copy of each. Everything is as in a
cycle that has this head alone, so what would be admitted here is what a cycle then admits, unless
others of its tree are to be looked at before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.nominate import judge
from multiqueue.engine.nomination import Verdict
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.world import EngineParts
from multiqueue.model.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A verdict and the state that it was made at.

    Shape: ``queue``, ``tree`` and ``pending`` are the engine's own: to read, and only before
    anything else is done with it.
    """

    verdict: Verdict
    queue: CachedQueue
    tree: Tree
    pending: PendingQueue


def try_workload(world: EngineParts, workload: Workload, cluster_queue: str) -> Trial | None:
    """Judge a workload that holds nothing as if it were a head.

    None: the ClusterQueue is unknown or inactive.
    """
    queue, pending = world.cache.queues.get(cluster_queue), world.pending.get(cluster_queue)
    if queue is None or pending is None or not queue.is_active:
        return None
    tree = world.cache.tree_by_queue[cluster_queue]
    verdict = judge(world, workload, queue, None)
    return Trial(verdict=verdict, queue=queue, tree=tree, pending=pending)
