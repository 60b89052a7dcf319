"""Where the search for the flavors of a workload goes on (E-41, E-53)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from multiqueue.engine.value import Value
from multiqueue.model.workload import Shape

ResumePoint: TypeAlias = tuple[tuple[tuple[str, int], ...], ...]
"""Per pod set, sorted pairs of resource and index."""


Tried: TypeAlias = tuple[Mapping[str, int], ...]
"""Per pod set, in their order, the index at which the search for each resource stopped."""


class ResumeState(Value, frozen=True, kw_only=True, gc=False):
    """Where the search for flavors goes on (the LastAssignment of E-41, E-53).

    Kept only while some flavor has not been looked at: without one the search begins anew anyway.
    """

    shape: Shape
    cycle: int
    generation: int
    tried: Tried

    @property
    def point(self) -> ResumePoint:
        """A value to compare; equal where the search would go on at the same flavors."""
        return tuple(tuple(sorted(indexes.items())) for indexes in self.tried)
