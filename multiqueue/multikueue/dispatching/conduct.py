"""Whether a dispatcher keeps its promises: looked at now and then, counted and told.

It is asked the same once more, where it runs. A dispatcher that does not keep them is used all
the same: that it answers is worth more than that it is clean, and people are told.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from multiqueue.multikueue.dispatching.answer import Reading, take
from multiqueue.multikueue.dispatching.frozen import freeze
from multiqueue.plugins import Dispatcher, DispatchView

EVERY = 128
"""Answers between two looks, the first one included; each costs a second question, so fewer than
one in a hundred takes longer."""
MOST_KEPT = 20_000
"""Objects that a dispatcher may keep from one call to the next. It is to keep none; tables of its
own are no leak. Counting stops there, some milliseconds."""
OWN_THREADS = ("dispatcher-", "asyncio_", "kubeconfig")
"""Names of threads that this program starts, while a dispatcher is asked, too."""
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType)
_PLAIN = (str, int, float, bool, bytes, type(None))


class Misconduct(StrEnum):
    """A promise that was not kept."""

    UNKNOWN_CLUSTER = "UnknownCluster"
    UNSTEADY = "Unsteady"
    STARTS_THREADS = "StartsThreads"
    KEEPS_OBJECTS = "KeepsObjects"


@dataclass(frozen=True, slots=True)
class Finding:
    """One of them, in words that go after the dispatcher's name."""

    kind: Misconduct
    words: str


def list_strangers(reading: Reading) -> list[Finding]:
    """Findings about names in an answer."""
    return [
        Finding(Misconduct.UNKNOWN_CLUSTER, f'named "{name}", which is no cluster of the check')
        for name in reading.strangers
    ]


def ask(dispatcher: Dispatcher, view: DispatchView) -> Reading:
    """Ask a dispatcher. Runs where the plugin runs, and raises what that raises."""
    return take(dispatcher.nominate(freeze(view)))


def examine(dispatcher: Dispatcher, view: DispatchView, first: Reading) -> tuple[Finding, ...]:
    """Ask the same once more, and look at what stays behind. Runs where the plugin runs."""
    before = set(threading.enumerate())
    again = ask(dispatcher, view)
    return tuple(_find(dispatcher, first, again, before))


def _find(
    dispatcher: Dispatcher, first: Reading, again: Reading, before: set[threading.Thread]
) -> Iterator[Finding]:
    if again != first:
        yield Finding(Misconduct.UNSTEADY, "answered otherwise to the same view")
    started = sum(
        not thread.name.startswith(OWN_THREADS) for thread in set(threading.enumerate()) - before
    )
    if started:
        words = f"left {started} thread{'s' if started > 1 else ''} running"
        yield Finding(Misconduct.STARTS_THREADS, words)
    if count_kept(dispatcher) >= MOST_KEPT:
        words = f"keeps more than {MOST_KEPT} objects from one call to the next"
        yield Finding(Misconduct.KEEPS_OBJECTS, words)


def count_kept(dispatcher: Dispatcher, most: int = MOST_KEPT) -> int:
    """Count the objects in a dispatcher's attributes and its module's variables, up to a limit."""
    module = sys.modules.get(type(dispatcher).__module__)
    roots = [
        value
        for name, value in vars(module or object).items()
        if not name.startswith("__") and isinstance(value, dict | list | set | deque)
    ]
    todo: deque[Any] = deque([*_inside(dispatcher), *roots])
    seen: set[int] = set()
    count = 0
    while todo and count < most:
        value = todo.popleft()
        if isinstance(value, _CODE) or id(value) in seen:
            continue
        count += 1
        if isinstance(value, _PLAIN):
            continue
        seen.add(id(value))
        todo.extend(_inside(value))
        if len(todo) >= most:
            return most
    return count


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "__dict__"):
        return [getattr(value, field.name, None) for field in fields(value)]
    return list(getattr(value, "__dict__", {}).values())
