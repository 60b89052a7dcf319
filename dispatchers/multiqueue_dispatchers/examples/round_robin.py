"""Send jobs round: each goes to the cluster that has the fewest of ours, whatever their size.

A dispatcher keeps no state, so whose turn it is is told by what everybody has got.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import DispatchView, Nomination, bind, find_problems, survey


class RoundRobin:
    """Nominates the cluster of the best tier that has the fewest of our jobs."""

    name = "round-robin"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return whose turn it is."""
        return bind(survey(view), lambda option: option.cluster.running + option.cluster.waiting)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse all: there are none."""
        return find_problems(arguments, {})
