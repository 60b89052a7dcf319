"""Wait for what programs of others do in their own time."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
DEADLINE_SECONDS = 90
PAUSE_SECONDS = 0.2


def until(look: Callable[[], T], what: str) -> T:
    """Look again and again until what is seen is true of it; answers that.

    Raises:
        TimeoutError: It did not come; the message has what was seen last.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {DEADLINE_SECONDS} s; last seen: {seen!r}")
        time.sleep(PAUSE_SECONDS)


def answers(url: str) -> bool:
    """Whether an HTTP server says 200 at this address."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
