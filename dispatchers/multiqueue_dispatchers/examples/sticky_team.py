"""Keep a team's jobs together: send each job where most jobs of its LocalQueue are.

This suits teams that share files, caches or a debugger. If that cluster has no room and another one
has, the job does not wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import DispatchView, Nomination, bind, find_problems, survey


class StickyTeam:
    """Nominates the cluster of the best tier with the most jobs of the same LocalQueue."""

    name = "sticky-team"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the cluster with most of the team's jobs."""
        return bind(survey(view), lambda option: -option.cluster.neighbours)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})
