"""Checks that several rules of the configuration share; each yields an error or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta


def not_negative(path: str, value: timedelta | None) -> Iterator[str]:
    """A duration below zero is an error."""
    if value is not None and value < timedelta(0):
        yield f"{path}: {value.total_seconds():g}s must not be negative"


def unique(path: str, values: Iterable[str]) -> Iterator[str]:
    """Every value but the first of its kind is an error."""
    seen: set[str] = set()
    for i, value in enumerate(values):
        if value in seen:
            yield f'{path}[{i}]: "{value}" is listed twice; remove one'
        seen.add(value)
