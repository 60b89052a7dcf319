"""The filters of `score`, one function each; the core's own refusals come before them.

A filter returns why an option is refused; an empty text means that it may be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from multiqueue.plugins import DispatchView, Option, Prospect

Filter = Callable[[DispatchView, Option], str]

LEAST_HEALTH = 0.5
"""Below this value, more than half of the recent requests to the worker failed."""


def healthy(view: DispatchView, option: Option) -> str:
    """Refuse workers that fail often."""
    del view
    health = option.cluster.health
    return "" if health >= LEAST_HEALTH else f"its health is {health:.2f}"


def known(view: DispatchView, option: Option) -> str:
    """Refuse workers if the manager does not know whether the gang fits there."""
    del view
    return "its queues cannot be read" if option.forecast.prospect is Prospect.UNKNOWN else ""


def stops_nobody(view: DispatchView, option: Option) -> str:
    """Refuse workers that would stop other Workloads for the gang."""
    del view
    count = len(option.forecast.victims)
    return f"would stop {count} other workloads" if count else ""


def has_data(view: DispatchView, option: Option) -> str:
    """Refuse workers that lack some of the data sets that the job reads."""
    missing = sorted(view.workload.data - option.cluster.data)
    return f"lacks data: {', '.join(missing)}" if missing else ""


FILTERS: Mapping[str, Filter] = MappingProxyType(
    {"healthy": healthy, "known": known, "stops-nobody": stops_nobody, "has-data": has_data}
)
"""Filters by the names used in the argument ``filters``."""
