"""The rate limiter of one API server: an adaptive token bucket and a bound on requests in flight.

The initial rate is high. A 429, 503 or 504 halves it, at most once a second, and no request is sent
before the server's Retry-After. Every second without a refusal gives a tenth back. Slow answers do
not change the rate: the bound on requests in flight is enough against a slow server, and answers
are late, too, if this program has no CPU time. Requests wait in order of arrival. Writes that can
wait have a turn of their own first (`write_budget`).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from multiqueue.kube.write_budget import WriteBudget, WriteClass

DECREASE_EVERY_SECONDS = 1.0
"""Seconds in which several refusals count as one."""
MAX_PAUSE_SECONDS = 60.0
"""Longest Retry-After that is honoured."""


@dataclass(slots=True)
class _Turn:
    used: bool = False


_TURN: ContextVar[_Turn | None] = ContextVar("multiqueue-write-turn", default=None)
"""The turn in which this task sends a write that can wait; set by `RateLimiter.spare`."""


class RateLimiter:
    """Adaptive token bucket for one API server.

    Args:
        rate: Requests per second at the start, and the highest rate after a recovery.
        burst: Requests that may go out at once after a pause; one second's worth by default.
        min_rate: Lowest rate in requests per second, whatever the number of refusals.
        max_in_flight: Highest number of requests without an answer.
    """

    def __init__(
        self,
        *,
        rate: float = 1000.0,
        burst: float | None = None,
        min_rate: float = 1.0,
        max_in_flight: int = 64,
    ) -> None:
        self.rate = rate
        self.in_flight = 0
        self.throttled = 0
        self._max_rate = rate
        self._min_rate = min(min_rate, rate)
        self._burst = burst if burst is not None else max(rate, 1.0)
        self._max_in_flight = max_in_flight
        self._tokens = self._burst
        self._refilled_at: float | None = None
        self._changed_at = float("-inf")
        self._paused_until = float("-inf")
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.budget = WriteBudget()
        self._spare: dict[WriteClass, deque[asyncio.Future[None]]] = {
            c: deque() for c in WriteClass
        }
        self._spare_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Number of requests that wait for their turn."""
        return len(self._waiters)

    @asynccontextmanager
    async def spare(self, write_class: WriteClass) -> AsyncGenerator[None]:
        """Wait until the server has capacity for a write of this class; send it inside.

        Compute what is written inside too, because the wait can take minutes.
        """
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._spare[write_class].append(turn)
        self._wake_spare(loop)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.budget.give_back(used=False)
            self._wake_spare(loop)  # drops it
            raise
        own = _Turn()
        token = _TURN.set(own)
        try:
            yield
        finally:
            _TURN.reset(token)
            self.budget.give_back(used=own.used)
            self._wake_spare(loop)

    @property
    def is_saturated(self) -> bool:
        """Whether this program keeps the server busy, and the server is slow."""
        return self.budget.is_saturated(asyncio.get_running_loop().time())

    async def acquire(self, *, write: bool = False) -> None:
        """Wait for this request's turn; pair it with `release`.

        Args:
            write: Whether it changes something on the server.
        """
        loop = asyncio.get_running_loop()
        is_step = write and _TURN.get() is None
        if is_step:
            self.budget.begin_step()
        self._refill(loop.time())
        if not self._waiters and self._take():
            return
        waiter = loop.create_future()
        self._waiters.append(waiter)
        self._schedule(loop)
        try:
            await waiter
        except asyncio.CancelledError:
            if is_step:
                self.budget.end_step(loop.time())
            if waiter.done() and not waiter.cancelled():
                self._tokens += 1
                self.in_flight -= 1
            elif waiter in self._waiters:
                # `_wake` drops cancelled waiters, so this one may be gone already.
                self._waiters.remove(waiter)
            self._wake(loop)
            raise

    def release(
        self,
        *,
        seconds: float | None = None,
        refused: bool = False,
        retry_after: float | None = None,
        write: bool = False,
    ) -> None:
        """Give the slot back and adapt the rate to the answer.

        Args:
            seconds: Duration of a cheap write; None for lists and failures, which do not count.
            refused: Whether the server answered 429, 503 or 504.
            retry_after: Seconds that the server asked us to wait.
            write: As it was acquired.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._refill(now)
        self.in_flight -= 1
        if write:
            own = _TURN.get()
            self.budget.learn(seconds, now, refused=refused, is_step=own is None)
            if own is None:
                self.budget.end_step(now)
            else:
                own.used = True
        if refused:
            self.throttled += 1
            self._slow_down(now)
            if retry_after:
                pause = now + min(retry_after, MAX_PAUSE_SECONDS)
                self._paused_until = max(self._paused_until, pause)
        self._wake(loop)

    def _slow_down(self, now: float) -> None:
        if now - self._changed_at < DECREASE_EVERY_SECONDS:
            return
        self.rate = max(self._min_rate, self.rate / 2)
        self._tokens = min(self._tokens, self.rate)
        self._changed_at = now

    def _refill(self, now: float) -> None:
        if self._refilled_at is None:
            self._refilled_at = now
            return
        elapsed = now - self._refilled_at
        self._refilled_at = now
        quiet = now - self._changed_at > DECREASE_EVERY_SECONDS
        if quiet and self.rate < self._max_rate:
            self.rate = min(self._max_rate, self.rate + self._max_rate * 0.1 * min(elapsed, 10.0))
        self._tokens = min(self._limit(), self._tokens + elapsed * self.rate)

    def _limit(self) -> float:
        """Return the most tokens that are kept at this rate."""
        return max(self._burst * self.rate / self._max_rate, 1.0)

    def _take(self) -> bool:
        assert self._refilled_at is not None
        if (
            self._tokens < 1.0
            or self.in_flight >= self._max_in_flight
            or self._refilled_at < self._paused_until
        ):
            return False
        self._tokens -= 1.0
        self.in_flight += 1
        return True

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiters:
            if self._waiters[0].done():
                self._waiters.popleft()
            elif self._take():
                self._waiters.popleft().set_result(None)
            else:
                break
        self._wake_spare(loop)
        self._schedule(loop)

    def _wake_spare(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give turns to writes that can wait, or set the timer for the next turn.

        Half of the tokens are kept for steps: those that come in a burst do not wait for tokens
        that Events took a moment before. While steps wait, others get what steps have earned for
        them (`WriteBudget`): with a low rate, queues would have no status for minutes.
        """
        if self._spare_timer is not None:
            self._spare_timer.cancel()
            self._spare_timer = None
        now = loop.time()
        self._refill(now)
        half = self._limit() / 2
        refilled_in = (half - self._tokens) / self.rate
        scarce = refilled_in > 0 or bool(self._waiters)
        for write_class, turns in self._spare.items():
            while turns:
                if turns[0].done():
                    turns.popleft()
                elif now >= self._paused_until and self.budget.take(
                    now, write_class, scarce=scarce
                ):
                    turns.popleft().set_result(None)
                else:
                    break
        waiting = [write_class for write_class, turns in self._spare.items() if turns]
        due_in = min((self.budget.due_in(now, each) for each in waiting), default=math.inf)
        if not self._waiters and due_in < math.inf:
            delay = max(due_in, refilled_in, self._paused_until - now, 0.001)
            self._spare_timer = loop.call_later(delay, self._wake_spare, loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the timer for the next token; if all slots are taken, `release` wakes waiters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.waiting or self.in_flight >= self._max_in_flight:
            return
        now = loop.time()
        delay = max((1.0 - self._tokens) / self.rate, self._paused_until - now, 0.001)
        self._timer = loop.call_later(delay, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._refill(loop.time())
        self._wake(loop)
