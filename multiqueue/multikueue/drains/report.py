"""How far a drain is: as a value, and as the message of the condition ``Drained``. Pure.

The message is the only record of a drain: the next manager goes on counting from it, and the
command line shows it. Both ways of it are here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from multiqueue.api.v1beta2.meta import format_time, parse_time

SHOWN = 10
"""Workloads that stay, named in the message."""
_COUNTS = re.compile(
    r"(?P<moved>\d+) moved, (?P<moving>\d+) moving, (?P<left>\d+) left"
    r"; at most (?P<lost>\d+\.\d\d) GPU-hours of work lost(?:; done about (?P<end>[0-9TZ:-]+))?"
)
_FIGURE = re.compile(r"(?<![\w.-])\d[\w.]*")
"""A number with its unit; not the digits in a name."""
_NEWS_FOR = timedelta(seconds=30)
"""An estimate that moved by less is no news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How far a drain is.

    Attributes:
        moved: Workloads that were sent away and have stopped there.
        moving: Workloads that are being stopped there.
        left: Workloads that run there still.
        lost_gpu_hours: At most so much work was lost: GPUs times the time since admission.
        ends_at: When the last one that can leave has stopped; None: none can, or all have.
        staying: Why each Workload that cannot leave now stays, by key.
        trouble: What holds up the drain as a whole; empty for nothing.
    """

    moved: int = 0
    moving: int = 0
    left: int = 0
    lost_gpu_hours: float = 0.0
    ends_at: datetime | None = None
    staying: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""

    def __str__(self) -> str:
        parts = [
            f"{self.moved} moved, {self.moving} moving, {self.left} left",
            f"at most {self.lost_gpu_hours:.2f} GPU-hours of work lost",
            f"done about {format_time(self.ends_at)}" if self.ends_at is not None else "",
            self.trouble,
            *(f"{key} stays: {why}" for key, why in list(self.staying.items())[:SHOWN]),
            f"{len(self.staying) - SHOWN} more stay" if len(self.staying) > SHOWN else "",
        ]
        return "; ".join(filter(None, parts))


def parse_report(message: str) -> Report:
    """Return the figures of a message; zeros where it has none. What stays is not read back."""
    match = _COUNTS.match(message)
    if match is None:
        return Report()
    return Report(
        moved=int(match["moved"]),
        moving=int(match["moving"]),
        left=int(match["left"]),
        lost_gpu_hours=float(match["lost"]),
        ends_at=parse_time(match["end"]),
    )


def is_news(old: str, new: str) -> bool:
    """Whether a message is worth a write after the old one.

    Estimates move with every look, and with the room elsewhere so do the figures in reasons to
    stay: they are written when something else is.
    """
    before, after = parse_report(old), parse_report(new)
    if (before.ends_at is None) is not (after.ends_at is None):
        return True
    if before.ends_at is not None and after.ends_at is not None:
        if abs(after.ends_at - before.ends_at) >= _NEWS_FOR:
            return True
        before = replace(before, ends_at=after.ends_at)
    return before != after or _words(old) != _words(new)


def _words(message: str) -> str:
    return _FIGURE.sub("", _COUNTS.sub("", message))
