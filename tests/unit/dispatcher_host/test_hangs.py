"""Calls of dispatchers that hang in threads are counted, whatever happens to their profile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from multiqueue.dispatcher_host.host import Hung
from multiqueue.dispatcher_host.loader import BUDGET
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.dispatcher_host.runner import DispatchRunner
from multiqueue.plugins import Nomination
from multiqueue.plugins.testing import T0, make_cluster, make_view
from tests.virtual_time import settle, virtual_time

VIEW = make_view(clusters=[make_cluster("a")])
SLOW = timedelta(seconds=2)


class Thread:
    """Runs calls at once, until it is stuck: those have no answer until it is released."""

    def __init__(self) -> None:
        self.is_stuck = self.is_alive = False
        self._waits: list[Callable[[], None]] = []

    def call(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        if self.is_stuck:
            self.is_alive = True
            self._waits.append(lambda: future.done() or future.set_result(work()))
        else:
            future.set_result(work())
        return future

    def abandon(self) -> None: ...

    def release(self) -> None:
        self.is_alive = False
        for settle_one in self._waits:
            settle_one()


class First:
    name = "first"

    def nominate(self, view: Any) -> Nomination:
        return Nomination(clusters=(view.clusters[0].name,))


class HangFixture:
    """Runners of one dispatcher that are opened one after another, as a profile changes."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.hung = Hung(self.counts.append)
        self.threads: list[Thread] = []

    def open(self, *, is_stuck: bool = False) -> DispatchRunner:
        thread = Thread()
        thread.is_stuck = is_stuck
        self.threads.append(thread)
        return DispatchRunner(
            DispatcherSetting(dispatcher="first", budget=SLOW),
            lambda: Selection(name="first", dispatcher=First()),
            now=lambda: T0,
            open_thread=lambda _name: thread,
            hung=self.hung,
        )


@pytest.fixture
def world() -> HangFixture:
    return HangFixture()


@virtual_time
async def test_a_question_that_hangs_while_the_profile_changes(world: HangFixture) -> None:
    runner = world.open()
    await runner.prepare()
    world.threads[0].is_stuck = True
    asked = asyncio.ensure_future(runner.ask(VIEW))
    await settle()
    runner.close()
    assert world.hung.count() == 0
    assert (await asked).problem == 'dispatcher "first" did not answer within 2 s'
    assert world.hung.count() == 1
    another = world.open()
    await another.prepare()
    assert "hangs and is not called until that call returns" in (await another.ask(VIEW)).problem
    await asyncio.sleep(BUDGET.total_seconds())
    assert world.counts == [1]
    world.threads[0].release()
    assert (await another.ask(VIEW)).nomination is not None
    assert world.counts == [1, 0]


@virtual_time
async def test_a_package_that_hangs_when_it_is_imported_while_the_profile_changes(
    world: HangFixture,
) -> None:
    runner = world.open(is_stuck=True)
    await runner.prepare()
    assert runner.is_loading
    runner.close()
    assert world.hung.count() == 0
    await asyncio.sleep(BUDGET.total_seconds() + 1)
    assert world.hung.count() == 1
    world.threads[0].release()
    assert world.hung.count() == 0


@virtual_time
async def test_one_that_answers_late_is_not_counted(world: HangFixture) -> None:
    runner = world.open()
    await runner.prepare()
    thread = world.threads[0]
    thread.is_stuck = True
    asked = asyncio.ensure_future(runner.ask(VIEW))
    await settle()
    runner.close()
    thread.release()
    assert (await asked).nomination is not None
    await asyncio.sleep(2 * BUDGET.total_seconds())
    assert world.counts == []
