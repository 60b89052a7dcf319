"""One profile at work: who is asked, who steps in, who is asked beside, and what came of it.

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
"""As many questions of a profile wait as its dispatcher answers in so many seconds, at the pace of
its last answer: each holds one of the places in which Workloads are looked at."""
POSTPONED = timedelta(seconds=5)
"""When a Workload comes again that found too many waiting."""
RETRY = timedelta(minutes=1)
"""When a Workload is looked at again whose profile cannot be used; its change is told at once."""


@dataclass(slots=True)
class Figures:
    """What a profile did since it is as it is."""

    since: datetime
    decisions: int = 0
    failures: int = 0
    fallbacks: int = 0


@dataclass(frozen=True, slots=True)
class _Decided:
    """An answer, what whoever gave it was shown, and whether who should have given it failed.

    The problem is what a canary failed with.
    """

    shown: DispatchView
    answer: Answer
    side: Side
    failed: bool
    problem: str = ""


class LiveProfile:
    """Asks the dispatchers of one policy.

    Args:
        policy: Who they are.
        open_runner: Puts one behind its fence.
        turns: Who asks next; shared by all that decide about the same clusters.
        now: Tells the time.
        returned: Why its canary does not decide any more; empty where it does.

    Attributes:
        policy: As above.
        figures: What was decided.
        shadow_figures: What its shadow made of it; None without one.
        trials: What became of the Workloads; None without a canary.
        returned: As above.
        is_closed: Whether another one has taken its place.
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
        """Everyone that may be asked, the first to be asked first."""
        found = (self.canary, self.base, self.fallback, self.shadow)
        return tuple(runner for runner in found if runner is not None)

    @property
    def problem(self) -> str:
        """Why its dispatcher does not decide now; empty where it does."""
        return self.policy.problem or (self.base.trouble if self.base is not None else "")

    async def prepare(self) -> None:
        """Load the dispatchers that decide."""
        for runner in (self.canary, self.base, self.fallback):
            if runner is not None:
                await runner.prepare()

    async def ask(
        self, build_view: BuildView, accept: Accept
    ) -> tuple[DispatchView, Answer] | None:
        """Ask where a Workload shall go.

        One question at a time: the view of the next is built after `accept` took in the answer, so
        that a burst of Workloads does not see the same room twice. Of a slow dispatcher only a few
        questions wait, so that its Workloads do not keep those of others from being looked at.

        Returns:
            What was seen by who answered, and the answer; None: the profile was replaced while
            others were asked.
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
        """Ask as `ask` does, but nothing follows, and figures and canary do not count it.

        How the dispatchers do is counted all the same: one that hangs or fails here does so there.
        """
        await self.prepare()
        async with self._turns.turn(self._who):
            decided = await self._decide(build_view())
        return decided.shown, decided.answer

    def close(self) -> None:
        """Nobody is asked any more."""
        self.is_closed = True
        for runner in self.runners:
            runner.close()

    # ------------------------------------------------------------ deciding

    async def _time(self, view: DispatchView) -> _Decided:
        """Decide, and let as many wait from now on as will be answered within seconds."""
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
        """Say whose problem it is: a Workload's message names fields of the profile."""
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
    """The fallback's answer, with why it was asked, and no later than the other can be again."""
    words = f'{answer.problem}; "{second.dispatcher}" decides meanwhile'
    note = "; ".join(filter(None, (nomination.note, words)))
    times = [at for at in (nomination.ask_again_at, answer.retry_at) if at is not None]
    return replace(
        second,
        nomination=replace(nomination, note=note, ask_again_at=min(times, default=None)),
        instead_of=answer.dispatcher or words,
    )
