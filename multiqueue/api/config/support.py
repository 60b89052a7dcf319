"""Fields of the configuration that this program does not honour, each with its reason.

A field that would affect jobs is refused if it is set (`REFUSED`). A field that can be ignored
without harm is accepted; ``multiqueue config check`` and the start of the manager warn of it
(`INERT`). ``docs/reference/configuration.md`` lists both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from multiqueue.api.config.types import Configuration

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "metrics.customLabels": "needs the feature gate CustomMetricLabels, which is not "
        "implemented yet",
        "resources.deviceClassMappings[].sources": "devices count by number; their counters and "
        "capacities do not count yet",
    }
)
"""Field -> the reason why it must not be set."""
INERT: Mapping[str, str] = MappingProxyType(
    {
        "pprofBindAddress": "there are no Go profiles to serve; use a profiler of Python's, such "
        "as py-spy",
    }
)
"""Field -> the reason why it has no effect."""

_IS_SET: Mapping[str, Callable[[Configuration], bool]] = MappingProxyType(
    {
        "metrics.customLabels": lambda c: bool(c.metrics.custom_labels),
        "resources.deviceClassMappings[].sources": lambda c: any(
            mapping.sources for mapping in c.resources.device_class_mappings
        ),
        "pprofBindAddress": lambda c: c.pprof_bind_address not in {"", "0"},
    }
)


def find_refused(config: Configuration) -> Iterator[str]:
    """Yield an error for each field that is set and must not be ignored."""
    for path, why in REFUSED.items():
        if _IS_SET[path](config):
            yield f"{path}: {why}; remove it"


def find_inert(config: Configuration) -> Iterator[str]:
    """Yield a warning for each field that is set and has no effect."""
    for path, why in INERT.items():
        if _IS_SET[path](config):
            yield f"{path}: does nothing: {why}"
