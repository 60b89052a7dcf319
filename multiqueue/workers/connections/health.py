"""How healthy a worker is, judged by the outcome of requests, and whether it is sent more.

A circuit breaker: while it is open, nothing new is sent to the worker. Then a few Workloads are,
and more as they succeed (half-open), until it is closed again. Jobs there are followed all the
time. Pure: values in, values out; ``now`` is in seconds of a clock that never jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

ALPHA = 0.1
"""How much one answer moves the average: seven failures in a row open the circuit."""
HALF_LIFE_SECONDS = 60.0
"""How fast failures are forgotten while there are no answers."""
OPEN_BELOW = 0.5
"""Average at which the circuit opens: every other request fails."""
FAST_SECONDS = 1.0
"""Answers within this time are good: admission webhooks alone may take that long."""
SLOW_SECONDS = 5.0
"""Answers after this time are as bad as failures."""
STALLED_AFTER = 3
"""After this many requests that waited longer than a Workload does, without any answer in between,
a worker may hang."""
HANG_FACTOR = 4.0
"""A worker hangs if it is silent for this many times its usual time for an answer."""
MIN_HANG_SECONDS = 1.0
MAX_HANG_SECONDS = 5.0
"""Bounds of that time: a fast worker may be held up for a second by its own webhooks, and jobs do
not wait longer for a worker that was slow before it began to hang."""
LOST_WEIGHT = 3
"""A broken session counts as this many failed requests: three in a minute open the circuit."""
OPEN_SECONDS = 5.0
MAX_OPEN_SECONDS = 300.0
"""Longest time that the circuit stays open: doubled each time that probation fails."""
PROBATION_SECONDS = 60.0
"""After this time half-open without a failure it closes, whether or not anything was sent."""
MAX_ALLOWANCE = 16
"""Most dispatches in one step of probation; after that step, probation is over."""


class Circuit(Enum):
    """Whether a worker is sent new Workloads."""

    CLOSED = "Closed"
    HALF_OPEN = "HalfOpen"
    OPEN = "Open"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRecord:
    """The health of a worker.

    Attributes:
        good: Average of its answers: 1 all good, 0 none.
        rejections: Average of its refusals to take a copy or a job: 0 none, 1 all. They tell more
            about what is sent than about the worker, and do not open the circuit.
        heard_at: When the averages were last true.
        usual: Average seconds that its answers to writes took lately; falls while there are none.
        stalled: Requests that got no answer in time since the last answer.
        silent_since: When the first of them was sent.
        circuit: Whether it is sent new Workloads.
        since: Since when the circuit is in this state.
        trips: How often it opened without having been closed in between.
        allowance: Dispatches in this step of probation.
        arrived: How many of them the worker took.
        answered: Whether it has answered any request since the circuit opened.
        trouble: Why the circuit opened.
        is_slow: Whether it opened because of slow answers alone.
    """

    good: float = 1.0
    rejections: float = 0.0
    heard_at: float = 0.0
    usual: float = 0.0
    stalled: int = 0
    silent_since: float = 0.0
    circuit: Circuit = Circuit.CLOSED
    since: float = 0.0
    trips: int = 0
    allowance: int = 0
    arrived: int = 0
    answered: bool = True
    trouble: str = ""
    is_slow: bool = False

    @property
    def score(self) -> float:
        """From 0, best avoided, to 1, healthy."""
        if self.circuit is Circuit.OPEN:
            return 0.0
        return self.good * (1.0 - self.rejections / 2)

    @property
    def due_at(self) -> float | None:
        """When the circuit changes if nothing happens before."""
        if self.circuit is Circuit.OPEN:
            return self.since + min(OPEN_SECONDS * 2.0 ** (self.trips - 1), MAX_OPEN_SECONDS)
        return self.since + PROBATION_SECONDS if self.circuit is Circuit.HALF_OPEN else None


def note_answer(
    health: HealthRecord, seconds: float | None, now: float, *, common: float = 0.0
) -> HealthRecord:
    """Count an answer.

    Args:
        health: The health until now.
        seconds: How long it took; None if that says nothing about the worker.
        now: The time.
        common: Seconds that every other worker takes too. Their cause is this program, or the
            network, and they are taken off.
    """
    health = replace(_age(health, now), stalled=0, answered=True)
    if seconds is None:
        return _weigh(health, 1.0, now, "")
    health = replace(health, usual=health.usual + ALPHA * (seconds - health.usual))
    own = seconds - common
    value = min(1.0, max(0.0, (SLOW_SECONDS - own) / (SLOW_SECONDS - FAST_SECONDS)))
    weighed = _weigh(health, value, now, "it answers slowly")
    return replace(weighed, is_slow=True) if weighed.trips > health.trips else weighed


def note_failure(health: HealthRecord, what: str, now: float, *, weight: int = 1) -> HealthRecord:
    """Count a request that failed, or an equally bad event."""
    for _ in range(weight):
        health = _weigh(health, 0.0, now, what)
    return health


def note_late(health: HealthRecord, now: float, *, waited: float) -> HealthRecord:
    """Count a request that got no answer while a Workload waited for it, so many seconds."""
    since = health.silent_since if health.stalled else now - waited
    return replace(_age(health, now), stalled=health.stalled + 1, silent_since=since)


def hangs_at(health: HealthRecord) -> float | None:
    """Return when a worker counts as hanging if it stays silent; None if it need not answer."""
    if health.stalled < STALLED_AFTER or health.circuit is Circuit.OPEN:
        return None
    usual = max(MIN_HANG_SECONDS, HANG_FACTOR * health.usual)
    return health.silent_since + min(MAX_HANG_SECONDS, usual)


def note_hang(health: HealthRecord, now: float) -> HealthRecord:
    """Open the circuit of a worker that takes requests and answers none of them."""
    due_at = hangs_at(health)
    if due_at is None or now < due_at:
        return health
    return _open(_age(health, now), "it takes requests and does not answer", now)


def note_dispatch(health: HealthRecord, now: float, *, taken: bool) -> HealthRecord:
    """Count that a worker took a copy or a job, or refused to."""
    health = _age(health, now)
    target = 0.0 if taken else 1.0
    health = replace(health, rejections=health.rejections + ALPHA * (target - health.rejections))
    if not taken or health.circuit is not Circuit.HALF_OPEN:
        return health
    if health.arrived + 1 < health.allowance:
        return replace(health, arrived=health.arrived + 1)
    if health.allowance >= MAX_ALLOWANCE:
        return _close(health, now)
    return replace(health, allowance=health.allowance * 2, arrived=0)


def pass_time(health: HealthRecord, now: float) -> HealthRecord:
    """Begin or end probation if it is due.

    No Workload is tried on a worker that does not answer even pings.
    """
    if health.due_at is None or now < health.due_at:
        return health
    if not health.answered:
        return replace(health, since=now)
    if health.circuit is Circuit.OPEN:
        # It is trusted again, but less than a worker that never failed.
        good = max(_age(health, now).good, (1.0 + OPEN_BELOW) / 2)
        return replace(
            health,
            circuit=Circuit.HALF_OPEN,
            since=now,
            heard_at=now,
            good=good,
            stalled=0,
            allowance=1,
            arrived=0,
        )
    return _close(health, now)


def _age(health: HealthRecord, now: float) -> HealthRecord:
    """Forget failures as time passes."""
    kept = 0.5 ** (max(0.0, now - health.heard_at) / HALF_LIFE_SECONDS)
    return replace(
        health,
        good=1.0 - (1.0 - health.good) * kept,
        rejections=health.rejections * kept,
        usual=health.usual * kept,
        heard_at=max(now, health.heard_at),
    )


def _weigh(health: HealthRecord, value: float, now: float, what: str) -> HealthRecord:
    health = _age(health, now)
    health = replace(health, good=health.good + ALPHA * (value - health.good))
    if health.circuit is Circuit.OPEN:
        return health
    on_probation = health.circuit is Circuit.HALF_OPEN
    if health.good < OPEN_BELOW or (on_probation and value == 0.0):
        return _open(health, what, now)
    return health


def _open(health: HealthRecord, trouble: str, now: float) -> HealthRecord:
    return replace(
        health,
        circuit=Circuit.OPEN,
        since=now,
        trips=health.trips + 1,
        allowance=0,
        arrived=0,
        answered=False,
        trouble=trouble,
        is_slow=False,
    )


def _close(health: HealthRecord, now: float) -> HealthRecord:
    return replace(
        health,
        circuit=Circuit.CLOSED,
        since=now,
        trips=0,
        allowance=0,
        arrived=0,
        good=max(health.good, (1.0 + OPEN_BELOW) / 2),
        trouble="",
    )
