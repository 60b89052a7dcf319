"""Whether a dispatcher keeps its promises: looked at now and then, counted and told.

It is asked the same once more, where it runs. A dispatcher that does not keep them is used all
the same: that it answers is worth more than that it is clean, and people are told.
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
"""Answers between two looks, the first one included; each costs a second question, so fewer than
one in a hundred takes longer."""
OWN_THREADS = ("dispatcher-", "asyncio_", "kubeconfig")
"""Names of threads that this program starts, while a dispatcher is asked, too."""


class Misconduct(StrEnum):
    """A promise that was not kept."""

    UNKNOWN_CLUSTER = "UnknownCluster"
    UNSTEADY = "Unsteady"
    STARTS_THREADS = "StartsThreads"
    KEEPS_OBJECTS = "KeepsObjects"


@dataclass(frozen=True, slots=True)
class ConductFinding:
    """One of them, in words that go after the dispatcher's name."""

    kind: Misconduct
    words: str


def list_strangers(reading: AnswerReading) -> list[ConductFinding]:
    """Findings about names in an answer."""
    return [
        ConductFinding(
            Misconduct.UNKNOWN_CLUSTER, f'named "{name}", which is no cluster of the check'
        )
        for name in reading.strangers
    ]


def ask(dispatcher: Dispatcher, view: DispatchView) -> AnswerReading:
    """Ask a dispatcher. Runs where the plugin runs, and raises what that raises.

    Args:
        dispatcher: It.
        view: Frozen (`frozen.freeze`).
    """
    return take(dispatcher.nominate(view))


def examine(
    dispatcher: Dispatcher, view: DispatchView, first: AnswerReading
) -> tuple[ConductFinding, ...]:
    """Ask the same once more, and look at what stays behind. Runs where the plugin runs."""
    before = set(threading.enumerate())
    again = ask(dispatcher, view)
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
