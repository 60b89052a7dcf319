"""A package that cannot be loaded in a process is tried less and less often, until it changes."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from multiqueue.dispatcher_host.host import EndedError
from multiqueue.dispatcher_host.loader import LONGEST_PAUSE, RETRY, Loader
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Dispatchers, Selection, stamp_package
from multiqueue.plugins.testing import T0
from tests.dispatcher_package import install

CRASHES = "ended its process with status 3"


class LookUp:
    """Finds the package, and runs none of its code."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp

    async def load(self) -> Selection:
        return Selection(name="mine", apart="mine:Mine", stamp=self._stamp)

    def close(self) -> None: ...


class Process:
    """Crashes when it loads; or tells what is wrong with arguments; or works."""

    def __init__(self, world: LoaderFixture) -> None:
        self._world = world

    async def load(self) -> Selection:
        self._world.starts.append(self._world.at - T0)
        if self._world.crashes:
            raise EndedError(CRASHES)
        return Selection(name="mine", apart="mine:Mine", wrong_arguments=self._world.wrong)

    def close(self) -> None: ...


class LoaderFixture:
    """A loader, its clock, and the package that it loads."""

    def __init__(self) -> None:
        self.at, self.stamp, self.crashes = T0, "one", True
        self.wrong: tuple[str, ...] = ()
        self.starts: list[timedelta] = []
        hosts: Any = (lambda: LookUp(self.stamp), lambda _way, _value: Process(self))
        self.loader = Loader(
            DispatcherSetting(dispatcher="mine", path="spec.dispatcher"),
            *hosts,
            now=lambda: self.at,
        )

    async def run(self, seconds: int) -> None:
        """Ask for it every second, as many Workloads do."""
        for _ in range(seconds):
            await self.loader.load()
            self.at += timedelta(seconds=1)


@pytest.fixture
def world() -> LoaderFixture:
    return LoaderFixture()


async def test_it_is_tried_less_and_less_often(world: LoaderFixture) -> None:
    await world.run(3600)
    seconds = [int(start.total_seconds()) for start in world.starts]
    assert seconds[:5] == [0, 10, 30, 70, 150]
    pauses = [after - before for before, after in pairwise(seconds)]
    assert max(pauses) == LONGEST_PAUSE.total_seconds()
    assert len(seconds) < 12


async def test_it_says_so(world: LoaderFixture) -> None:
    await world.run(31)
    loader = world.loader
    assert loader.problem == f'spec.dispatcher: dispatcher "mine" cannot be loaded: {CRASHES}'
    words = "tried 3 times, and again at 12:01:10 UTC or when its package changes"
    assert loader.outlook == words
    await world.run(10)  # it is looked for meanwhile, and is what it was
    assert (loader.problem.endswith(CRASHES), loader.outlook) == (True, words)


async def test_another_package_is_tried_at_once(world: LoaderFixture) -> None:
    await world.run(300)
    tried = len(world.starts)
    world.stamp, world.crashes = "two", False
    await world.run(int(RETRY.total_seconds()) + 1)
    assert len(world.starts) == tried + 1
    assert (world.loader.problem, world.loader.outlook) == ("", "")
    assert world.loader.host is not None


async def test_another_one_that_crashes_begins_with_short_pauses(world: LoaderFixture) -> None:
    await world.run(300)
    world.stamp = "two"
    await world.run(10)
    assert world.loader.outlook.startswith("tried once, ")


async def test_one_that_worked_meanwhile_begins_with_short_pauses(world: LoaderFixture) -> None:
    await world.run(300)
    world.crashes = False
    await world.run(600)
    assert world.loader.host is not None
    world.loader.drop(until=world.at)
    world.crashes = True
    await world.run(5)
    assert world.loader.outlook.startswith("tried once, ")


async def test_arguments_that_are_wrong_start_no_process_every_ten_seconds(
    world: LoaderFixture,
) -> None:
    world.crashes, world.wrong = False, ("argument colour: no",)
    await world.run(600)
    assert len(world.starts) == 6
    assert "argument colour: no" in world.loader.problem


# ------------------------------------------------------------ whether it changed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "mine" / "deep"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "part.py").write_text("x = 1\n")
    install(tmp_path, "alone", "class P: ...\n", {"alone": "P"})
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def touch(path: Path) -> None:
    """Write a file at another time than the last, however fast that is."""
    at = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(at, at))


def test_a_package_is_another_one_once_a_file_of_it_is_written(folder: Path) -> None:
    found = [stamp_package("mine.deep.part:P")]
    assert stamp_package(" mine.deep.part:P") == found[0]
    for path in (folder / "mine" / "deep" / "part.py", folder):
        touch(path)
        found.append(stamp_package("mine.deep.part:P"))
    assert len(set(found)) == 3
    before = stamp_package("alone:P")
    touch(folder / "alone.py")
    assert stamp_package("alone:P") != before


def test_what_is_left_apart_has_its_stamp(folder: Path) -> None:
    dispatchers = Dispatchers()
    before = dispatchers.find("alone").stamp
    assert before == stamp_package("alone:P")
    touch(folder / "alone.py")
    assert dispatchers.find("alone").stamp != before


def test_sources_of_editable_installs_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites, sources = tmp_path / "site-packages", tmp_path / "work" / "src"
    for each in (sites, sources):
        each.mkdir(parents=True)
    (sites / "mine.pth").write_text(f"# mine\nimport nothing\n{sources}\n{tmp_path / 'gone'}\n")
    (sources / "mine.py").write_text("x = 1\n")
    before = stamp_package("mine:P", sites=[str(sites)])
    touch(sources / "mine.py")
    assert stamp_package("mine:P", sites=[str(sites)]) != before
