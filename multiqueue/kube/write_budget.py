"""How many writes that can wait one API server takes now.

Writes have classes. A step (an admission, an eviction, the start, stop or end of a job, a check, a
finalizer) never waits here. Statuses of queues, reasons and Events get what is left. On a server
that answers quickly, or while no step is under way, an AIMD window bounds how many of them are
under way. On a busy server that answers slowly or refuses requests, each step earns a fixed share
of one. Pure: ``now`` is in seconds of a clock that never jumps.
"""

from __future__ import annotations

from enum import IntEnum

SHARE = 0.02
"""Writes that wait for each step on a busy, slow server. A job takes at least five steps: its
Workload is made and admitted, it is started, it ends, its finalizer goes. So that is a tenth of a
write for each admission."""
MAX_EARNED = 2.0
"""Most writes that steps can save up: an earlier burst of steps is no reason for a later one."""
MAX_WINDOW = 16.0
"""Most writes at a time: more would wait in a quick server, too."""
QUIET_SECONDS = 0.25
"""The longest time without a step after which a server is no longer busy."""
FAST_SECONDS = 0.02
"""Answers within this time are never slow."""
SLOW_SECONDS = 0.05
"""Answers after this time are always slow. A quiet kube-apiserver writes in 5 to 10 ms."""
SLOW_FACTOR = 3.0
"""Ratio of the average to the best duration from which other answers are slow."""
BACK_OFF_EVERY_SECONDS = 1.0
"""Seconds in which the window is halved at most once."""
ALPHA = 0.2
"""How much one answer moves the average."""


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
            if now - self._halved_at >= BACK_OFF_EVERY_SECONDS:
                self.window = max(1.0, self.window / 2)
                self._halved_at = now
        elif seconds is not None:
            self.window = min(MAX_WINDOW, self.window + 1.0 / self.window)

    def is_saturated(self, now: float) -> bool:
        """Whether steps are under way on a server that is slow or refuses requests."""
        is_slow = self._has_refused(now) or self._of_steps.are_slow
        return is_slow and self._quiet_in(now) > 0

    def take(self, now: float, *, scarce: bool = False) -> bool:
        """Begin a write that can wait, if it may be sent now; end it with `give_back`.

        Args:
            now: The time.
            scarce: Whether the rate of requests, and not the server, is what steps wait for.
        """
        if self._under_way >= int(self.window):
            return False
        if scarce or self.is_saturated(now):
            if self._earned < 1.0:
                return False
            self._earned -= 1.0
        self._under_way += 1
        return True

    def give_back(self, *, used: bool) -> None:
        """End what `take` began; `used` tells whether a write was sent."""
        self._under_way -= 1
        if not used:
            self._earned = min(MAX_EARNED, self._earned + 1.0)

    def due_in(self, now: float) -> float | None:
        """Return the seconds until `take` may succeed; None if an answer must come first."""
        if self._under_way >= int(self.window) or self._steps:
            return None
        return self._quiet_in(now)

    def _quiet_in(self, now: float) -> float:
        if self._steps:
            return float("inf")
        pause = min(QUIET_SECONDS, max(FAST_SECONDS, 2 * self._of_steps.average))
        return max(0.0, self._step_ended_at + pause - now)

    def _has_refused(self, now: float) -> bool:
        return now - self._refused_at < BACK_OFF_EVERY_SECONDS
