"""Check now and then whether a dispatcher keeps its promises, and report misconduct.

The dispatcher is asked the same question again, in its host. A dispatcher that breaks a promise is
still used: its answers matter more than its conduct. Users can read about it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from multiqueue.dispatcher_host.answer import AnswerReading, take
from multiqueue.plugins import Dispatcher, DispatchView
from multiqueue.plugins.kept import MOST_KEPT, count_kept

EVERY = 128
"""Answers per check; the first answer is checked. A check costs a second question, so fewer than
one answer in a hundred takes longer."""
OWN_THREADS = ("dispatcher-", "asyncio_", "kubeconfig")
"""Name prefixes of threads that this program may start while a dispatcher is asked."""


class Misconduct(StrEnum):
    """A promise that a dispatcher broke."""

    UNKNOWN_CLUSTER = "UnknownCluster"
    """It named a cluster that is not in the view; the name is dropped."""
    UNSTEADY = "Unsteady"
    """It answered the same view in two ways."""
    STARTS_THREADS = "StartsThreads"
    """It left threads running."""
    KEEPS_OBJECTS = "KeepsObjects"
    """It keeps too many objects from one call to the next."""


@dataclass(frozen=True, slots=True)
class ConductFinding:
    """One case of misconduct, with a text that follows the dispatcher's name."""

    kind: Misconduct
    words: str


def list_strangers(reading: AnswerReading) -> list[ConductFinding]:
    """Return findings about unknown names in an answer."""
    return [
        ConductFinding(
            Misconduct.UNKNOWN_CLUSTER, f'named "{name}", which is no cluster of the check'
        )
        for name in reading.strangers
    ]


def examine(
    dispatcher: Dispatcher, view: DispatchView, first: AnswerReading
) -> tuple[ConductFinding, ...]:
    """Ask the same question again, and look for side effects. Runs in the dispatcher's host."""
    before = set(threading.enumerate())
    again = take(dispatcher.nominate(view))
    return tuple(_find(dispatcher, first, again, before))


def _find(
    dispatcher: Dispatcher,
    first: AnswerReading,
    again: AnswerReading,
    before: set[threading.Thread],
) -> Iterator[ConductFinding]:
    if again != first:
        yield ConductFinding(Misconduct.UNSTEADY, "answered otherwise to the same view")
    started = sum(
        not thread.name.startswith(OWN_THREADS) for thread in set(threading.enumerate()) - before
    )
    if started:
        words = f"left {started} thread{'s' if started > 1 else ''} running"
        yield ConductFinding(Misconduct.STARTS_THREADS, words)
    if count_kept(dispatcher) >= MOST_KEPT:
        words = f"keeps more than {MOST_KEPT} objects from one call to the next"
        yield ConductFinding(Misconduct.KEEPS_OBJECTS, words)
