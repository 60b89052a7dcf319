"""What real packages do wrong in a process of their own, and that it harms nobody else."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api.conditions import ACTIVE, find_condition
from multiqueue.api.config import load_configuration
from multiqueue.api.v1alpha1 import DispatchProfile
from multiqueue.dispatcher_host.answer import Failure
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.dispatcher_host.conduct import Misconduct
from multiqueue.dispatcher_host.isolation.confine import list_open_ways, open_libc
from multiqueue.dispatcher_host.isolation.host import ProcessHost
from multiqueue.dispatcher_host.isolation.landlock import find_version
from multiqueue.dispatcher_host.isolation.missing_restrictions import MissingRestrictions
from multiqueue.dispatcher_host.live_profile import LiveProfile
from multiqueue.dispatcher_host.loader import BUDGET
from multiqueue.dispatcher_host.policy import DispatcherSetting, DispatchPolicy
from multiqueue.dispatcher_host.profile_conditions import build_status
from multiqueue.dispatcher_host.references import NO_REFERENCE
from multiqueue.dispatcher_host.registry import Dispatchers, Selection
from multiqueue.dispatcher_host.runner import FIRST_PAUSE, DispatchRunner
from multiqueue.dispatcher_host.turns import Turns
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.plugins.testing import T0, make_cluster, make_view
from tests.dispatcher_package import install
from tests.fleet.inline_thread import InlineThread

VIEW = make_view(clusters=[make_cluster("a"), make_cluster("b")])
MEMORY = 256 * 1024**2
CODE = (Path(__file__).parent / "evil_plugins.py").read_text()
KINDS = re.findall(r"^class (\w+)", CODE, re.MULTILINE)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    install(folder, "evil_plugins", CODE, {kind: kind for kind in KINDS})
    monkeypatch.syspath_prepend(str(folder))
    return folder


class Opened:
    """A runner, its clock, and the process behind it."""

    def __init__(self, name: str, seconds: float = 10.0, **way: Any) -> None:
        self.at = T0
        dispatchers = Dispatchers()
        self.runner = DispatchRunner(
            DispatcherSetting(dispatcher=name, budget=timedelta(seconds=seconds), **way),
            lambda: dispatchers.find(name, outside=False),
            now=self.now,
            open_apart=lambda way, value: ProcessHost(way, value, memory=MEMORY),
            patience=timedelta(seconds=60),
        )

    def now(self) -> datetime:
        return self.at

    async def ask(self) -> Any:
        await self.runner.prepare()
        return await self.runner.ask(VIEW)

    @property
    def pid(self) -> int:
        host: Any = self.runner.host
        return int(host.pid)


@asynccontextmanager
async def opened(name: str, **options: Any) -> AsyncIterator[Opened]:
    """Open a runner; nothing of its process is left afterwards."""
    it = Opened(name, **options)
    await it.runner.prepare()
    handle = os.pidfd_open(it.pid) if it.runner.loader.host is not None else None
    try:
        yield it
    finally:
        it.runner.close()
        if handle is not None:
            await until_gone(handle)
        for thread in threading.enumerate():
            if thread.name == f"dispatcher-output-{name}":
                await asyncio.to_thread(thread.join, 20)


async def until_gone(handle: int) -> None:
    """Wait until a process has ended, and let go of its handle."""
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(handle, gone.set)
    try:
        async with asyncio.timeout(20):
            await gone.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def test_it_is_asked_there_as_it_would_be_here() -> None:
    async with opened("Pid") as it:
        got = await it.ask()
        assert got.nomination.clusters == ("a",)
        assert int(got.nomination.note) == it.pid != os.getpid()
        assert (await it.ask()).nomination == got.nomination
    assert "evil_plugins" not in sys.modules


@pytest.mark.parametrize(
    ("name", "words", "failure"),
    [
        ("Fills", "was ended: it filled the memory that it may use", Failure.ENDED),
        ("Exits", "ended its process with status 3", Failure.ENDED),
        ("Crashes", "ended its process: Segmentation fault", Failure.ENDED),
        ("HangsUp", "was ended: it hung up", Failure.ENDED),
        ("SendsNonsense", "was ended: its answer cannot be read", Failure.ENDED),
        ("SendsDepths", "was ended: its answer cannot be read", Failure.ENDED),
        ("SendsMuch", "was ended: its answer has 4294967295 bytes", Failure.ENDED),
        ("Raises", "failed: SystemExit: enough", Failure.RAISED),
        ("Changes", "failed: TypeError: the view of a dispatcher cannot be", Failure.RAISED),
        ("Lies", "gave a malformed answer: clusters[1] is 7, no str", Failure.MALFORMED),
    ],
)
async def test_what_it_does_wrong_is_told(name: str, words: str, failure: Failure) -> None:
    async with opened(name) as it:
        got = await it.ask()
        assert (got.nomination, got.failure) == (None, failure)
        assert got.problem.startswith(f'dispatcher "{name}" {words}')
        again = await it.ask()
        assert again.failure is (Failure.PAUSED if failure is Failure.ENDED else failure)


async def test_what_the_system_refuses_it_is_explained() -> None:
    async with opened("Dials") as it:
        got = (await it.ask()).problem
        assert got.startswith('dispatcher "Dials" failed: PermissionError: ')
        where = CODE[: CODE.index("socket.socket()")].count("\n") + 1
        assert got.endswith(
            f"(evil_plugins.py, line {where}); it runs without network, other processes, and files "
            "but Python's"
        )


async def test_one_that_spins_is_ended_and_others_are_asked_meanwhile() -> None:
    async with opened("Spins", seconds=0.5) as bad, opened("Good") as good:
        gone = os.pidfd_open(bad.pid)
        asked = asyncio.ensure_future(bad.ask())
        answers = [await good.ask() for _ in range(20)]
        assert all(answer.nomination.clusters == ("a",) for answer in answers)
        assert not asked.done()
        got = await asked
        assert got.problem == 'dispatcher "Spins" did not answer within 0.5 s'
        await until_gone(gone)


async def test_after_a_pause_another_process_is_asked() -> None:
    async with opened("Pid") as it:
        first, gone = it.pid, os.pidfd_open(it.pid)
        os.kill(first, signal.SIGKILL)
        got = await it.ask()
        assert got.problem == 'dispatcher "Pid" ended its process: Killed'
        await until_gone(gone)
        it.at += FIRST_PAUSE
        assert int((await it.ask()).nomination.note) == it.pid != first


async def test_names_that_are_no_clusters_are_told_and_the_rest_counts() -> None:
    async with opened("NamesStrangers") as it:
        assert (await it.ask()).nomination.clusters == ("b",)
        assert it.runner.findings.keys() == {Misconduct.UNKNOWN_CLUSTER}


async def test_it_is_looked_at_there() -> None:
    async with opened("Counts") as it:
        await it.ask()
        assert it.runner.findings.keys() == {Misconduct.UNSTEADY}


async def test_what_it_prints_holds_nobody_up(capsys: pytest.CaptureFixture[str]) -> None:
    async with opened("Prints") as it:
        assert (await it.ask()).nomination.clusters == ("a",)
    assert len(capsys.readouterr().out) < 100_000


async def test_between_questions_nothing_of_it_runs() -> None:
    async with opened("Good") as it:
        for _ in range(2):
            assert (await it.ask()).problem == ""
            stopped = await asyncio.to_thread(os.waitid, os.P_PID, it.pid, os.WSTOPPED)
            assert stopped is not None
            assert stopped.si_status == signal.SIGSTOP


async def test_it_reaches_nothing_of_the_manager_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = find_version(open_libc())
    monkeypatch.setenv("SECRET", "hunter2")
    # The usual "$PYTHONPATH:/more", where there is none yet: its empty part means "where I am".
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}/more")
    (tmp_path / "secret").write_text("hunter2")
    monkeypatch.chdir(tmp_path)  # as `python -m` does, which has modules looked for there, too
    monkeypatch.syspath_prepend(str(tmp_path))
    with (tmp_path / "secret").open() as secret:
        os.set_inheritable(secret.fileno(), True)
        async with opened("Reaches") as it:
            got = (await it.ask()).nomination.note
    reached = ["manager's", "file", "write"] if not version else []
    assert got == f"{','.join(reached)}; 2 handles"  # its socket, and the one that counts them


async def test_it_looks_at_its_arguments_there() -> None:
    async with opened("Picky", path="spec.dispatcher", arguments={"colour": "blue"}) as it:
        got = await it.ask()
        assert got.problem == 'spec.arguments: dispatcher "Picky": argument colour: no'
        assert not it.runner.is_unchecked
    async with opened("Good", path="spec.dispatcher", arguments={"colour": "blue"}) as it:
        assert it.runner.is_unchecked


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("import os; os._exit(4)", "cannot be loaded: ended its process with status 4"),
    ],
)
async def test_what_cannot_be_loaded_is_told(package: Path, code: str, words: str) -> None:
    install(package, "broken_plugin", code, {"broken": "Broken"})
    async with opened("broken") as it:
        got = await it.ask()
        assert got.failure is Failure.NOT_LOADED
        assert words in got.problem
        assert "tried" not in got.problem  # each Workload would be written anew each time
        assert words in (told := tell_active(it))
        outlook = "tried once, and again at 12:00:10 UTC or when its package changes"
        assert told.endswith(f"; {outlook}; its Workloads wait")


async def test_a_package_that_is_mended_is_loaded_whatever_it_did_before(package: Path) -> None:
    install(package, "broken_plugin", "import os; os._exit(4)", {"broken": "Broken"})
    async with opened("broken") as it:
        for _ in range(4):
            assert (await it.ask()).failure is Failure.NOT_LOADED
            it.at += timedelta(minutes=10)
        assert "tried 4 times" in tell_active(it)
        it.at -= timedelta(minutes=9)
        assert (await it.ask()).failure is Failure.NOT_LOADED
        mended = "from evil_plugins import Good as Broken\n"
        install(package, "broken_plugin", mended, {"broken": "Broken"})
        it.at += timedelta(seconds=10)
        assert (await it.ask()).nomination.clusters == ("a",)
        assert tell_active(it) == 'dispatcher "broken" decides'


def tell_active(it: Opened) -> str:
    """Return what a profile with this dispatcher says about itself."""
    policy = DispatchPolicy(profile="mine", generation=1, base=it.runner.way)
    live = LiveProfile(policy, lambda _way: it.runner, turns=Turns(), now=it.now)
    condition = find_condition(build_status(DispatchProfile(), live, it.at).conditions, ACTIVE)
    assert condition is not None
    return condition.message


async def test_one_that_hangs_when_it_is_loaded_is_ended(package: Path) -> None:
    install(package, "slow_plugin", "while True: ...", {"slow": "Slow"})
    clock = [T0]
    runner = DispatchRunner(
        DispatcherSetting(dispatcher="slow"),
        lambda: Selection(name="slow", apart="slow_plugin:Slow"),
        now=lambda: clock[0],
        open_thread=InlineThread,
        patience=timedelta(milliseconds=100),
    )
    await runner.prepare()
    assert runner.load_problem == 'dispatcher "slow" is still being loaded'
    host: Any = runner.loader.opened
    gone = os.pidfd_open(host.pid)
    clock[0] += BUDGET
    await runner.prepare()
    assert runner.load_problem == 'dispatcher "slow" could not be loaded in 30 s'
    await until_gone(gone)


async def test_an_upgraded_package_is_what_the_next_process_runs(package: Path) -> None:
    code = "class P:\n name='p'\n def check_arguments(self, a): return ['{}']\n nominate = print\n"
    for version in ("one", "two"):
        install(package, "my_plugin", code.format(version), {"p": "P"})
        async with opened("p", path="spec.dispatcher") as it:
            assert (await it.ask()).problem.endswith(version)


async def test_the_configuration_says_what_it_runs_in_and_it_ends_with_the_choice() -> None:
    choice, got = await ask_limit("memory: 512Mi")
    pid, memory = map(int, got.split())
    assert pid != os.getpid()
    assert memory == 512 * 1024**2
    assert choice.metrics.registry.get_sample_value(
        "multiqueue_dispatcher_open_ways", {"dispatcher": "Limit"}
    ) == len(list_open_ways())
    gone, running = os.pidfd_open(pid), asyncio.ensure_future(choice.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    await until_gone(gone)


async def test_packages_that_are_trusted_may_run_in_the_manager() -> None:
    choice, got = await ask_limit("mode: Thread")
    assert int(got.split()[0]) == os.getpid()
    choice.choose(NO_REFERENCE).close()
    del sys.modules["evil_plugins"]


async def ask_limit(isolation: str) -> tuple[DispatcherChoice, str]:
    """Ask the dispatcher that a configuration names."""
    text = f"multiKueue: {{dispatcherName: Limit, dispatcherIsolation: {{{isolation}}}}}"
    choice = DispatcherChoice(
        Dispatchers(), load_configuration(text), ManagerMetrics(), now=lambda: T0
    )
    runner = choice.choose(NO_REFERENCE).base
    assert runner is not None
    await runner.prepare()
    if runner.is_loading:  # on a machine that is busy
        await asyncio.wait({runner.loader.loading})
        await runner.prepare()
    answer = await choice.ask(NO_REFERENCE, lambda: VIEW, lambda _view, _nomination: None)
    return choice, answer.nomination.note


MANAGER = """
import asyncio, os, signal, sys
from multiqueue.dispatcher_host.isolation.host import ProcessHost
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.plugins.testing import make_view

async def main():
    kind = sys.argv[2]
    sys.path.append(sys.argv[1])
    host = ProcessHost(DispatcherSetting(dispatcher=kind), f"evil_plugins:{kind}")
    await host.load()
    asked = asyncio.ensure_future(host.nominate(make_view()))
    await (asyncio.sleep(0) if kind == "Spins" else asked)
    print(host.pid, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


OLD_KERNEL = """
import asyncio, sys
from multiqueue.dispatcher_host.isolation.host import ProcessHost
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.plugins.testing import make_view
from tests.old_kernel import become_another_machine, lose_landlock

async def main(kind):
    host = ProcessHost(
        DispatcherSetting(dispatcher="Old"),
        f"evil_plugins:{kind}",
        on_open_ways=lambda name, ways: print(name, *ways, sep="; "),
    )
    await host.load()
    for _ in range(2):
        print((await host.nominate(make_view())).nomination.note)
    host.close()  # nothing else ends the copies that it made of itself

sys.path.append(sys.argv[1])
lose_landlock()
if sys.argv[2] == "ForksAndReturns":
    become_another_machine()
asyncio.run(main(sys.argv[2]))
"""
NO_FILES = "files: the kernel has no Landlock (Linux 5.13)"
NO_CALLS = "network, copies of itself, signals, shared memory: not known how for i686"


@pytest.mark.parametrize(
    ("kind", "open_ways", "note"),
    [
        ("Reaches", NO_FILES, "manager's,file,write; 2 handles"),
        ("ForksAndReturns", f"{NO_FILES}; {NO_CALLS}", "parent"),
    ],
    ids=["without Landlock", "nor a filter of calls: a copy does not answer in its place"],
)
def test_what_a_kernel_cannot_do_is_said_and_the_rest_holds(
    package: Path, kind: str, open_ways: str, note: str
) -> None:
    (package.parent / "secret").write_text("hunter2")
    command = [sys.executable, "-c", OLD_KERNEL, str(package), kind]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [f"Old; {open_ways}", note, note]


@pytest.mark.parametrize("kind", ["Spins", "Good"], ids=["while it spins", "while it is stopped"])
def test_it_ends_with_a_manager_that_is_killed(package: Path, kind: str) -> None:
    command = [sys.executable, "-c", MANAGER, str(package), kind]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as manager:
        assert manager.stdin is not None
        assert manager.stdout is not None
        gone = os.pidfd_open(int(manager.stdout.readline()))
        manager.stdin.close()
        asyncio.run(until_gone(gone))


def test_ways_that_stay_open_are_counted_and_logged_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = ManagerMetrics()
    ways = MissingRestrictions(
        lambda name, count: metrics.dispatcher_open_ways.child(name).set(count)
    )
    for _ in range(2):
        ways.note("mine", (NO_FILES,))
    assert capsys.readouterr().out.count(NO_FILES) == 1
    found = metrics.registry.get_sample_value(
        "multiqueue_dispatcher_open_ways", {"dispatcher": "mine"}
    )
    assert found == 1
