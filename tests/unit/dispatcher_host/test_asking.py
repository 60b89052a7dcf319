"""A dispatcher behind its fence: asked, bounded, checked, and never believed blindly."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from multiqueue.dispatcher_host.answer import SOONEST, Answer, Failure
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.dispatcher_host.runner import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    RETRY,
    DispatchRunner,
)
from multiqueue.kube.call_thread import OpenThread, PluginThread
from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination
from multiqueue.plugins.testing import T0, make_cluster, make_view

VIEW = make_view(clusters=[make_cluster("a"), make_cluster("b")])


class Plugin:
    """Answers what it is told to."""

    name = "plugin"

    def __init__(self, nominate: Callable[[DispatchView], object]) -> None:
        self.nominate = nominate


class Clock:
    def __init__(self) -> None:
        self.at = T0

    def __call__(self) -> datetime:
        return self.at


class Returning(PluginThread):
    """A thread whose calls are said to return, sooner or later."""

    is_alive = False


def make_runner(
    nominate: Callable[[DispatchView], object],
    *,
    seconds: float = 5.0,
    open_thread: OpenThread = PluginThread,
) -> DispatchRunner:
    clock = Clock()
    selection = Selection(name="plugin", dispatcher=Plugin(nominate))
    way = DispatcherSetting(dispatcher="plugin", budget=timedelta(seconds=seconds))
    runner = DispatchRunner(way, lambda: selection, now=clock, open_thread=open_thread)
    runner.clock = clock
    return runner


async def ask(runner: DispatchRunner, view: DispatchView = VIEW) -> Answer:
    await runner.prepare()
    return await runner.ask(view)


async def test_unknown_clusters_are_dropped_and_reported():
    verdict = ClusterVerdict(cluster="moon", nominated=True)
    runner = make_runner(
        lambda _: Nomination(clusters=("moon", "a", "moon", "a"), verdicts=(verdict,))
    )
    got = (await ask(runner)).nomination
    assert got.clusters == ("a",)
    (reported,) = got.verdicts
    assert (reported.cluster, reported.nominated) == ("moon", False)
    assert 'dispatcher "plugin" named it' in reported.reason


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "a",
        Nomination(clusters=["a"]),
        Nomination(clusters=(1,)),
        Nomination(verdicts=("a",)),
        Nomination(refusal=None),
        Nomination(ask_again_at=datetime(2026, 1, 1)),  # noqa: DTZ001 - that is what is wrong
        Nomination(ask_again_at="soon"),
    ],
    ids=repr,
)
async def test_what_is_no_answer_is_a_problem(answer):
    got = await ask(make_runner(lambda _: answer))
    assert got.nomination is None
    assert got.problem.startswith('dispatcher "plugin" gave a malformed answer')
    assert got.retry_at == T0 + RETRY


async def test_words_about_it_have_no_address_so_that_they_stay_the_same():
    async def nominate(_: DispatchView) -> Nomination:
        return Nomination()

    answers = [nominate(VIEW), object()]
    told = [(await ask(make_runner(lambda _, answer=answer: answer))).problem for answer in answers]
    answers[0].close()
    hint = "; nominate must be no async function"
    assert told == [
        f'dispatcher "plugin" gave a malformed answer: is of type {name}, no Nomination{more}'
        for name, more in (("coroutine", hint), ("object", ""))
    ]


async def test_asking_again_at_once_is_not_possible():
    got = await ask(make_runner(lambda _: Nomination(ask_again_at=T0)))
    assert got.nomination.ask_again_at == T0 + SOONEST


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), KeyboardInterrupt("no")])
async def test_what_it_raises_is_told_and_the_next_question_is_asked(error):
    def nominate(view: DispatchView) -> Nomination:
        if len(view.clusters) == 2:
            raise error
        return Nomination(clusters=("a",))

    runner = make_runner(nominate)
    got = await ask(runner)
    place = f"test_asking.py, line {nominate.__code__.co_firstlineno + 2}"
    assert got.problem == f'dispatcher "plugin" failed: {type(error).__name__}: no ({place})'
    other = make_view(clusters=[make_cluster("a")])
    assert (await ask(runner, other)).nomination.clusters == ("a",)


def wait_until_returned(runner: DispatchRunner) -> None:
    while runner.hung.count():
        time.sleep(0.001)


class TestHanging:
    @pytest.fixture
    def release(self):
        event = threading.Event()
        yield event
        event.set()

    def hang(self, release: threading.Event) -> Callable[[DispatchView], Nomination]:
        def nominate(_: DispatchView) -> Nomination:
            release.wait(30)
            return Nomination(clusters=("a",))

        return nominate

    async def test_it_is_left_alone_for_a_while(self, release):
        runner = make_runner(self.hang(release), seconds=0.05)
        first = await ask(runner)
        assert first.problem == 'dispatcher "plugin" did not answer within 0.05 s'
        assert first.retry_at == T0 + FIRST_PAUSE
        second = await ask(runner)
        assert (second.problem, second.retry_at) == (first.problem, first.retry_at)
        assert (first.failure, second.failure) == (Failure.TIMED_OUT, Failure.PAUSED)

    async def test_it_is_tried_again_and_believed_when_it_answers(self, release):
        runner = make_runner(self.hang(release), seconds=0.2)
        await ask(runner)
        release.set()
        await asyncio.to_thread(wait_until_returned, runner)
        runner.clock.at += FIRST_PAUSE
        assert (await ask(runner)).nomination.clusters == ("a",)

    async def test_the_pauses_grow(self, release):
        runner = make_runner(self.hang(release), seconds=0.01, open_thread=Returning)
        await ask(runner)
        runner.clock.at += FIRST_PAUSE
        got = await ask(runner)
        assert got.retry_at == runner.clock.at + 2 * FIRST_PAUSE
        while (pause := got.retry_at - runner.clock.at) < LONGEST_PAUSE:
            runner.clock.at = got.retry_at
            got = await ask(runner)
        assert pause == LONGEST_PAUSE

    async def test_after_an_answer_the_pauses_begin_anew(self, release):
        runner = make_runner(self.hang(release), seconds=0.2)
        await ask(runner)
        release.set()
        await asyncio.to_thread(wait_until_returned, runner)
        runner.clock.at += FIRST_PAUSE
        assert (await ask(runner)).nomination is not None
        release.clear()
        runner.clock.at += FIRST_PAUSE
        assert (await ask(runner)).retry_at == runner.clock.at + FIRST_PAUSE

    async def test_it_costs_one_thread_however_often_somebody_asks(self, release):
        runner = make_runner(self.hang(release), seconds=0.01)
        for _ in range(3):
            got = await ask(runner)
            runner.clock.at += timedelta(hours=1)
        assert "hangs and is not called until that call returns" in got.problem
        assert runner.hung.count() == 1


async def test_a_dispatcher_that_is_not_installed_is_the_problem():
    clock = Clock()
    missing = Selection(name="x", problem="not installed")
    runner = DispatchRunner(DispatcherSetting(dispatcher="x"), lambda: missing, now=clock)
    assert (await ask(runner)).problem == "not installed"


async def test_the_same_cause_is_logged_once(capsys):
    runner = make_runner(lambda _: 1 / 0)
    for _ in range(3):
        await ask(runner)
    assert capsys.readouterr().out.count("dispatcher failed") == 1
