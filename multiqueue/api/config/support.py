"""Fields of the configuration that this program does not honour, each with its reason.

A field that would affect jobs is refused if it is set (`REFUSED`). A field that can be ignored
without harm is accepted; ``multiqueue config check`` and the start of the manager warn of it
(`INERT`). ``docs/reference/configuration.md`` lists both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_args, get_origin

import msgspec

from multiqueue.api.config.dump import to_wire
from multiqueue.api.config.types import Configuration, Section

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


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field, its default as JSON, and its support here: ``honoured``, or why not."""

    path: str
    default: str
    here: str


def field_rows() -> Iterator[FieldRow]:
    """Yield every field of v1beta2 by its path in the file; ``[]`` means the items of a list."""
    yield from _rows(Configuration, "")


def _rows(section: type[Section], prefix: str) -> Iterator[FieldRow]:
    for field in msgspec.structs.fields(section):
        path = f"{prefix}{field.encode_name}"
        inner = section_of(field.type)
        if inner is None or path in REFUSED:
            yield FieldRow(path, _default(field), _here(path))
        else:
            yield from _rows(inner, f"{path}[]." if is_list(field.type) else f"{path}.")


def section_of(type_: Any) -> type[Section] | None:
    """Return the section that a field is or has as items; None for a value."""
    for candidate in (type_, *get_args(type_)):
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return candidate
    return None


def is_list(type_: Any) -> bool:
    """Whether a field is a list."""
    return get_origin(type_) is tuple


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return json.dumps(field.default_factory())
    if field.default is msgspec.NODEFAULT:
        return "required"
    value = field.default
    return "" if value is None else json.dumps(to_wire(value))


def _here(path: str) -> str:
    if path in REFUSED:
        return f"refused: {REFUSED[path]}"
    return f"does nothing: {INERT[path]}" if path in INERT else "honoured"
