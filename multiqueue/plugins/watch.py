"""Asks a dispatcher in a test, and watches what it does beside answering.

Whatever it does must not end the tests: it is asked in a thread that is left where it hangs. What
it may read is what its process may read in a manager: Python, and the packages that are installed.
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
"""Times the budget: one that is slow is to be told from one that hangs."""
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
"""Packages that stamp what is logged: that changes no answer."""
_ENVIRONMENT: CodeType = type(os.environ).__getitem__.__code__
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SYSTEM = ("/usr", "/lib", "/lib64")


@dataclass(slots=True)
class WatchedCall:
    """What came of asking.

    Attributes:
        answer: What it answered.
        error: What it raised; None: nothing.
        is_hung: Whether there is no answer, and nothing else.
        seconds: How long that took.
        deeds: What it did beside answering, in words, each once.
        threads: How many threads it left running.
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
    """Ask about one view.

    Args:
        dispatcher: Who is asked.
        view: About what.
        budget: How long an answer may take; it is given up after ten times that.
        closely: Watch for clocks, chance and the environment, too: that takes it longer.
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
    """What one thread did while it was watched."""

    def __init__(self) -> None:
        self.words: dict[str, None] = {}

    def watched(self, *, closely: bool) -> _Watch:
        _hear_audits()
        return _Watch(self, closely=closely)

    def note_audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Take in one of Python's audit events."""
        if event == "open":
            words = _describe_opening(*args)
        elif event.startswith("socket."):
            words = NETWORK
        else:
            words = _EVENTS.get(event, "")
        if words:
            self.words.setdefault(words)

    def note_call(self, frame: FrameType, event: str, arg: Any) -> None:
        """Take in a call, as `sys.setprofile` tells it."""
        if event == "call" and frame.f_code is _ENVIRONMENT:
            self.words.setdefault(ENVIRONMENT)
        elif event == "c_call":
            module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            for words in _describe_call(arg) if module not in _LOGS else ():
                self.words.setdefault(words)


class _Watch:
    """Has what the present thread does noted, as long as it is entered."""

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
    """Listen to audit events from now on; Python knows no way to stop that."""

    def hear(event: str, args: tuple[Any, ...]) -> None:
        deeds = _watched.deeds
        if deeds is not None:
            deeds.note_audit(event, args)

    sys.addaudithook(hear)


def _describe_opening(path: Any, mode: str | None, flags: int) -> str:
    if isinstance(path, int):
        return ""  # opened before: that was told
    name = os.fsdecode(path)
    if "__pycache__" in name:
        return ""
    if flags & _WRITES or set(mode or "") & set("wax+"):
        return f"writes {name}"
    absolute = str(Path(name).absolute())
    is_installed = any(absolute.startswith(f"{folder}/") for folder in _list_readable())
    return "" if is_installed else f"reads {name}"


def _list_readable() -> set[str]:
    """Return the folders of what is installed; not where this was started, though on the path."""
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
"""What the functions of `random` share; an own ``Random(seed)`` is none of it."""
