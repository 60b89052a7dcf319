"""Shadow dispatchers get the views of the active ones, later and without effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from multiqueue.dispatcher_host.runner import DispatchRunner
from multiqueue.plugins import DispatchView, Nomination

MOST_WAITING = 256
"""Most views that wait for shadows; a view of a hundred workers takes some 100 kB."""

log = structlog.get_logger("multiqueue.dispatch")


@dataclass(slots=True)
class ShadowFigures:
    """How often a shadow would have decided differently."""

    decisions: int = 0
    differences: int = 0
    failures: int = 0
    skipped: int = 0
    last_difference: str = ""


@dataclass(frozen=True, slots=True)
class ShadowQuestion:
    """A view to show to a shadow, and the actual decision."""

    profile: str
    runner: DispatchRunner
    figures: ShadowFigures
    view: DispatchView
    decided: Nomination


class Shadows:
    """Asks shadows one after another, without delaying decisions.

    Args:
        on_answer: Gets the name of the profile, and whether the answer differs.

    Attributes:
        queue: The questions that wait for an answer.
    """

    def __init__(
        self, on_answer: Callable[[str, bool], None] = lambda _name, _differs: None
    ) -> None:
        self.queue: asyncio.Queue[ShadowQuestion] = asyncio.Queue(MOST_WAITING)
        self._on_answer = on_answer

    def put(self, question: ShadowQuestion) -> None:
        """Queue a question for a shadow; it is skipped if the queue is full."""
        try:
            self.queue.put_nowait(question)
        except asyncio.QueueFull:
            question.figures.skipped += 1

    async def run(self) -> None:
        """Ask queued questions until cancelled."""
        while True:
            question = await self.queue.get()
            try:
                await self.ask(question)
            except Exception:  # one profile's shadow must not stop the others
                log.exception("shadow not asked", profile=question.profile)
                question.figures.failures += 1

    async def ask(self, question: ShadowQuestion) -> None:
        """Ask about one view, and compare the answer with the decision."""
        figures = question.figures
        await question.runner.prepare()
        answer = await question.runner.ask(question.view)
        if answer.nomination is None:
            figures.failures += 1
            return
        figures.decisions += 1
        difference = find_difference(question.decided, answer.nomination)
        if difference:
            figures.differences += 1
            figures.last_difference = f"{question.view.workload.key}: {difference}"
        self._on_answer(question.profile, bool(difference))


def find_difference(decided: Nomination, shadow: Nomination) -> str:
    """Return how two answers would have different effects; empty if the effects are the same.

    A Workload is offered to all nominated clusters at once, so their order makes no difference.
    """
    if decided.external or shadow.external:
        return "" if decided.external == shadow.external else "one leaves it to a controller"
    if bool(decided.refusal) != bool(shadow.refusal):
        return f"{describe_nomination(decided)}, the shadow: {describe_nomination(shadow)}"
    if set(decided.clusters) == set(shadow.clusters):
        return ""
    return f"{describe_nomination(decided)}, the shadow: {describe_nomination(shadow)}"


def describe_nomination(nomination: Nomination) -> str:
    """Return in words where a Workload would go."""
    if nomination.refusal:
        return "refused"
    if nomination.external:
        return "left to a controller"
    return ", ".join(nomination.clusters) or "nowhere"
