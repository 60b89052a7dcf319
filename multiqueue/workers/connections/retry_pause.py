"""How long to wait between attempts to connect to a worker. Pure.

Parity: M-44. Deviates: until the worker is given up, attempts stay frequent, and just before that
they are as frequent as at first. If the worker answers before that moment, even briefly, no job is
lost.
"""

from __future__ import annotations

from datetime import timedelta

from multiqueue.kube.backoff import exponential

RETRY_BASE_SECONDS = 5.0
RETRY_CAP_SECONDS = 320.0
"""Longest pause between attempts to connect (M-44)."""
GRACE_CAP_SECONDS = 10.0
"""The same before the worker is given up: its next outage must not be added to this one."""
LAST_CHANCE_SECONDS = 30.0
"""How long before a worker is given up attempts become frequent: time for an attempt that hangs, a
pause, and one that does not hang."""


def retry_pause(attempts: int, *, left: timedelta, steady: bool = False) -> float:
    """Return the seconds until the next attempt; 0 if none failed.

    Args:
        attempts: How many attempts failed in a row.
        left: Time until the worker is given up; negative once it was.
        steady: Do not wait longer each time.
    """
    if not attempts:
        return 0.0
    cap = RETRY_BASE_SECONDS if steady else RETRY_CAP_SECONDS
    pause = exponential(attempts, base=RETRY_BASE_SECONDS, cap=cap)
    seconds = left.total_seconds()
    if seconds < 0:
        return pause
    return min(pause, GRACE_CAP_SECONDS, max(seconds - LAST_CHANCE_SECONDS, RETRY_BASE_SECONDS))
