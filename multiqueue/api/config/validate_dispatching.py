"""Rules for running dispatchers that are not built in."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.config.types import PROCESS, THREAD, Configuration
from multiqueue.lib.quantity import QuantityError, parse_quantity

_LEAST = 256 * 1024**2
"""Lowest limit of memory: an interpreter with only a view takes half of it."""


def dispatcher_isolation(config: Configuration) -> Iterator[str]:
    """Yield the errors of ``multiKueue.dispatcherIsolation``."""
    section = config.multi_kueue.dispatcher_isolation
    path = "multiKueue.dispatcherIsolation"
    if section.mode not in {PROCESS, THREAD}:
        yield f'{path}.mode: "{section.mode}": use {PROCESS} or {THREAD}'
    try:
        memory = parse_quantity(section.memory).value()
    except QuantityError as error:
        yield f"{path}.memory: {error}"
        return
    if memory and memory < _LEAST:
        yield f"{path}.memory: {section.memory} must be at least 256Mi, or 0 for no limit"
