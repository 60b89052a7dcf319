"""The limit on mutual preemption, so that workloads do not preempt each other for ever (E-28).

Deviates: preference is not transitive (older before newer, owner before borrower, higher priority
before lower while borrowing). Upstream lets such workloads preempt each other in turn until the
timing of its cycles ends that. Here a workload that preempted another one in vain, or twice, waits
until something from outside changes the tree: a workload arrives or ends, or a spec changes. So
the number of preemptions between two such changes is finite.
"""

from __future__ import annotations

from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.nomination import Nominated, Verdict
from multiqueue.engine.queues.entry import Entry, Victims
from multiqueue.engine.world import Head

LIMIT = 2
"""How often one workload preempts another in an epoch.

Once would be enough, but some workloads would then end up elsewhere than in upstream.
"""


def limit_preemption(verdict: Verdict, entry: Entry, tree: Tree) -> Verdict:
    """Return the verdict, without targets if it preempted one of them too often before."""
    if not isinstance(verdict, Nominated) or entry.victims is None:
        return verdict
    counts = _counts(entry, tree)
    for target in verdict.targets:
        if counts.get(target.entry, 0) >= LIMIT and not target.entry.is_leaving:
            return Nominated(assignment=verdict.assignment, replaced=verdict.replaced)
    return verdict


def remember_victims(head: Head, tree: Tree, *, is_waiting: bool) -> None:
    """Note who leaves for a head; or, if it no longer waits for them, who left in vain."""
    entry, verdict = head.entry, head.verdict
    if is_waiting and isinstance(verdict, Nominated):
        # A displaced workload that is not leaving was admitted since; it counts again.
        known = {other for other in entry.displaced if other.is_leaving}
        targets = {target.entry for target in verdict.targets} - known
        if targets:
            entry.displaced |= targets
            counts = _counts(entry, tree)
            counts.update((target, counts.get(target, 0) + 1) for target in targets)
            entry.victims = Victims(tree, tree.epoch, counts)
    elif entry.displaced:
        gone = {other for other in entry.displaced if not other.is_leaving}
        entry.displaced -= gone
        counts = {**_counts(entry, tree), **dict.fromkeys(gone, LIMIT)}
        entry.victims = Victims(tree, tree.epoch, counts)


def _counts(entry: Entry, tree: Tree) -> dict[Entry, int]:
    victims = entry.victims
    if victims is None or victims.tree is not tree or victims.epoch != tree.epoch:
        return {}
    return dict(victims.counts)
