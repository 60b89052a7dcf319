"""The rate limiter of one API server: an adaptive token bucket and a bound on requests in flight.

The initial rate is high. A 429 or 503 halves it, at most once a second, and no request is sent
before the server's Retry-After. If answers become slow compared with the server's best time, the
rate shrinks gently. Every second without trouble gives a tenth back. Requests wait in order of
arrival; requests that give way come after all others.
"""

from __future__ import annotations

import asyncio
from collections import deque

DECREASE_EVERY_SECONDS = 1.0
"""Seconds in which several refusals count as one."""
SLOW_SECONDS = 1.0
"""Answers faster than this never count as slow: admission webhooks may take that long."""
SLOW_FACTOR = 4.0
"""Ratio of the average to the best duration from which answers count as slow."""
MAX_PAUSE_SECONDS = 60.0
"""Longest Retry-After that is honoured."""


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
        self._best_seconds: float | None = None
        self._average_seconds = 0.0
        self._is_slow = False
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._patient: deque[tuple[asyncio.Future[None], float]] = deque()
        self._patient_in_flight = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Number of requests that wait for their turn."""
        return len(self._waiters) + len(self._patient)

    async def acquire(self, *, patience: float = 0.0) -> None:
        """Wait for this request's turn; pair it with `release`.

        Args:
            patience: Seconds for which the request lets all others go first. It is sent earlier if
                no other request is under way.
        """
        loop = asyncio.get_running_loop()
        if patience:
            await self._acquire_patiently(loop, loop.time() + patience)
            return
        self._refill(loop.time())
        if not self._waiters and self._take():
            return
        waiter = loop.create_future()
        self._waiters.append(waiter)
        self._schedule(loop)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._tokens += 1
                self.in_flight -= 1
            elif waiter in self._waiters:
                # `_wake` drops cancelled waiters, so this one may be gone already.
                self._waiters.remove(waiter)
            self._wake(loop)
            raise

    async def _acquire_patiently(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        waiter = loop.create_future()
        self._patient.append((waiter, until))
        self._refill(loop.time())
        self._wake(loop)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._tokens += 1
                self.in_flight -= 1
                self._patient_in_flight -= 1
            self._wake(loop)  # drops it
            raise

    def release(
        self,
        *,
        seconds: float | None = None,
        refused: bool = False,
        retry_after: float | None = None,
        patient: bool = False,
    ) -> None:
        """Give the slot back and adapt the rate to the answer.

        Args:
            patient: Whether the request was acquired with patience.
            seconds: Duration of a cheap request; None for lists and failures, which do not count.
            refused: Whether the server answered 429 or 503.
            retry_after: Seconds that the server asked us to wait.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._refill(now)
        self.in_flight -= 1
        self._patient_in_flight -= patient
        if refused:
            self.throttled += 1
            self._slow_down(0.5, now)
            if retry_after:
                pause = now + min(retry_after, MAX_PAUSE_SECONDS)
                self._paused_until = max(self._paused_until, pause)
        elif seconds is not None:
            self._learn(seconds, now)
        self._wake(loop)

    def _learn(self, seconds: float, now: float) -> None:
        best = self._best_seconds
        # The best time rises slowly, so that a server that moved farther away is not slow for ever.
        self._best_seconds = seconds if best is None else min(seconds, best * 1.001)
        self._average_seconds += (seconds - self._average_seconds) * 0.1
        usual = max(SLOW_SECONDS, SLOW_FACTOR * self._best_seconds)
        self._is_slow = self._average_seconds > usual
        if self._is_slow:
            self._slow_down(0.9, now)

    def _slow_down(self, factor: float, now: float) -> None:
        if now - self._changed_at < DECREASE_EVERY_SECONDS:
            return
        self.rate = max(self._min_rate, self.rate * factor)
        self._tokens = min(self._tokens, self.rate)
        self._changed_at = now

    def _refill(self, now: float) -> None:
        if self._refilled_at is None:
            self._refilled_at = now
            return
        elapsed = now - self._refilled_at
        self._refilled_at = now
        quiet = now - self._changed_at > DECREASE_EVERY_SECONDS and not self._is_slow
        if quiet and self.rate < self._max_rate:
            self.rate = min(self._max_rate, self.rate + self._max_rate * 0.1 * min(elapsed, 10.0))
        limit = self._burst * self.rate / self._max_rate
        self._tokens = min(max(limit, 1.0), self._tokens + elapsed * self.rate)

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
        while self._patient:
            waiter, until = self._patient[0]
            if waiter.done():
                self._patient.popleft()
            elif (self._is_quiet() or until <= loop.time()) and self._take():
                self._patient_in_flight += 1
                self._patient.popleft()
                waiter.set_result(None)
            else:
                break
        self._schedule(loop)

    def _is_quiet(self) -> bool:
        """Whether no request is under way except those that give way."""
        return not self._waiters and self.in_flight == self._patient_in_flight

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the timer for the next token; if all slots are taken, `release` wakes waiters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.waiting or self.in_flight >= self._max_in_flight:
            return
        now = loop.time()
        delay = max((1.0 - self._tokens) / self.rate, self._paused_until - now, 0.001)
        if not self._waiters and not self._is_quiet():
            delay = max(delay, self._patient[0][1] - now)
        self._timer = loop.call_later(delay, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._refill(loop.time())
        self._wake(loop)
