"""One active profile: it asks base, canary, fallback and shadow, and counts the outcomes.

A plain dispatcher of the configuration is a profile without a name.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from multiqueue.dispatcher_host.answer import Answer, Failure
from multiqueue.dispatcher_host.canary import Side, Trials, is_chosen
from multiqueue.dispatcher_host.policy import DispatcherSetting, DispatchPolicy
from multiqueue.dispatcher_host.runner import DispatchRunner
from multiqueue.dispatcher_host.shadow import ShadowFigures
from multiqueue.dispatcher_host.turns import DismissedError, Turns
from multiqueue.plugins import DispatchView, Nomination

BuildView = Callable[[], DispatchView]
Accept = Callable[[DispatchView, Nomination], None]
OpenRunner = Callable[[DispatcherSetting], DispatchRunner]
MOST_WAIT_SECONDS = 4.0
"""A profile may have as many waiting questions as its dispatcher answers in this time, at the pace
of its last answer. Each waiting question occupies one of the slots for concurrent reconciles."""
POSTPONED = timedelta(seconds=5)
"""When to ask again about a Workload that found too many questions waiting."""
RETRY = timedelta(minutes=1)
"""When to ask again if the profile cannot be used; a change of the profile acts at once."""


@dataclass(slots=True)
class Figures:
    """The profile's counts since its last change."""

    since: datetime
    decisions: int = 0
    failures: int = 0
    fallbacks: int = 0


@dataclass(frozen=True, slots=True)
class _Decided:
    """An answer, its view, and whether the dispatcher that should have decided failed.

    ``problem`` is the problem with which a canary failed.
    """

    shown: DispatchView
    answer: Answer
    side: Side
    failed: bool
    problem: str = ""


class LiveProfile:
    """Asks the dispatchers of one policy.

    Args:
        policy: The dispatchers and their settings.
        open_runner: Makes the runner of a dispatcher.
        turns: Decides who asks next; shared by all profiles with the same clusters.
        now: Returns the current time.
        returned: Why its canary returned; empty if it did not.

    Attributes:
        policy: The dispatchers and their settings.
        figures: Counts of its decisions.
        shadow_figures: Counts of its shadow's decisions; None without a shadow.
        trials: Outcomes of its Workloads; None without a canary.
        returned: Why its canary returned; empty if it did not.
        is_closed: Whether another profile has replaced it.
    """

    def __init__(
        self,
        policy: DispatchPolicy,
        open_runner: OpenRunner,
        *,
        turns: Turns,
        now: Callable[[], datetime],
        returned: str = "",
    ) -> None:
        self.policy = policy
        self.returned = returned
        self.is_closed = False
        self.figures = Figures(since=now())
        self.shadow_figures = ShadowFigures() if policy.shadow is not None else None
        self.trials = Trials(policy.canary.limits) if policy.canary is not None else None
        self._turns = turns
        self._who = policy.profile or (policy.base.dispatcher if policy.base is not None else "")
        self._most_waiting = sys.maxsize
        self._now = now
        canary = policy.canary.way if policy.canary is not None else None
        self.base, self.fallback, self.shadow, self.canary = (
            open_runner(way) if way is not None else None
            for way in (policy.base, policy.fallback, policy.shadow, canary)
        )

    @property
    def runners(self) -> tuple[DispatchRunner, ...]:
        """All runners, in the order in which they are asked."""
        found = (self.canary, self.base, self.fallback, self.shadow)
        return tuple(runner for runner in found if runner is not None)

    @property
    def problem(self) -> str:
        """Why its dispatcher does not decide now; empty if it does."""
        return self.policy.problem or (self.base.trouble if self.base is not None else "")

    async def prepare(self) -> None:
        """Load the dispatchers that may decide."""
        for runner in (self.canary, self.base, self.fallback):
            if runner is not None:
                await runner.prepare()

    async def ask(
        self, build_view: BuildView, accept: Accept
    ) -> tuple[DispatchView, Answer] | None:
        """Ask where to send a Workload.

        Questions are asked one at a time. The next view is built after `accept` has recorded the
        answer, so that a burst of Workloads does not see the same room twice. If a dispatcher is
        slow, only a few questions wait for it, so that its Workloads do not delay those of others.

        Returns:
            The view of the dispatcher that answered, and the answer; None if the profile was
            replaced while the question waited.
        """
        await self.prepare()
        if self._turns.count_waiting(self._who) >= self._most_waiting:
            return build_view(), self._introduce(self._postpone())
        try:
            async with self._turns.turn(self._who):
                if self.is_closed:
                    return None
                view = build_view()
                decided = await self._time(view)
                answer = decided.answer
                if answer.nomination is not None:
                    accept(view, answer.nomination)
        except DismissedError:
            return build_view(), self._introduce(self._postpone())
        self._count(view.workload.uid, decided)
        return decided.shown, self._introduce(answer)

    async def consult(self, build_view: BuildView) -> tuple[DispatchView, Answer]:
        """Ask like `ask`, but without effect: figures and canary do not count it.

        The dispatchers' health is still counted: if one hangs or fails here, that counts as usual.
        """
        await self.prepare()
        async with self._turns.turn(self._who):
            decided = await self._decide(build_view())
        return decided.shown, decided.answer

    def close(self) -> None:
        """Stop asking the dispatchers."""
        self.is_closed = True
        for runner in self.runners:
            runner.close()

    # ------------------------------------------------------------ deciding

    async def _time(self, view: DispatchView) -> _Decided:
        """Decide, and adapt the limit of waiting questions to the time that it took."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            return await self._decide(view)
        finally:
            seconds = loop.time() - begun
            self._most_waiting = max(1, int(MOST_WAIT_SECONDS / max(seconds, 1e-6)))
            self._turns.dismiss(self._who, keep=self._most_waiting)

    def _postpone(self) -> Answer:
        name = self.policy.base.dispatcher if self.policy.base is not None else ""
        return Answer(
            problem=f'dispatcher "{name}" is slow, and others wait for its answer',
            failure=Failure.PAUSED,
            retry_at=self._now() + POSTPONED,
            dispatcher=name,
        )

    async def _decide(self, view: DispatchView) -> _Decided:
        canary = self._canary_for(view.workload.uid)
        if canary is not None:
            own = await canary.ask(view)
            if own.nomination is not None:
                return _Decided(canary.show(view), own, Side.CANARY, failed=False)
            shown, answer = await self._ask_base(view)
            return _Decided(shown, answer, Side.CANARY, failed=True, problem=own.problem)
        shown, answer = await self._ask_base(view)
        failed = answer.nomination is None or bool(answer.instead_of)
        return _Decided(shown, answer, Side.BASE, failed=failed)

    async def _ask_base(self, view: DispatchView) -> tuple[DispatchView, Answer]:
        shown, answer = view, self._refuse()
        if self.base is not None:
            shown, answer = self.base.show(view), await self.base.ask(view)
        if answer.nomination is not None or self.fallback is None:
            return shown, answer
        second = await self.fallback.ask(view)
        if second.nomination is None:
            words = f"{answer.problem}; its fallback: {second.problem}"
            return shown, replace(answer, problem=words)
        return self.fallback.show(view), _instead(answer, second, second.nomination)

    def _introduce(self, answer: Answer) -> Answer:
        """Add the profile's name to the problem, since a problem may name fields of the profile."""
        name = self.policy.profile
        if not answer.problem or not name or self.policy.generation == 0:
            return answer
        return replace(answer, problem=f'DispatchProfile "{name}": {answer.problem}')

    def _refuse(self) -> Answer:
        return Answer(
            problem=self.policy.problem, failure=Failure.NOT_LOADED, retry_at=self._now() + RETRY
        )

    def _canary_for(self, uid: str) -> DispatchRunner | None:
        canary = self.policy.canary
        if canary is None or self.returned or not is_chosen(uid, canary.percent):
            return None
        return self.canary

    # ------------------------------------------------------------ counting

    def _count(self, uid: str, decided: _Decided) -> None:
        answer, figures = decided.answer, self.figures
        figures.decisions += answer.nomination is not None
        figures.failures += decided.failed
        figures.fallbacks += bool(answer.instead_of)
        if self.trials is None or self.returned:
            return
        nominated = answer.nomination is not None and bool(answer.nomination.clusters)
        self.trials.note_decision(
            uid,
            decided.side,
            self._now(),
            nominated=nominated and not decided.failed,
            failed=decided.failed,
            problem=decided.problem,
        )


def _instead(answer: Answer, second: Answer, nomination: Nomination) -> Answer:
    """Return the fallback's answer with its reason; ask again once the base may answer."""
    words = f'{answer.problem}; "{second.dispatcher}" decides meanwhile'
    note = "; ".join(filter(None, (nomination.note, words)))
    times = [at for at in (nomination.ask_again_at, answer.retry_at) if at is not None]
    return replace(
        second,
        nomination=replace(nomination, note=note, ask_again_at=min(times, default=None)),
        instead_of=answer.dispatcher or words,
    )
