"""Parents of cohorts, with and without an object, and the roots of their trees (E-21).

A cohort that is only named, by a ClusterQueue or a child, exists implicitly: no quota, no parent.
"""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.model.cluster_queue import Cohort


class CohortGraph:
    """Explicit cohorts and the edges between cohorts."""

    __slots__ = ("_children", "_cohorts")

    def __init__(self) -> None:
        self._cohorts: dict[str, Cohort] = {}
        self._children: dict[str, set[str]] = {}

    def get(self, name: str) -> Cohort:
        """Return the cohort; an implicit one if there is no object."""
        return self._cohorts.get(name) or Cohort(name=name)

    def find(self, name: str) -> Cohort | None:
        """Return the cohort object, if there is one."""
        return self._cohorts.get(name)

    def set(self, cohort: Cohort) -> None:
        """Add or replace a cohort object."""
        self.remove(cohort.name)
        self._cohorts[cohort.name] = cohort
        if cohort.parent:
            self._children.setdefault(cohort.parent, set()).add(cohort.name)

    def remove(self, name: str) -> None:
        """Remove a cohort object; the cohort lives on while something refers to it."""
        old = self._cohorts.pop(name, None)
        if old is not None and old.parent:
            siblings = self._children[old.parent]
            siblings.discard(name)
            if not siblings:
                del self._children[old.parent]

    def root_of(self, name: str) -> tuple[str, bool]:
        """Return (name of the root, whether the way up ends in a cycle).

        A cycle has no root; its smallest name stands for it.
        """
        path = [name]
        while parent := self.get(path[-1]).parent:
            if parent in path:
                return min(path[path.index(parent) :]), True
            path.append(parent)
        return path[-1], False

    def subtree(self, root: str) -> Iterator[Cohort]:
        """Iterate over a cohort and all below it, parents first, in the order of their names."""
        seen = {root}
        pending = [root]
        while pending:
            name = pending.pop()
            yield self.get(name)
            below = sorted(self._children.get(name, set()) - seen, reverse=True)
            seen.update(below)
            pending += below
