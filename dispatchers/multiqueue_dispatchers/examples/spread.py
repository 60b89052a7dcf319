"""Deal jobs out: each goes where most is left free after it.

Good for many small jobs, and against the loss of a cluster; large gangs find fewer large gaps.
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
    """Nominates the cluster of the best tier with the most left free."""

    name = "spread"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return where there is most room."""
        scarce = scarce_resource(view.workload)

        def crowding(option: Option) -> int:
            return -sum(n for (_, name), n in option.forecast.left.items() if name == scarce)

        return bind(survey(view), crowding)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse all: there are none."""
        return find_problems(arguments, {})
