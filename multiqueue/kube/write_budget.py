"""How many writes that can wait one API server takes now.

Writes have classes. A step (an admission, an eviction, the start, stop or end of a job, a check, a
finalizer) never waits here. Statuses of queues, reasons and Events get what is left. Unless steps
keep the server busy, an AIMD window bounds how many of them are under way, and so it does for
Events on a server that answers quickly. Otherwise each step earns a fixed share of one: a status
that changes with each step is written once for many, and a slow server gets few Events, too. One
status of a queue in a second is always written. Pure: ``now`` is in seconds of a clock that never
jumps.
"""

from __future__ import annotations

import math
from enum import IntEnum

SHARE = 0.02
"""Writes that wait for each step on a busy server. A job takes at least five steps: its
Workload is made and admitted, it is started, it ends, its finalizer goes. So that is a tenth of a
write for each admission."""
MAX_EARNED = 2.0
"""Most writes that steps can save up: an earlier burst of steps is no reason for a later one."""
MAX_WINDOW = 16.0
"""Most writes at a time: more would wait in a quick server, too."""
BUSY_LOAD = 0.5
"""Steps under way on average from which they keep a server busy."""
BUSY_STEPS = 3
"""Steps under way at this moment from which they do, whatever was before."""
LOAD_SECONDS = 1.0
"""The time over which the load is averaged."""
STATUS_EVERY_SECONDS = 1.0
"""A status of a queue is written at least so often, however busy the server is with steps."""
QUIET_SECONDS = 0.25
"""The longest time without a step after which a server is no longer busy."""
QUEUE_PATIENCE = 3
"""Statuses of queues wait so many times as long: a busy manager also waits for the ends of jobs."""
FAST_SECONDS = 0.02
"""Answers within this time are never slow."""
SLOW_SECONDS = 0.05
"""Answers after this time are always slow. A quiet kube-apiserver writes in 5 to 10 ms."""
SLOW_FACTOR = 3.0
"""Ratio of the average to the best duration from which other answers are slow."""
BACK_OFF_EVERY_SECONDS = 1.0
"""Seconds in which the window is halved at most once."""
ALPHA = 0.05
"""How much one answer moves the average: times differ so much that few say nothing."""


class WriteClass(IntEnum):
    """The classes of writes that can wait; the lower value goes first."""

    QUEUE_STATUS = 3
    EXPLANATION = 4


class _Answers:
    """How long a server takes for the answers to writes of one sort."""

    def __init__(self) -> None:
        self.average = 0.0
        self._best: float | None = None

    def learn(self, seconds: float) -> None:
        best = self._best
        # The best time rises slowly, so that a server that moved away is not slow for ever.
        self._best = seconds if best is None else min(seconds, best * 1.001)
        self.average += (seconds - self.average) * (1.0 if best is None else ALPHA)

    @property
    def are_slow(self) -> bool:
        usual = SLOW_FACTOR * (self._best or 0.0)
        return self.average > min(SLOW_SECONDS, max(FAST_SECONDS, usual))


class WriteBudget:
    """The budget of one API server.

    Steps and what can wait are timed apart: an Event costs the server a fifteenth of a Workload's
    status, so many quick answers to Events would hide that steps are slow.
    """

    def __init__(self) -> None:
        self.window = MAX_WINDOW
        self._under_way = 0
        self._steps = 0
        self._step_ended_at = float("-inf")
        self._steps_per_second = 0.0
        self._status_at = float("-inf")
        self._earned = 0.0
        self._of_steps = _Answers()
        self._of_others = _Answers()
        self._refused_at = float("-inf")
        self._halved_at = float("-inf")

    def begin_step(self) -> None:
        """Count a step that is about to be sent, or that waits to be sent."""
        self._steps += 1

    def end_step(self, now: float) -> None:
        """Count a step that got its answer, or was given up."""
        self._steps -= 1
        self._steps_per_second = self._rate(now) + 1 / LOAD_SECONDS
        self._step_ended_at = now
        self._earned = min(MAX_EARNED, self._earned + SHARE)

    def learn(self, seconds: float | None, now: float, *, refused: bool, is_step: bool) -> None:
        """Adapt to the answer to a write of any class.

        Args:
            seconds: How long it took; None if that says nothing about the server.
            now: The time.
            refused: Whether the server had no capacity (429, 503) or no time (504) for it.
            is_step: Whether it was a step.
        """
        answers = self._of_steps if is_step else self._of_others
        if refused:
            self._refused_at = now
        elif seconds is not None:
            answers.learn(seconds)
        if self._has_refused(now) or answers.are_slow:
            # A server that is slow because steps keep it busy will not be so afterwards.
            counts = self._has_refused(now) or not self._is_busy(now)
            if counts and now - self._halved_at >= BACK_OFF_EVERY_SECONDS:
                self.window = max(1.0, self.window / 2)
                self._halved_at = now
        elif seconds is not None:
            self.window = min(MAX_WINDOW, self.window + 1.0 / self.window)

    def is_saturated(self, now: float) -> bool:
        """Whether steps keep a slow server busy, or are under way on one that refuses some."""
        if self._has_refused(now):
            return self._quiet_in(now) > 0
        return self._of_steps.are_slow and self._is_busy(now)

    def take(self, now: float, write_class: WriteClass, *, scarce: bool = False) -> bool:
        """Begin a write that can wait, if it may be sent now; end it with `give_back`.

        Args:
            now: The time.
            write_class: Its class.
            scarce: Whether the rate of requests, and not the server, is what steps wait for.
        """
        if self._under_way >= int(self.window):
            return False
        of_queue = write_class is WriteClass.QUEUE_STATUS
        if scarce or self.is_saturated(now) or (of_queue and self._is_busy(now, QUEUE_PATIENCE)):
            if self._earned >= 1.0:
                self._earned -= 1.0
            elif scarce or not of_queue or self._status_in(now) > 0:
                return False
        if of_queue:
            self._status_at = now
        self._under_way += 1
        return True

    def give_back(self, *, used: bool) -> None:
        """End what `take` began; `used` tells whether a write was sent."""
        self._under_way -= 1
        if not used:
            self._earned = min(MAX_EARNED, self._earned + 1.0)

    def due_in(self, now: float, write_class: WriteClass) -> float:
        """Return the seconds until `take` may succeed; infinite if an answer must come first."""
        if self._under_way >= int(self.window):
            return math.inf
        if write_class is WriteClass.QUEUE_STATUS:
            return min(self._quiet_in(now, QUEUE_PATIENCE), self._status_in(now))
        return self._quiet_in(now)

    def _status_in(self, now: float) -> float:
        """Return the seconds until a status of a queue is due although the server is busy."""
        due_at = self._status_at + STATUS_EVERY_SECONDS
        return max(0.0, due_at - now, self._refused_at + BACK_OFF_EVERY_SECONDS - now)

    def _is_busy(self, now: float, patience: int = 1) -> bool:
        """Whether steps keep the server busy."""
        load = self._rate(now) * self._of_steps.average
        is_loaded = self._steps >= BUSY_STEPS or load >= BUSY_LOAD
        return is_loaded and self._quiet_in(now, patience) > 0

    def _rate(self, now: float) -> float:
        """Return how many steps ended in a second lately."""
        return self._steps_per_second * math.exp((self._step_ended_at - now) / LOAD_SECONDS)

    def _quiet_in(self, now: float, patience: int = 1) -> float:
        if self._steps:
            return math.inf
        pause = min(QUIET_SECONDS, max(FAST_SECONDS, 2 * self._of_steps.average))
        return max(0.0, self._step_ended_at + patience * pause - now)

    def _has_refused(self, now: float) -> bool:
        return now - self._refused_at < BACK_OFF_EVERY_SECONDS
