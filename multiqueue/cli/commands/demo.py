"""``multiqueue demo``: a manager and two GPU workers on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.local_extra import require_local_extra
from multiqueue.cli.output import echo, form_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.dashboard.gateway import Gateway
    from multiqueue.runtime.demo.once import JobOutcome
    from multiqueue.runtime.demo.stream import JobStream
    from multiqueue.runtime.demo.tracker import Tracker
    from multiqueue.runtime.demo.world import DemoWorld


@click.command("demo")
@click.option("--once", is_flag=True, help="Run twelve jobs, print what became of them, and exit.")
@click.option("--serve", is_flag=True, help="Only set up the clusters, and keep them running.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for kubeconfigs, logs and the objects, which then survive a restart; a "
    "temporary one by default.",
)
@click.option(
    "--jobs/--no-jobs",
    default=None,
    help="Submit a stream of jobs; by default with the live screen, not with --serve.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Simulated seconds in a second.",
)
@click.option(
    "--kinds",
    default="",
    metavar="KINDS",
    help="Serve these kinds of jobs, too: all, or a list such as jobset,rayjob. With --once, one "
    "job of each is run instead of the twelve.",
)
@click.option(
    "--policy",
    type=click.Choice(["gentle"]),
    help="Govern the teams' queues by this DisruptionPolicy, and let all jobs declare their run "
    "time: room is kept for a gang that small jobs would pass for ever. With --once, the demo ends "
    "once the gang runs.",
)
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --once: write a snapshot there once all jobs are submitted, for `replay`.",
)
@form_option(
    "human",
    "json",
    "yaml",
    help_="How to print the result of --once, or the paths of --serve.",
)
def command(
    *,
    once: bool,
    serve: bool,
    data: Path | None,
    jobs: bool | None,
    speed: float,
    kinds: str,
    policy: str | None,
    snapshot: Path | None,
    output: str,
) -> int:
    """Set up three embedded clusters: a manager, 8 x A100 and 4 x H100, and run jobs on them.

    Three teams submit to the manager's cluster; the manager runs in a process of its own, and each
    worker has one too. Without options a live screen shows every job's way, until Ctrl-C.
    """
    from multiqueue.runtime.process import Stopped, run_process

    _check_choices(once=once, serve=serve, jobs=jobs, kinds=kinds, policy=policy, snapshot=snapshot)
    require_local_extra("multiqueue demo")
    with _data_directory(data) as directory, _logs(directory / "demo.log", to_stderr=serve):
        world = _make_world(
            directory, persist=data is not None, speed=speed, kinds=kinds, policy=policy or ""
        )
        try:
            if once and kinds:
                return run_process(lambda: _kinds(world, output))
            if once and policy:
                return run_process(lambda: _gang(world, output))
            if once:
                return run_process(lambda: _once(world, output, snapshot))
            if serve:
                run_process(lambda: _serve(world, output, with_jobs=bool(jobs)))
            else:
                run_process(lambda: _live(world, with_jobs=jobs is not False))
        except Stopped as stopped:
            return 128 + stopped.signal_number if once else ExitCode.OK
        except BaseExceptionGroup as group:
            raise _explain(group, world) from group
    return ExitCode.OK


def _check_choices(
    *,
    once: bool,
    serve: bool,
    jobs: bool | None,
    kinds: str,
    policy: str | None,
    snapshot: Path | None,
) -> None:
    if once and serve:
        raise UsageProblem("choose --once or --serve")
    if jobs and once:
        raise UsageProblem("--once has its own jobs")
    if snapshot is not None and (kinds or policy or not once):
        raise UsageProblem(
            "--snapshot needs --once without --kinds and --policy; `multiqueue snapshot` does not"
        )
    if once and kinds and policy:
        raise UsageProblem("with --once choose --kinds or --policy")


async def _once(world: DemoWorld, output: str, snapshot: Path | None) -> int:
    from multiqueue.runtime.demo.once import is_as_planned, run_once
    from multiqueue.runtime.demo.tracker import Tracker
    from multiqueue.runtime.demo.world import MANAGER

    _say(f"Setting up in {world.options.data_dir} ...")
    async with _running(world):
        _say(f"Manager: {world.manager.command_line}")
        tracker = Tracker(world.clients, manager=MANAGER)
        outcomes = await run_once(world, tracker, lambda: _write_snapshot(world, snapshot))
    if output == "human":
        _print_outcomes(outcomes)
    else:
        print_data({"jobs": [outcome.to_dict() for outcome in outcomes]}, output)
    for outcome in outcomes:
        if outcome.problem:
            _say(f"{outcome.name}: {outcome.problem}")
    return ExitCode.OK if is_as_planned(outcomes) else ExitCode.FAILED


async def _write_snapshot(world: DemoWorld, path: Path | None) -> None:
    """Write what the manager decides from, at a moment at which some jobs run and others wait."""
    if path is None:
        return
    from multiqueue.api import names
    from multiqueue.api.config import build_configuration
    from multiqueue.cli.snapshots import take_snapshot
    from multiqueue.runtime.demo.objects import manager_configuration
    from multiqueue.runtime.demo.world import MANAGER
    from multiqueue.whatif.snapshot import pack

    config = build_configuration(manager_configuration(health_port=0))
    client, namespace = world.clients[MANAGER], names.DEFAULT_NAMESPACE
    found = await take_snapshot(client, system_namespace=namespace, config=config)
    await asyncio.to_thread(path.write_bytes, pack(found))


async def _kinds(world: DemoWorld, output: str) -> int:
    from multiqueue.runtime.demo.kinds import run_kinds
    from multiqueue.runtime.demo.world import MANAGER

    _say(f"Setting up in {world.options.data_dir} ...")
    async with _running(world):
        _say(f"Manager: {world.manager.command_line}")
        outcomes = await run_kinds(world.clients, MANAGER, world.options.kinds)
    if output == "human":
        rows = [[each.kind, each.name, each.worker, each.state, each.problem] for each in outcomes]
        print_table(["KIND", "JOB", "WORKER", "STATE", "REASON"], rows)
    else:
        print_data({"jobs": [outcome.to_dict() for outcome in outcomes]}, output)
    return ExitCode.FAILED if any(each.problem for each in outcomes) else ExitCode.OK


async def _gang(world: DemoWorld, output: str) -> int:
    from multiqueue.runtime.demo.gang import run_gang
    from multiqueue.runtime.demo.tracker import Tracker
    from multiqueue.runtime.demo.world import MANAGER

    _say(f"Setting up in {world.options.data_dir} ...")
    async with _running(world):
        _say(f"Manager: {world.manager.command_line}")
        tracker = Tracker(world.clients, manager=MANAGER)
        outcome = await run_gang(tracker, _make_stream(world, tracker))
    if output == "human":
        times = (outcome.promised_seconds, outcome.reserved_seconds, outcome.running_seconds)
        row = [outcome.name, outcome.gpus, *map(_seconds, times), outcome.problem]
        print_table(["GANG", "GPUS", "PROMISED WITHIN", "GOT QUOTA", "RAN", "PROBLEM"], [row])
    else:
        print_data(outcome.to_dict(), output)
    return ExitCode.FAILED if outcome.problem else ExitCode.OK


def _make_stream(world: DemoWorld, tracker: Tracker) -> JobStream:
    """Return the stream of jobs; they declare their run times if there is a policy."""
    from multiqueue.runtime.demo.gang import declare_runtime
    from multiqueue.runtime.demo.stream import JobStream
    from multiqueue.runtime.demo.world import MANAGER

    client, options = world.clients[MANAGER], world.options
    if not options.policy:
        return JobStream(client, tracker)
    return JobStream(client, tracker, change=lambda job: declare_runtime(job, options.speed))


async def _serve(world: DemoWorld, output: str, *, with_jobs: bool) -> None:
    from multiqueue.runtime.components import open_scope
    from multiqueue.runtime.demo.tracker import Tracker
    from multiqueue.runtime.demo.world import MANAGER

    _say(f"Setting up three clusters in {world.options.data_dir} ...")
    async with _running(world), _open_dashboard(world) as dashboard, open_scope() as scope:
        if with_jobs:
            tracker = Tracker(world.clients, manager=MANAGER)
            await tracker.start(scope)
            scope.start(_make_stream(world, tracker))
        _announce(world, output, dashboard.address)
        await asyncio.Event().wait()


async def _live(world: DemoWorld, *, with_jobs: bool) -> None:
    from multiqueue.cli.demo_screen import DemoScreen
    from multiqueue.runtime.components import open_scope
    from multiqueue.runtime.demo.tracker import Tracker
    from multiqueue.runtime.demo.world import MANAGER

    _say("Setting up three clusters ...")
    async with _running(world), _open_dashboard(world) as dashboard, open_scope() as scope:
        tracker = Tracker(world.clients, manager=MANAGER)
        await tracker.start(scope)
        if with_jobs:
            scope.start(_make_stream(world, tracker))
        await DemoScreen(world, tracker, dashboard=dashboard.address).run()


@contextlib.asynccontextmanager
async def _running(world: DemoWorld) -> AsyncIterator[None]:
    """Keep the world running inside of this block, and say so if its manager ends."""
    from multiqueue.runtime.components import open_scope

    async def report() -> None:
        await world.manager.exited.wait()
        _say(
            f"{world.manager.describe_end()}\n"
            "The clusters keep running and no job is lost, but no other job starts until you "
            f"start the manager again:\n  {world.manager.command_line}"
        )

    async with world.running(), open_scope() as scope:
        scope.create_task(report())
        yield


@contextlib.asynccontextmanager
async def _open_dashboard(world: DemoWorld) -> AsyncIterator[Gateway]:
    from multiqueue.dashboard.gateway import Gateway
    from multiqueue.runtime.demo.world import MANAGER

    about = {"context": "demo", "namespace": "", "demo": True}
    async with Gateway(world.clients[MANAGER], about) as gateway:
        yield gateway


def _make_world(
    directory: Path, *, persist: bool, speed: float, kinds: str, policy: str
) -> DemoWorld:
    from multiqueue.runtime.demo.kinds import choose_kinds
    from multiqueue.runtime.demo.world import DemoWorld, WorldOptions

    try:
        chosen = choose_kinds(kinds) if kinds else ()
    except ValueError as error:
        raise UsageProblem(f"--kinds: {error}") from error
    return DemoWorld(
        WorldOptions(data_dir=directory, persist=persist, speed=speed, kinds=chosen, policy=policy)
    )


@contextlib.contextmanager
def _data_directory(data: Path | None) -> Iterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="multiqueue-demo-") as temporary:
        yield Path(temporary)


@contextlib.contextmanager
def _logs(path: Path, *, to_stderr: bool) -> Iterator[None]:
    """Send the clusters' logs to a file, since the demo uses the screen."""
    from multiqueue.observability.logging import LogFormat, configure_logging

    if to_stderr:
        configure_logging(level="warning", format=LogFormat.AUTO)
        yield
        return
    with path.open("a") as stream:
        configure_logging(format=LogFormat.JSON, stream=stream)
        yield


def _announce(world: DemoWorld, output: str, dashboard: str) -> None:
    if output != "human":
        print_data({**_describe(world), "dashboard": dashboard}, output)
        return
    echo("Three clusters are running:")
    for name, path in world.kubeconfigs.items():
        echo(f"  {name:12} export KUBECONFIG={path}")
    echo(f"The manager (pid {world.manager.pid}, log {world.manager.log}) was started by:")
    echo(f"  {world.manager.command_line}")
    echo(f"Dashboard: {dashboard}")
    echo("Ctrl-C ends everything.")


def _describe(world: DemoWorld) -> dict[str, Any]:
    return {
        "kubeconfigs": {name: str(path) for name, path in world.kubeconfigs.items()},
        "manager": {
            "command": world.manager.command,
            "pid": world.manager.pid,
            "log": str(world.manager.log),
        },
    }


def _print_outcomes(outcomes: list[JobOutcome]) -> None:
    print_table(
        ["JOB", "GPUS", "WORKER", "WAITED", "RAN", "STATE", "REASON"],
        [
            [
                outcome.name,
                outcome.gpus,
                outcome.worker,
                _seconds(outcome.waited_seconds),
                _seconds(outcome.ran_seconds),
                outcome.state,
                outcome.reason,
            ]
            for outcome in outcomes
        ],
    )


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.1f}s"


def _say(text: str) -> None:
    echo(text, err=True)


def _explain(group: BaseExceptionGroup[BaseException], world: DemoWorld) -> CliError:
    from multiqueue.runtime.components import innermost

    return CliError(f"{innermost(group)}; logs are in {world.options.data_dir}")
