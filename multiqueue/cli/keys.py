"""Reads single keys from a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Iterator

from multiqueue.cli.views.top import DOWN, ENTER, ERASE, ESCAPE, UP

_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
_NAMES = {
    "\x1b[A": UP,
    "\x1bOA": UP,
    "\x1b[B": DOWN,
    "\x1bOB": DOWN,
    "\r": ENTER,
    "\n": ENTER,
    "\x1b": ESCAPE,
    "\x7f": ERASE,
    "\x08": ERASE,
}


def split_keys(text: str) -> list[str]:
    """Return the keys that a terminal sent, by name or as their character; others are left out."""
    found = [_NAMES.get(key, key) for key in _KEY.findall(text)]
    return [key for key in found if not key.startswith("\x1b")]


@contextlib.contextmanager
def pressed_keys() -> Iterator[asyncio.Queue[str]]:
    """Give a queue of the keys that are pressed inside of this block; the terminal shows none.

    It stays empty where keys cannot be read, because the input is no terminal.
    """
    keys: asyncio.Queue[str] = asyncio.Queue()
    try:
        import termios
        import tty
    except ImportError:  # on Windows
        yield keys
        return
    try:
        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
    except (OSError, ValueError, termios.error):
        yield keys
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        sent = os.read(fd, 1024)
        if not sent:  # the terminal is gone
            loop.remove_reader(fd)
        for key in split_keys(sent.decode(errors="ignore")):
            keys.put_nowait(key)

    tty.setcbreak(fd)
    loop.add_reader(fd, read)
    try:
        yield keys
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
