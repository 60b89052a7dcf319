"""What `score` may be told to leave out beyond what the core refuses anyhow: one function each.

A filter says why an option is not taken; the empty text lets it pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from multiqueue.plugins import DispatchView, Option, Prospect

Filter = Callable[[DispatchView, Option], str]

LEAST_HEALTH = 0.5
"""Below, half of what was asked of the worker lately failed."""


def healthy(view: DispatchView, option: Option) -> str:
    """Leave out workers that fail often."""
    del view
    health = option.cluster.health
    return "" if health >= LEAST_HEALTH else f"its health is {health:.2f}"


def known(view: DispatchView, option: Option) -> str:
    """Leave out workers of which the manager cannot say whether the gang fits."""
    del view
    return "its queues cannot be read" if option.forecast.prospect is Prospect.UNKNOWN else ""


def stops_nobody(view: DispatchView, option: Option) -> str:
    """Leave out workers that would stop others for the gang."""
    del view
    count = len(option.forecast.victims)
    return f"would stop {count} other workloads" if count else ""


def has_data(view: DispatchView, option: Option) -> str:
    """Leave out workers that lack some of the data that the job reads."""
    missing = sorted(view.workload.data - option.cluster.data)
    return f"lacks data: {', '.join(missing)}" if missing else ""


FILTERS: Mapping[str, Filter] = MappingProxyType(
    {"healthy": healthy, "known": known, "stops-nobody": stops_nobody, "has-data": has_data}
)
"""By the names that the argument ``filters`` uses."""
