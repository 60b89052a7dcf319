"""Checks that several rules of the configuration share; each yields its errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta


def not_negative(path: str, value: timedelta | None) -> Iterator[str]:
    """Yield an error if a duration is below zero."""
    if value is not None and value < timedelta(0):
        yield f"{path}: {value.total_seconds():g}s must not be negative"


def unique(path: str, values: Iterable[str]) -> Iterator[str]:
    """Yield an error for every repetition of a value."""
    seen: set[str] = set()
    for i, value in enumerate(values):
        if value in seen:
            yield f'{path}[{i}]: "{value}" is listed twice; remove one'
        seen.add(value)
