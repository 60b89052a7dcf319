"""How long to wait after the n-th failure in a row."""

from __future__ import annotations

import random
from collections.abc import Callable

_MAX_DOUBLINGS = 32


def exponential(failures: int, *, base: float, cap: float) -> float:
    """Return the seconds to wait after so many failures: base, doubled each time, at most cap."""
    doublings = min(max(failures - 1, 0), _MAX_DOUBLINGS)
    return min(cap, base * (1 << doublings))


class Backoff:
    """Jittered exponential backoff of one loop.

    Args:
        base: Seconds after the first failure, before jitter.
        cap: Most seconds, before jitter.
        jitter: Returns a number from 0 to 1. Each wait is shortened by up to a half, so that many
            clients that failed together do not retry together.
    """

    def __init__(
        self, *, base: float, cap: float, jitter: Callable[[], float] = random.random
    ) -> None:
        self.failures = 0
        self._base = base
        self._cap = cap
        self._jitter = jitter

    def next(self) -> float:
        """Count a failure and return the seconds to wait."""
        self.failures += 1
        wait = exponential(self.failures, base=self._base, cap=self._cap)
        return wait * (0.5 + 0.5 * self._jitter())

    def reset(self) -> None:
        """Reset the count of failures, after the loop has worked for long enough."""
        self.failures = 0
