"""Makes a table fit a terminal: columns leave by rank, then long cells are cut. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
"""A colour in a cell."""
GAP = 3
CUT = "…"
LEAST_LAST = 20
"""The room that the last column keeps: it says why."""
LEAST = 8
"""The room that any other column keeps."""
LEAVE_FIRST = (
    "IMAGES",
    "CONTAINERS",
    "IP",
    "RETRIES",
    "EXEC TIME",
    "JOB TYPE",
    "TYPE",
    "KUBERNETES",
    "PROGRAM",
    "ROLE",
    "TIER",
    "BORROWABLE",
    "LENT",
    "NOMINAL",
    "DEMAND",
    "FOR GPUS",
    "OFFERED",
    "RESTARTS",
    "AGE",
    "PRIORITY",
    "GRACE",
    "SINCE",
    "REQUIRES",
    "USED",
    "USE",
    "WORKLOAD",
    "CLUSTERQUEUE",
    "CONNECTED",
    "GIVES",
    "WAITED",
    "RAN",
    "WORKER",
)
"""Titles of the columns that leave a table that is too wide, in this order.

The first column says which object a row is about and the last one says why: they stay.
"""
ONLY_BESIDE = {"WORKLOAD": "JOB"}
"""A column that leaves only if another one says which object a row is about."""


def fit(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[str], list[list[str]]]:
    """Return the columns that have room, with cells that are cut if need be.

    Args:
        headers: The titles.
        rows: The cells.
        width: The longest line.
    """
    kept = list(range(len(headers)))
    widths = [
        max(map(len_of, (header, *(row[i] for row in rows)))) for i, header in enumerate(headers)
    ]
    for title in LEAVE_FIRST:
        if _needed(widths, kept) <= width:
            break
        if ONLY_BESIDE.get(title, title) not in headers:
            continue
        kept = [i for i in kept if headers[i] != title or i in {0, len(headers) - 1}]
    room = _share_room([widths[i] for i in kept], width)
    cut = [[_cut(row[i], size) for i, size in zip(kept, room, strict=True)] for row in rows]
    return [_cut(headers[i], size) for i, size in zip(kept, room, strict=True)], cut


def _needed(widths: Sequence[int], kept: Sequence[int]) -> int:
    """Return the longest line if the last column is as short as it may be."""
    last = min(LEAST_LAST, widths[kept[-1]])
    return sum(widths[i] + GAP for i in kept[:-1]) + last


def _share_room(widths: list[int], width: int) -> list[int]:
    """Return the width of each column; the last one gives way first, then the widest."""
    room = list(widths)
    room[-1] = min(room[-1], LEAST_LAST)
    left = width - GAP * (len(room) - 1)
    while sum(room) > left:
        widest = max(range(len(room)), key=lambda i: room[i])
        if room[widest] <= LEAST:
            break
        room[widest] -= 1
    room[-1] = min(widths[-1], room[-1] + max(0, left - sum(room)))
    return room


def _cut(cell: str, size: int) -> str:
    if len_of(cell) <= size:
        return cell
    return ESCAPE.sub("", cell)[: size - 1] + CUT


def len_of(cell: str) -> int:
    """Return how wide a cell is on a terminal; colours take no room."""
    return len(ESCAPE.sub("", cell) if "\x1b" in cell else cell)
