"""How far a drain is: as a value, and as the message of the condition ``Drained``. Pure.

The message is the only record of a drain: the next manager goes on counting from it, and the
command line shows it. It is written and parsed only here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from multiqueue.api.v1beta2.meta import format_time, parse_time

SHOWN = 10
"""Most Workloads that stay to name in the message."""
_COUNTS = re.compile(
    r"(?P<moved>\d+) moved(?:, (?P<stopped>\d+) stopped by force)?"
    r", (?P<moving>\d+) moving, (?P<left>\d+) left"
    r"; at most (?P<lost>\d+\.\d\d) GPU-hours of work lost(?:; done about (?P<end>[0-9TZ:-]+))?"
)
_FIGURE = re.compile(r"(?<![\w.-])\d[\w.]*")
"""A number with its unit; not the digits in a name."""
_STAYING = re.compile(
    r"(?:^|; )(?P<keys>[a-z0-9.-]+/[a-z0-9.-]+(?:, [a-z0-9.-]+/[a-z0-9.-]+)*) stays?: "
)
"""The part of the message that begins to say why some Workloads stay."""
_MORE = re.compile(r"; \d+ more stay$")
_NEWS_FOR = timedelta(seconds=30)
"""A smaller change of the estimate is not worth a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How far a drain is.

    Attributes:
        moved: Workloads that were sent to another worker, and have stopped there.
        stopped: Workloads that were sent away by force, with nowhere to go, and have stopped there.
        moving: Workloads that are being stopped there.
        left: Workloads that still run there.
        lost_gpu_hours: The most work that was lost: GPUs times the time since admission.
        ends_at: When the last one that can leave has stopped; None: none can, or all have.
        staying: Why each Workload that cannot leave now stays, by key.
        trouble: What delays the drain as a whole; empty for nothing.
    """

    moved: int = 0
    stopped: int = 0
    moving: int = 0
    left: int = 0
    lost_gpu_hours: float = 0.0
    ends_at: datetime | None = None
    staying: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""

    def __str__(self) -> str:
        stopped = f", {self.stopped} stopped by force" if self.stopped else ""
        parts = [
            f"{self.moved} moved{stopped}, {self.moving} moving, {self.left} left",
            f"at most {self.lost_gpu_hours:.2f} GPU-hours of work lost",
            f"done about {format_time(self.ends_at)}" if self.ends_at is not None else "",
            self.trouble,
            *(
                f"{', '.join(keys)} {'stay' if len(keys) > 1 else 'stays'}: {why}"
                for why, keys in _by_reason(list(self.staying.items())[:SHOWN]).items()
            ),
            f"{len(self.staying) - SHOWN} more stay" if len(self.staying) > SHOWN else "",
        ]
        return "; ".join(filter(None, parts))


def parse_report(message: str) -> DrainReport:
    """Return the numbers of a message; zeros if it has none. `staying` is not read back."""
    match = _COUNTS.match(message)
    if match is None:
        return DrainReport()
    rest = message[match.end() :]
    staying = _STAYING.search(rest)
    return DrainReport(
        moved=int(match["moved"]),
        stopped=int(match["stopped"] or 0),
        moving=int(match["moving"]),
        left=int(match["left"]),
        lost_gpu_hours=float(match["lost"]),
        ends_at=parse_time(match["end"]),
        trouble=(rest[: staying.start()] if staying else rest).removeprefix("; "),
    )


def find_stay(message: str, key: str) -> str:
    """Return why a Workload stays, from the message of the condition; empty if it does not."""
    begins = list(_STAYING.finditer(message))
    for index, match in enumerate(begins):
        if key in match["keys"].split(", "):
            end = begins[index + 1].start() if index + 1 < len(begins) else len(message)
            return _MORE.sub("", message[match.end() : end])
    return ""


def is_news(old: str, new: str) -> bool:
    """Whether a message is worth a write after the old one.

    Estimates change with every reconcile, and so do the numbers in reasons to stay. They are
    written only together with another change.
    """
    before, after = parse_report(old), parse_report(new)
    if (before.ends_at is None) is not (after.ends_at is None):
        return True
    if before.ends_at is not None and after.ends_at is not None:
        if abs(after.ends_at - before.ends_at) >= _NEWS_FOR:
            return True
        before = replace(before, ends_at=after.ends_at)
    return before != after or _words(old) != _words(new)


def _by_reason(staying: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group the Workloads that stay for the same reason, in the order of the first of each."""
    groups: dict[str, list[str]] = {}
    for key, why in staying:
        groups.setdefault(why, []).append(key)
    return groups


def _words(message: str) -> str:
    return _FIGURE.sub("", _COUNTS.sub("", message))
