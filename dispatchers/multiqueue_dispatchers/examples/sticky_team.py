"""Keep a team's jobs together: each goes where most of its LocalQueue's jobs are already.

Teams that share files, caches or a debugger like it. A cluster without room is not waited for while
another one has some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import DispatchView, Nomination, bind, find_problems, survey


class StickyTeam:
    """Nominates the cluster of the best tier that has most jobs of the same LocalQueue."""

    name = "sticky-team"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return where the team is."""
        return bind(survey(view), lambda option: -option.cluster.neighbours)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse all: there are none."""
        return find_problems(arguments, {})
