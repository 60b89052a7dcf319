"""Phase 1: how many pods and slices fit in every domain, from the leaves up (E-137, E-138).

A table holds the counts of one shape of pods. It is kept with its tree and brought up to date from
the leaves that changed since it was used last, along their paths only: a placement costs as much as
what the last one changed, whatever the number of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from multiqueue.engine.tas.node_filter import NodeFilter
from multiqueue.engine.tas.request import PlacementRequest
from multiqueue.engine.tas.tree import DomainTree, Room
from multiqueue.lib.amount import Amount

Requests: TypeAlias = tuple[tuple[str, Amount], ...]
"""What one pod takes of a node, sorted, with ``pods`` and without zeros."""


class CountShape(NamedTuple):
    """What decides the counts, beside the state of the leaves.

    ``leader`` is what the one pod takes that leads a group of pod sets, None without one (E-136).
    ``empty`` counts as if no pod with a topology ran; ``within`` is a (level, domain) that the pods
    must stay in.
    """

    requests: Requests
    leader: Requests | None
    node_filter: NodeFilter | None
    slice_level: int
    slice_size: int
    inner_sizes: tuple[int, ...]
    empty: bool = False
    within: tuple[int, int] | None = None


class LevelCounts(NamedTuple):
    """Counts of the domains of a level, by number.

    Shape: ``…_led`` are the counts where the leader runs there too, and ``leaders`` is 1 where it
    fits. Without a leader they are the plain ones. ``slices`` below the slice level are 0.
    """

    pods: list[int]
    slices: list[int]
    pods_led: list[int]
    slices_led: list[int]
    leaders: list[int]


class CountTable:
    """The counts of one shape in one tree.

    Attributes:
        levels: by level; valid after `refresh`.
        scores: by level the affinity of each domain; None if no node preference counts.
        excluded: leaves without room for a single pod, by reason (E-144).
    """

    def __init__(self, tree: DomainTree, shape: CountShape) -> None:
        self.shape = shape
        self.levels: list[LevelCounts] = []
        self.excluded: Counter[str] = Counter()
        self._tree = tree
        self._seen = 0
        self._blocked: list[str] = []
        self._refusals = self._refuse_leaves()
        self.scores = self._score_domains()

    def refresh(self) -> None:
        """Take notice of what changed in the tree."""
        tree = self._tree
        if not self.levels:
            self._count_all()
        elif self._seen != tree.changes:
            self._count_again(tree.changed_since(self._seen))
        self._seen = tree.changes

    # ---------------------------------------------------------------- leaves

    def _refuse_leaves(self) -> Sequence[str] | None:
        refusals = self._tree.refusals(self.shape.node_filter)
        if self.shape.within is None:
            return refusals
        level, domain = self.shape.within
        known = refusals or [""] * len(self._tree.keys)
        return [
            reason or ("" if self._tree.ancestor(leaf, level) == domain else "topologyDomain")
            for leaf, reason in enumerate(known)
        ]

    def _count_leaf(self, leaf: int) -> tuple[int, int, int, str]:
        """Return (pods, pods beside the leader, leaders, what keeps all pods away)."""
        if self._refusals is not None and self._refusals[leaf]:
            return 0, 0, 0, self._refusals[leaf]
        free = self._tree.free[leaf]
        used = {} if self.shape.empty else self._tree.used[leaf]
        pods, limit = _fit(free, used, self.shape.requests)
        reason = f'resource "{limit}"' if pods == 0 else ""
        leader = self.shape.leader
        if leader is None:
            return pods, pods, 0, reason
        if _fit(free, used, leader)[0] == 0:
            return pods, pods, 0, reason
        beside = {**free}
        for resource, amount in leader:
            beside[resource] = beside.get(resource, 0) - amount
        return pods, _fit(beside, used, self.shape.requests)[0], 1, reason

    # ---------------------------------------------------------------- roll-up

    def _count_all(self) -> None:
        tree, shape = self._tree, self.shape
        found = [self._count_leaf(leaf) for leaf in range(len(tree.keys))]
        self._blocked = [reason for *_, reason in found]
        self.excluded = Counter(reason for reason in self._blocked if reason)
        self.levels = [
            _blank(len(values), has_leader=shape.leader is not None) for values in tree.values
        ]
        lowest = self.levels[-1]
        for leaf, (pods, led, leaders, _) in enumerate(found):
            self._set(lowest, tree.lowest, leaf, (pods, led, leaders))
        for level in range(tree.lowest - 1, -1, -1):
            for domain in range(len(tree.values[level])):
                self._roll_up(level, domain)

    def _count_again(self, leaves: Iterable[int]) -> None:
        tree = self._tree
        lowest = self.levels[-1]
        dirty: set[int] = set()
        for leaf in leaves:
            pods, led, leaders, reason = self._count_leaf(leaf)
            if reason != self._blocked[leaf]:
                self.excluded[self._blocked[leaf]] -= 1
                self.excluded[reason] += 1
                self._blocked[leaf] = reason
            old = (lowest.pods[leaf], lowest.pods_led[leaf], lowest.leaders[leaf])
            if old != (pods, led, leaders):
                self._set(lowest, tree.lowest, leaf, (pods, led, leaders))
                dirty.add(leaf)
        for level in range(tree.lowest - 1, -1, -1):
            above = tree.parents[level + 1]
            dirty = {above[domain] for domain in dirty}
            for domain in dirty:
                self._roll_up(level, domain)

    def _set(
        self, counts: LevelCounts, level: int, domain: int, found: tuple[int, int, int]
    ) -> None:
        """Write counts of a domain without regard to slices above its own level."""
        pods, led, leaders = found
        counts.pods[domain] = pods
        has_leader = self.shape.leader is not None
        if has_leader:
            counts.pods_led[domain], counts.leaders[domain] = led, leaders
        if level == self.shape.slice_level:
            counts.slices[domain] = pods // self.shape.slice_size
            if has_leader:
                counts.slices_led[domain] = led // self.shape.slice_size

    def _roll_up(self, level: int, domain: int) -> None:
        children = self._tree.children[level][domain]
        below, inner = self.levels[level + 1], self.shape.inner_sizes[level + 1]
        part = slice(children.start, children.stop)
        if self.shape.leader is not None:
            self._roll_up_led(level, domain)
            return
        if inner > 1:
            pods = sum(count // inner * inner for count in below.pods[part])
        else:
            pods = sum(below.pods[part])
        counts = self.levels[level]
        if level < self.shape.slice_level:
            counts.slices[domain] = sum(below.slices[part])
        self._set(counts, level, domain, (pods, pods, 0))

    def _roll_up_led(self, level: int, domain: int) -> None:
        """Sum up, with the leader in the child that loses the fewest pods (E-138)."""
        children = self._tree.children[level][domain]
        below, inner = self.levels[level + 1], self.shape.inner_sizes[level + 1]
        counts = self.levels[level]
        pods = sum(below.pods[child] // inner * inner for child in children)
        capable = [child for child in children if below.leaders[child]]
        led = 0
        if capable:
            led = pods - min(
                below.pods[c] // inner * inner - below.pods_led[c] // inner * inner for c in capable
            )
        if level < self.shape.slice_level:
            slices = sum(below.slices[child] for child in children)
            counts.slices[domain] = slices
            counts.slices_led[domain] = 0
            if capable:
                cost = min(below.slices[c] - below.slices_led[c] for c in capable)
                counts.slices_led[domain] = slices - cost
        self._set(counts, level, domain, (pods, led, int(bool(capable))))

    def _score_domains(self) -> list[list[int]] | None:
        node_filter = self.shape.node_filter
        if node_filter is None or not node_filter.preferred or not self._tree.names_nodes:
            return None
        refusals = self._refusals or [""] * len(self._tree.keys)
        scores = [
            [
                0 if refusal else node_filter.score(nodes[0])
                for nodes, refusal in zip(self._tree.nodes, refusals, strict=True)
            ]
        ]
        for level in range(self._tree.lowest - 1, -1, -1):
            scores.insert(0, [sum(scores[0][c] for c in cs) for cs in self._tree.children[level]])
        return scores


def count_shape(
    request: PlacementRequest,
    requests: Requests,
    *,
    leader: Requests | None = None,
    node_filter: NodeFilter | None = None,
    empty: bool = False,
    within: tuple[int, int] | None = None,
) -> CountShape:
    """Return the shape of pods that make a request."""
    return CountShape(
        requests=requests,
        leader=leader,
        node_filter=node_filter,
        slice_level=request.slice_level,
        slice_size=request.slice_size,
        inner_sizes=request.inner_sizes,
        empty=empty,
        within=within,
    )


def _fit(free: Room, used: Mapping[str, Amount], requests: Requests) -> tuple[int, str]:
    """Return how many pods fit, and the resource that allows no more."""
    fit, limit = -1, ""
    for resource, amount in requests:
        room = free.get(resource, 0) - used.get(resource, 0)
        count = room // amount if room > 0 else 0
        if fit < 0 or count < fit:
            fit, limit = count, resource
    return fit, limit


def _blank(size: int, *, has_leader: bool) -> LevelCounts:
    pods, slices = [0] * size, [0] * size
    if not has_leader:
        return LevelCounts(pods, slices, pods, slices, [0] * size)
    return LevelCounts(pods, slices, [0] * size, [0] * size, [0] * size)
