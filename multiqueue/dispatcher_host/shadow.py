"""Dispatchers that decide beside the active ones: on the same views, later, and without effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from multiqueue.dispatcher_host.runner import DispatchRunner
from multiqueue.plugins import DispatchView, Nomination

MOST_WAITING = 256
"""Views that wait to be shown; each is some hundred kilobytes for a hundred workers."""

log = structlog.get_logger("multiqueue.dispatch")


@dataclass(slots=True)
class ShadowFigures:
    """How often a shadow would have decided otherwise."""

    decisions: int = 0
    differences: int = 0
    failures: int = 0
    skipped: int = 0
    last_difference: str = ""


@dataclass(frozen=True, slots=True)
class ShadowQuestion:
    """A view that a shadow is to be asked about, and what was decided."""

    profile: str
    runner: DispatchRunner
    figures: ShadowFigures
    view: DispatchView
    decided: Nomination


class Shadows:
    """Asks shadows one after another, and never holds up a decision.

    Args:
        on_answer: Gets the name of the profile, and whether the answer differs.

    Attributes:
        queue: What is to be asked.
    """

    def __init__(
        self, on_answer: Callable[[str, bool], None] = lambda _name, _differs: None
    ) -> None:
        self.queue: asyncio.Queue[ShadowQuestion] = asyncio.Queue(MOST_WAITING)
        self._on_answer = on_answer

    def put(self, question: ShadowQuestion) -> None:
        """Have a shadow asked; it is left out where it cannot keep up."""
        try:
            self.queue.put_nowait(question)
        except asyncio.QueueFull:
            question.figures.skipped += 1

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            question = await self.queue.get()
            try:
                await self.ask(question)
            except Exception:  # one profile's shadow must not stop the others
                log.exception("shadow not asked", profile=question.profile)
                question.figures.failures += 1

    async def ask(self, question: ShadowQuestion) -> None:
        """Ask about one view, and compare."""
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
    """Say where two answers would have led to something else; empty where they would not.

    All nominated clusters are offered the Workload at once, so their order makes no difference.
    """
    if decided.external or shadow.external:
        return "" if decided.external == shadow.external else "one leaves it to a controller"
    if bool(decided.refusal) != bool(shadow.refusal):
        return f"{describe_nomination(decided)}, the shadow: {describe_nomination(shadow)}"
    if set(decided.clusters) == set(shadow.clusters):
        return ""
    return f"{describe_nomination(decided)}, the shadow: {describe_nomination(shadow)}"


def describe_nomination(nomination: Nomination) -> str:
    """Say where a Workload would go."""
    if nomination.refusal:
        return "refused"
    if nomination.external:
        return "left to a controller"
    return ", ".join(nomination.clusters) or "nowhere"
