"""Waiting instead of stopping: whether others end soon enough by themselves (P-58).

Deviates: from P-58. An end is the latest one that a holder declares (maximumExecutionTimeSeconds),
because the engine has no other predictions. A stop is taken to last for 30 seconds. Who waits is
kept in memory: a new leader asks anew, so a Workload waits for twice as long at the most.

Units: times are whole seconds since the epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from multiqueue.engine.disruption.held_back import format_seconds_since_epoch
from multiqueue.engine.queues.entry import Entry, QueuePlace
from multiqueue.model.disruption_policy import DEFAULT_GRACE

STOPPING = 60
"""Seconds that who is at its end may take to stop, before the wait is over."""


class PatientWait(NamedTuple):
    """A preemptor that waits until then; ``is_over`` if it preempts now, and asks no more."""

    until: int
    words: str
    is_over: bool = False


class Patience:
    """The Workloads that wait instead of stopping others. Mutable; owned by the engine."""

    def __init__(self) -> None:
        self._waits: dict[Entry, PatientWait] = {}

    def of(self, entry: Entry) -> PatientWait | None:
        """Return what was decided for a Workload; None if it was not asked about."""
        return self._waits.get(entry)

    def begin(self, entry: Entry, wait: PatientWait) -> None:
        """Let a Workload wait; forget those that wait in no queue any more."""
        waiting = {QueuePlace.QUEUED, QueuePlace.PARKED, QueuePlace.HELD}
        self._waits = {e: known for e, known in self._waits.items() if e.place in waiting}
        self._waits[entry] = wait

    def end(self, entry: Entry) -> None:
        """Let a Workload preempt from now on, until it got its quota."""
        known = self._waits.get(entry)
        if known is not None:
            self._waits[entry] = known._replace(is_over=True)

    def forget(self, entry: Entry) -> None:
        """Ask anew the next time: it got its quota."""
        self._waits.pop(entry, None)


def is_worth_it(
    *, devices: int, cost: int, patience: int, stop_at: int, self_at: int | None
) -> bool:
    """Whether waiting for the end of others is cheaper than stopping the victims of a plan.

    Args:
        devices: of the preemptor.
        cost: device-seconds that the victims have to do again.
        patience: the most seconds to wait beyond ``stop_at``.
        stop_at: when the victims have stopped if they are told now.
        self_at: when there is room without any stop; None: not known.
    """
    if self_at is None:
        return False
    extra = self_at - stop_at
    return extra <= patience and devices * max(0, extra) <= cost


def find_stop(now: int, ends_of_notices: list[int]) -> int:
    """Return when all victims have stopped; an end of 0 is that of a victim without notice."""
    return max((max(now, end) for end in ends_of_notices), default=now) + DEFAULT_GRACE


def describe_wait(until: int, victims: int, cost: int) -> str:
    """Say for what a preemptor waits, and what that saves."""
    noun = "workload" if victims == 1 else "workloads"
    return (
        f"Workload fits once others have ended by themselves, which is by "
        f"{format_seconds_since_epoch(until)}; to stop {victims} {noun} instead would cost "
        f"{cost:,} device-seconds"
    )
