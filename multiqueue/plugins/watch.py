"""Ask a dispatcher in a test, and watch what it does besides answering.

No dispatcher may break the test run: each call runs in a separate thread, which is abandoned if it
hangs. A dispatcher may read what its process in a manager may read: Python and the installed
packages.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from timeit import default_timer
from types import CodeType, FrameType
from typing import Any

from multiqueue.plugins.dispatcher import Dispatcher
from multiqueue.plugins.view import DispatchView

HUNG_AFTER = 10
"""A call hangs if it exceeds this many times its budget; below that it is only slow."""
NETWORK, PROGRAM, CHANCE = "uses the network", "starts a program", "draws random numbers"
CLOCK = "reads the clock; the time is view.now"
ENVIRONMENT = "reads the environment; what it is to be told goes in its arguments"
SLEEP = "sleeps; ask_again_at is for that"
_EVENTS = {
    "subprocess.Popen": PROGRAM,
    "os.system": PROGRAM,
    "os.exec": PROGRAM,
    "os.posix_spawn": PROGRAM,
    "os.fork": PROGRAM,
    "os.forkpty": PROGRAM,
    "os.putenv": "changes the environment",
    "os.remove": "removes files",
    "os.rename": "renames files",
    "os.mkdir": "makes folders",
}
_CLOCKS = (time.time, time.time_ns)
_NOW = frozenset({"now", "utcnow", "today"})
_LOGS = frozenset({"logging", "structlog"})
"""Packages that read the clock to stamp log entries; this does not change an answer."""
_ENVIRONMENT: CodeType = type(os.environ).__getitem__.__code__
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SYSTEM = ("/usr", "/lib", "/lib64")


@dataclass(slots=True)
class WatchedCall:
    """What happened in one call of a dispatcher.

    Attributes:
        answer: What the dispatcher answered.
        error: What the dispatcher raised; None if nothing.
        is_hung: Whether the call did not return; then the other fields are empty.
        seconds: How long the call took.
        deeds: Side effects of the call, as texts without duplicates.
        threads: How many threads the call left running.
    """

    answer: object = None
    error: BaseException | None = None
    is_hung: bool = False
    seconds: float = 0.0
    deeds: tuple[str, ...] = ()
    threads: int = 0


def ask(
    dispatcher: Dispatcher, view: DispatchView, budget: timedelta, *, closely: bool = False
) -> WatchedCall:
    """Ask a dispatcher about one view.

    Args:
        dispatcher: The dispatcher to ask.
        view: The view to ask about.
        budget: How long an answer may take; the call is abandoned after ten times that.
        closely: Also watch for clocks, random numbers and the environment; this slows the call.
    """
    asked, deeds = WatchedCall(is_hung=True), _Deeds()
    before = set(threading.enumerate())

    def run() -> None:
        begun = default_timer()
        with deeds.watched(closely=closely):
            try:
                asked.answer = dispatcher.nominate(view)
            except BaseException as error:  # noqa: BLE001 - it may exit, too; that is told
                asked.error = error
        asked.seconds = default_timer() - begun
        asked.is_hung = False

    thread = threading.Thread(target=run, name="dispatcher-test", daemon=True)
    thread.start()
    thread.join(HUNG_AFTER * budget.total_seconds() + 1)
    if thread.is_alive():
        return WatchedCall(is_hung=True)
    asked.deeds = tuple(deeds.words)
    asked.threads = len(set(threading.enumerate()) - before)
    return asked


class _Deeds:
    """The side effects of one thread while it was watched."""

    def __init__(self) -> None:
        self.words: dict[str, None] = {}

    def watched(self, *, closely: bool) -> _Watch:
        _hear_audits()
        return _Watch(self, closely=closely)

    def note_audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Record one of Python's audit events."""
        if event == "open":
            words = _describe_opening(*args)
        elif event.startswith("socket."):
            words = NETWORK
        else:
            words = _EVENTS.get(event, "")
        if words:
            self.words.setdefault(words)

    def note_call(self, frame: FrameType, event: str, arg: Any) -> None:
        """Record a call, as reported by `sys.setprofile`."""
        if event == "call" and frame.f_code is _ENVIRONMENT:
            self.words.setdefault(ENVIRONMENT)
        elif event == "c_call":
            module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            for words in _describe_call(arg) if module not in _LOGS else ():
                self.words.setdefault(words)


class _Watch:
    """Records what the current thread does while the context is entered."""

    def __init__(self, deeds: _Deeds, *, closely: bool) -> None:
        self._deeds = deeds
        self._closely = closely

    def __enter__(self) -> None:
        _watched.deeds = self._deeds
        if self._closely:
            sys.setprofile(self._deeds.note_call)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        _watched.deeds = None


class _Watched(threading.local):
    deeds: _Deeds | None = None


_watched = _Watched()


@cache
def _hear_audits() -> None:
    """Listen to audit events from now on; Python cannot remove an audit hook."""

    def hear(event: str, args: tuple[Any, ...]) -> None:
        deeds = _watched.deeds
        if deeds is not None:
            deeds.note_audit(event, args)

    sys.addaudithook(hear)


def _describe_opening(path: Any, mode: str | None, flags: int) -> str:
    if isinstance(path, int):
        return ""  # an open file descriptor: opening it was reported
    name = os.fsdecode(path)
    if "__pycache__" in name:
        return ""
    if flags & _WRITES or set(mode or "") & set("wax+"):
        return f"writes {name}"
    absolute = str(Path(name).absolute())
    is_installed = any(absolute.startswith(f"{folder}/") for folder in _list_readable())
    return "" if is_installed else f"reads {name}"


def _list_readable() -> set[str]:
    """Return the folders of installed packages, always without the current folder."""
    here = str(Path.cwd())
    path = {entry for entry in sys.path if entry and entry != here}
    return {*_SYSTEM, sys.prefix, sys.base_prefix, *path}


def _describe_call(function: Callable[..., Any]) -> Iterator[str]:
    owner = getattr(function, "__self__", None)
    if any(function is clock for clock in _CLOCKS) or (
        getattr(function, "__name__", "") in _NOW
        and isinstance(owner, type)
        and issubclass(owner, date)
    ):
        yield CLOCK
    if function is time.sleep:
        yield SLEEP
    if function is os.urandom or owner is _CHANCE:
        yield CHANCE


_CHANCE = getattr(random.random, "__self__", None)
"""What the functions of `random` share; a separate ``Random(seed)`` does not belong to it."""
