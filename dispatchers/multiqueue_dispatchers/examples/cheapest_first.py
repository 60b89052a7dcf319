"""Send each job where it costs least, among clusters that start it equally soon.

Operators annotate the MultiKueueCluster with the price of one device-hour by flavor:
``multiqueue.dev/prices: a100=1.80,h100=4.10``. Faster hardware needs fewer hours
(``multiqueue.dev/speeds`` on the job). Clusters without a price come last.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import (
    DispatchView,
    Nomination,
    Option,
    bind,
    cost_of,
    find_problems,
    survey,
)


class CheapestFirst:
    """Nominates the cheapest cluster of the best tier."""

    name = "cheapest-first"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the cheapest cluster."""

        def cost(option: Option) -> int:
            known = cost_of(view.workload, option)
            return sys.maxsize if known is None else known

        def describe(option: Option) -> str:
            known = cost_of(view.workload, option)
            return "has no price" if known is None else f"costs {known / 1000:.2f}"

        return bind(survey(view), cost, because=describe)

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})
