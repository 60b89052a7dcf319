"""What the engine would decide about a workload now, without deciding it.

Used to choose between engines: a copy of each one is asked. The state is that of a cycle with this
head alone. So a cycle admits what is admitted here, unless other workloads of the tree come
before it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nominate import judge, judge_again
from multiqueue.engine.nomination import Nominated, Verdict
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.world import EngineParts
from multiqueue.model.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A verdict and the state on which it was made.

    Shape: ``queue``, ``tree`` and ``pending`` are the engine's own: read them only, and only before
    the next call to the engine.
    """

    verdict: Verdict
    queue: CachedQueue
    tree: Tree
    pending: PendingQueue


def try_workload(world: EngineParts, workload: Workload, cluster_queue: str) -> Trial | None:
    """Judge a workload that holds no quota as if it were a head.

    None if the ClusterQueue is unknown or inactive.
    """
    queue, pending = world.cache.queues.get(cluster_queue), world.pending.get(cluster_queue)
    if queue is None or pending is None or not queue.is_active:
        return None
    tree = world.cache.tree_by_queue[cluster_queue]
    verdict = judge(world, workload, queue, None)
    return Trial(verdict=verdict, queue=queue, tree=tree, pending=pending)


def fits_without(
    world: EngineParts, workload: Workload, cluster_queue: str, gone: Collection[str]
) -> bool:
    """Whether a workload would fit if these holders of quota in its cohort tree were gone."""
    trial = try_workload(world, workload, cluster_queue)
    if trial is None or not isinstance(trial.verdict, Nominated):
        return False
    holders = world.quota_usage.holders
    there = {
        key: entry
        for name in trial.tree.queues
        for key, entry in holders.get(name, {}).items()
        if key in gone
    }
    found = judge_again(world, workload, trial.queue, trial.verdict, there)
    return found.assignment.mode in {Mode.FIT, Mode.DEFERRED_FIT}
