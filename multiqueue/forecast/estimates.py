"""Estimates that are good for a while. Pure.

One that is an hour away is as good a minute later, unless somebody came to wait meanwhile: a burst
must see the queue that it makes. A decision looks at many workers and may not take long; so where
its budget is spent, an older estimate is put right by as many as came since, as if each had to wait
as long as those before it on average; or the one of a gang of about that size has to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from multiqueue.model.workload import Shape
from multiqueue.plugins.forecast import StartEstimate

KEPT = timedelta(seconds=1)
SHARE = 0.02
"""For how much of the wait, or how long at least, an estimate is good."""
STALE = 25
"""How many times as long it does where there is no time for another one."""
MOST = 1000
"""Questions that are remembered."""
ALIKE = 4
"""By how much gangs may differ of which one's start is taken for the other's."""


@dataclass(slots=True)
class Budget:
    """What one decision may still spend on estimates, over all workers.

    Units: tries of `timeline.TRIES`; a microsecond or two each.
    """

    left: int = 800


class StartQuestion(NamedTuple):
    """When would such a gang start?

    Attributes:
        queue: Key of its LocalQueue.
        size: How much it needs of what is scarce.
        shape: All that it needs, and its priority.
        own: Its key, where it waits there itself.
    """

    queue: str
    size: int
    shape: Shape
    own: str = ""


@dataclass(frozen=True, slots=True)
class KnownEstimate:
    """An answer.

    Attributes:
        found: It.
        arrivals: Who had come to wait until then, counted.
        made_at: When.
        quick: It was only to do for the moment.
    """

    found: StartEstimate
    arrivals: int
    made_at: datetime
    quick: bool


class Estimates:
    """Answers by question."""

    def __init__(self) -> None:
        self._known: dict[StartQuestion, KnownEstimate] = {}

    def find(self, question: StartQuestion, arrivals: int, now: datetime) -> StartEstimate | None:
        """Return an answer that is still good."""
        known = self._known.get(question)
        if known is None or known.quick or known.arrivals != arrivals:
            return None
        return self._use(known, arrivals, now, 1)

    def find_stale(
        self, question: StartQuestion, arrivals: int, now: datetime
    ) -> StartEstimate | None:
        """Return an answer that has to do where there is no time for another one."""
        known = self._known.get(question) or self._find_alike(question)
        return self._use(known, arrivals, now, STALE) if known is not None else None

    def _find_alike(self, question: StartQuestion) -> KnownEstimate | None:
        alike = [
            (abs(other.size - question.size), other.size, other)
            for other in self._known
            if other.queue == question.queue
            and not other.own
            and other.size <= ALIKE * question.size
            and question.size <= ALIKE * other.size
        ]
        return self._known[min(alike, key=lambda entry: entry[:2])[2]] if alike else None

    def _use(
        self, known: KnownEstimate, arrivals: int, now: datetime, patience: int
    ) -> StartEstimate | None:
        wait = known.found.at - known.made_at
        longest = max(KEPT, wait * SHARE) * patience
        if not timedelta() <= now - known.made_at <= longest:
            return None
        return _later(known.found, wait * (arrivals - known.arrivals), now)

    def keep(
        self,
        question: StartQuestion,
        arrivals: int,
        now: datetime,
        found: StartEstimate | None,
        *,
        quick: bool,
    ) -> None:
        """Remember an answer."""
        if len(self._known) >= MOST:
            self._known.clear()
        if found is not None:
            self._known[question] = KnownEstimate(found, arrivals, now, quick)

    def clear(self) -> None:
        """Forget all: there is more or less quota now."""
        self._known.clear()


def _later(found: StartEstimate, waits: timedelta, now: datetime) -> StartEstimate:
    """Return an estimate for who comes later, and not before now."""
    if not waits and found.earliest >= now:
        return found
    more = waits / (found.ahead + 1)
    return replace(
        found,
        at=max(now, found.at + more),
        earliest=max(now, found.earliest + more),
        latest=max(now, found.latest + more),
    )
