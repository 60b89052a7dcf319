"""What can happen between a process and a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

LATE = "(late)"
"""Marks who asked for what took effect when they did not count on it any more."""


class Fault(StrEnum):
    """What happens to a request, or to a watch."""

    LOST_REQUEST = "lost request"
    LOST_ANSWER = "lost answer"
    HUNG = "hung request"
    LATE = "late effect"
    SLOW = "slow request"
    TWICE = "request sent twice"
    CONFLICT = "answer 409"
    GONE = "answer 410"
    THROTTLED = "answer 429"
    BROKEN = "answer 500"
    UNAVAILABLE = "answer 503"
    BROKEN_AFTER = "answer 504 after effect"
    WATCH_CUT = "watch cut"
    WATCH_GONE = "watch ends with 410"
    WATCH_STALE = "watch lags"
    WATCH_SILENT = "watch silent"
    WATCH_REPLAYED = "watch replayed"


REQUEST_FAULTS = tuple(fault for fault in Fault if not fault.startswith("watch"))
WATCH_FAULTS = tuple(fault for fault in Fault if fault.startswith("watch"))
WRITES_ONLY = {Fault.LATE, Fault.TWICE, Fault.CONFLICT, Fault.BROKEN_AFTER, Fault.LOST_ANSWER}


class Down(StrEnum):
    """How a cluster is out of reach."""

    HANGS = "hangs"
    REFUSES = "refuses"
    FAILS = "fails"


@dataclass(slots=True)
class Weather:
    """Between one process and one cluster.

    Attributes:
        latency: Seconds that an answer usually takes.
        rates: How likely each fault is for a request, or for a watch that is opened.
        down: How the cluster is out of reach; None while it is not.
        hanging: Requests that hang; what waits for one notices nothing else until its time is up.
        forbidden: Methods and collections that the cluster refuses with 403.
    """

    latency: float = 0.004
    rates: dict[Fault, float] = field(default_factory=dict)
    down: Down | None = None
    hanging: int = 0
    forbidden: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong now."""
        return self.down is None and not self.rates and not self.hanging and not self.forbidden


@dataclass(slots=True, eq=False)
class Process:
    """Somebody who sends requests, and may be killed.

    Attributes:
        on_write: Called with the target of each write before it is sent and after its effect.
    """

    name: str
    group: str
    alive: bool = True
    on_write: Callable[[Process, str, bool], None] | None = None
