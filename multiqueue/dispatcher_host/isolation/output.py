"""Log what a plugin prints, up to a limit."""

from __future__ import annotations

import os
import time

import structlog

_CHUNK = 65_536
_PAUSE_SECONDS = 0.002
"""Pause after a full chunk, so that endless output costs only a few percent of a processor."""
_WINDOW_SECONDS = 60.0
_MOST_LINES, _LONGEST_LINE = 50, 500
"""Limits of what is logged within a window; the rest is counted."""

log = structlog.get_logger("multiqueue.dispatcher_host.isolation")


def read_output(handle: int, dispatcher: str) -> None:
    """Read until all writers have ended; runs in a separate thread."""
    begun, left, dropped = time.monotonic(), _MOST_LINES, 0
    try:
        while chunk := os.read(handle, _CHUNK):
            if time.monotonic() - begun >= _WINDOW_SECONDS:
                _tell_dropped(dispatcher, dropped)
                begun, left, dropped = time.monotonic(), _MOST_LINES, 0
            lines = chunk.decode(errors="replace").split("\n") if left else []
            shown = [_tame(line[:_LONGEST_LINE]) for line in lines if line.strip()][:left]
            left -= len(shown)
            dropped += max(0, len(chunk) - sum(map(len, shown)) - len(lines))
            for line in shown:
                log.info("dispatcher printed", dispatcher=dispatcher, text=line)
            if len(chunk) == _CHUNK:
                time.sleep(_PAUSE_SECONDS)
    finally:
        os.close(handle)
        _tell_dropped(dispatcher, dropped)


def _tell_dropped(dispatcher: str, dropped: int) -> None:
    if dropped:
        log.warning("dispatcher prints too much", dispatcher=dispatcher, left_out=dropped)


def _tame(line: str) -> str:
    """Remove control characters, since logs are also read in terminals."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
