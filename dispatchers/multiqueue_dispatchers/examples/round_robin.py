"""Send jobs to clusters in turn: each goes where this manager has the fewest jobs.

A dispatcher keeps no state, so the turn is derived from the number of jobs on each cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import DispatchView, Nomination, bind, find_problems, survey


class RoundRobin:
    """Nominates the cluster of the best tier with the fewest of this manager's jobs."""

    name = "round-robin"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the cluster whose turn it is."""
        return bind(survey(view), lambda option: option.cluster.running + option.cluster.waiting)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})
