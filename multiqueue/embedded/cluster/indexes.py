"""Completion indexes in the text form of Job status: ``0,2-5,7``."""

from __future__ import annotations

from collections.abc import Iterable

from multiqueue.lib.digits import is_number

MAX_INDEX = 1_000_000
"""Larger ones count as nothing: ``0-999999999999`` in a status took all memory."""


def parse_indexes(text: str | None) -> set[int]:
    """Return the indexes of a text such as ``1,3-5``; malformed parts count as nothing."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if not dash:
            last = first
        if is_number(first) and is_number(last) and int(last) <= MAX_INDEX:
            found.update(range(int(first), int(last) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Return indexes in the shortest text: pairs with a comma, longer runs with a dash."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(set(indexes)), None]:
        if run and (index is None or index != run[-1] + 1):
            if len(run) <= 2:
                parts.extend(str(number) for number in run)
            else:
                parts.append(f"{run[0]}-{run[-1]}")
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)
