"""Places for gangs on nodes, in a simulated future. Pure.

A simple model of `multiqueue.engine.tas`. Of each node, only the resource counts that the asking
Workload needs most of. Pods go to the domain with the least room that is enough. Pods of queues in
other cohorts, and pods that no topology placed, stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.tas.request import PlacementRequest, TopologyRequestError, interpret
from multiqueue.engine.tas.tree import DomainTree

Taken = tuple[str, int, int]
"""Flavor, leaf, and amount of the resource."""
_Question = tuple[int, PodSetTopologyRequest | None]


@dataclass(frozen=True, slots=True)
class Gang:
    """Equal pods that are placed together; ``requests`` are those of one pod."""

    count: int
    requests: Mapping[str, int]
    wanted: PodSetTopologyRequest | None


class _Counts:
    """How many pods of a given size fit in each domain; updated when leaves change."""

    def __init__(
        self, tree: DomainTree, left: Sequence[int], size: int, asked: PlacementRequest
    ) -> None:
        level = asked.level if asked.required else -1
        self._size = size
        self._slice_size = asked.slice_size
        self._slices = [tree.ancestor(leaf, asked.slice_level) for leaf in range(len(left))]
        self._domains = [
            tree.ancestor(leaf, level) if level >= 0 else 0 for leaf in range(len(left))
        ]
        self._in_slice = [0] * (max(self._slices, default=0) + 1)
        self.room = [0] * (max(self._domains, default=0) + 1)
        self.leaves: list[list[int]] = [[] for _ in self.room]
        for leaf, amount in enumerate(left):
            self.leaves[self._domains[leaf]].append(leaf)
            self.change(leaf, 0, amount)

    def change(self, leaf: int, before: int, after: int) -> None:
        """Update the counts after a change of a leaf's free amount."""
        more = max(0, after) // self._size - max(0, before) // self._size
        if not more:
            return
        place, whole = self._slices[leaf], self._slice_size
        old = self._in_slice[place]
        self._in_slice[place] = old + more
        self.room[self._domains[leaf]] += (old + more) // whole * whole - old // whole * whole

    def find(self, count: int) -> int | None:
        """Return the domain with the least room that is enough; None if there is none."""
        need = -(-count // self._slice_size) * self._slice_size
        if max(self.room) < need:
            return None
        enough = [(room, domain) for domain, room in enumerate(self.room) if room >= need]
        return min(enough)[1]


class ForecastNodes:
    """The nodes of a quota tree's flavors; changes are temporary and can be undone.

    Args:
        tree: The quota tree.
        resource: The only resource that is counted.
    """

    def __init__(self, tree: Tree, resource: str) -> None:
        self._forest = tree.forest
        self._resource = resource
        flavors = sorted({name for queue in tree.queues.values() for name in queue.flavors()})
        grown = {name: self._forest.tree(name) for name in flavors}
        self._trees = {name: found.tree for name, found in grown.items() if found is not None}
        self._left = {
            name: [
                free.get(resource, 0) - used.get(resource, 0)
                for free, used in zip(domains.free, domains.used, strict=True)
            ]
            for name, domains in self._trees.items()
        }
        self._counts: dict[str, dict[_Question, _Counts]] = {name: {} for name in self._trees}
        self._held: dict[str, Sequence[Taken]] = {}
        self._changed: list[Taken] = []

    @property
    def are_any(self) -> bool:
        """Whether any flavor has a topology."""
        return bool(self._trees)

    def put_back(self) -> None:
        """Undo every change."""
        for flavor, leaf, amount in reversed(self._changed):
            self._change(flavor, leaf, -amount)
        self._changed.clear()

    def may_hold(self, gangs: Iterable[Gang], flavors: Iterable[str]) -> bool:
        """Whether each gang has a place in some flavor: a cheap check before most tries."""
        names = [name for name in flavors if name in self._trees]
        return not names or all(
            any(self._has_place(name, gang) for name in names) for gang in gangs
        )

    def _has_place(self, flavor: str, gang: Gang) -> bool:
        size = gang.requests.get(self._resource, 0)
        if not size or not gang.count:
            return True
        counts = self._counts_of(flavor, gang, size)
        return counts is not None and counts.find(gang.count) is not None

    def take(self, gangs: Iterable[Gang], flavors: Iterable[str]) -> list[Taken] | None:
        """Place gangs on the nodes of their flavors; return None if not all of them fit."""
        names = [name for name in flavors if name in self._trees]
        taken: list[Taken] = []
        for gang in gangs if names else ():
            size = gang.requests.get(self._resource, 0)
            if not size or not gang.count:
                continue
            found = self._place(names[0], gang, size)
            if found is None:
                self.give(taken)
                return None
            taken += found
        return taken

    def give(self, taken: Iterable[Taken]) -> None:
        """Give back amounts that were taken."""
        for flavor, leaf, amount in taken:
            self._note(flavor, leaf, amount)

    def end(self, key: str) -> None:
        """Give back the amounts that a running Workload holds."""
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = list(self._read_held(key))
        self.give(held)

    def _place(self, flavor: str, gang: Gang, size: int) -> list[Taken] | None:
        counts = self._counts_of(flavor, gang, size)
        domain = counts.find(gang.count) if counts is not None else None
        if counts is None or domain is None:
            return None
        left, missing, taken = self._left[flavor], gang.count, []
        for leaf in sorted(counts.leaves[domain], key=lambda leaf: (-left[leaf], leaf)):
            pods = min(missing, max(0, left[leaf]) // size)
            if pods:
                taken.append((flavor, leaf, pods * size))
                missing -= pods
            if not missing:
                break
        for name, leaf, amount in taken:
            self._note(name, leaf, -amount)
        return taken

    def _counts_of(self, flavor: str, gang: Gang, size: int) -> _Counts | None:
        question = (size, gang.wanted)
        known = self._counts[flavor].get(question)
        if known is None:
            tree = self._trees[flavor]
            try:
                asked = interpret(tree.levels, gang.wanted, implied=gang.wanted is None)
            except TopologyRequestError:
                return None
            known = _Counts(tree, self._left[flavor], size, asked)
            self._counts[flavor][question] = known
        return known

    def _read_held(self, key: str) -> Iterable[Taken]:
        usage = self._forest.usage
        for charge in usage.of(key):
            amount = dict(charge.requests).get(self._resource, 0) * charge.pods
            for flavor, tree in self._trees.items():
                leaf = tree.leaf_by_key.get(charge.key)
                pool = usage.pool(flavor, names_nodes=tree.names_nodes)
                if amount and leaf is not None and pool == charge.pool:
                    yield flavor, leaf, amount

    def _note(self, flavor: str, leaf: int, amount: int) -> None:
        self._change(flavor, leaf, amount)
        self._changed.append((flavor, leaf, amount))

    def _change(self, flavor: str, leaf: int, amount: int) -> None:
        left = self._left[flavor]
        before = left[leaf]
        left[leaf] = before + amount
        for counts in self._counts[flavor].values():
            counts.change(leaf, before, before + amount)
