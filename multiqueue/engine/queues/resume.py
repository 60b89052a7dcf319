"""Where the search for the flavors of a workload resumes (E-41, E-53)."""

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
    """Where the search for flavors resumes (the LastAssignment of E-41, E-53).

    Kept only while some flavor was not tried yet; otherwise the search starts over anyway.
    """

    shape: Shape
    cycle: int
    generation: int
    tried: Tried

    @property
    def point(self) -> ResumePoint:
        """A value to compare; equal if the search would resume at the same flavors."""
        return tuple(tuple(sorted(indexes.items())) for indexes in self.tried)
