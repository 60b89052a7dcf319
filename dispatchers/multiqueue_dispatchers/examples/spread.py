"""Spread jobs out: each goes where it leaves the most free.

This suits many small jobs, and limits the damage if a cluster is lost. Large gangs find fewer large
gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import (
    DispatchView,
    Nomination,
    Option,
    bind,
    find_problems,
    scarce_resource,
    survey,
)


class Spread:
    """Nominates the cluster of the best tier that keeps the most free."""

    name = "spread"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the cluster with the most room."""
        scarce = scarce_resource(view.workload)

        def crowding(option: Option) -> int:
            return -sum(n for (_, name), n in option.forecast.left.items() if name == scarce)

        return bind(survey(view), crowding)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})
