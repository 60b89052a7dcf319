"""``multiqueue dispatcher``: commands for authors of dispatchers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.cli.dispatcher_trial import DispatcherTrial
    from multiqueue.plugins.recording import Decision


@click.group("dispatcher")
def command() -> None:
    """Write a dispatcher, test it, and try it on what was decided before."""


@command.command("list", short_help="Show what is installed here, and what cannot be loaded")
@output_option
def show(output: str) -> int:
    """Show the dispatchers that are installed here, and which cannot be loaded."""
    from multiqueue.dispatcher_host.registry import Dispatchers

    dispatchers = Dispatchers()
    rows = [(name, dispatchers.select(name)) for name in dispatchers.names]
    if output != "human":
        print_data([{"name": n, "problem": selection.problem} for n, selection in rows], output)
    else:
        print_table(
            ["NAME", "CLASS", "PROBLEM"],
            [
                [name, _describe_class(selection.dispatcher), selection.problem or None]
                for name, selection in rows
            ],
        )
    return ExitCode.FAILED if any(selection.problem for _, selection in rows) else ExitCode.OK


@command.command("new", short_help="Make a package for a new dispatcher, with tests")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="Where the package's folder is made.",
)
def new(*, name: str, directory: Path) -> None:
    """Make an installable package for a new dispatcher, with tests that pass."""
    from multiqueue.cli.dispatcher_package import write_package

    for path in write_package(name, directory):
        echo(f"made {path}")
    echo(f"next: cd {directory / name} && pip install -e '.[test]' && pytest")


@command.command("test", short_help="Check that a dispatcher keeps its promises")
@click.argument("package", metavar="PACKAGE|DISPATCHER|MODULE:CLASS")
@click.option(
    "--recording",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Ask it about the views of a recording, too.",
)
@click.option("--order-matters", is_flag=True, help="It may heed the order of the clusters.")
@output_option
def test(*, package: str, recording: Path | None, order_matters: bool, output: str) -> int:
    """Check a dispatcher against the rules for all; ends with 1 if it breaks one."""
    from multiqueue.cli.dispatcher_trial import APART, APART_WORDS, examine, find_entries
    from multiqueue.plugins.testing import PROMISES, make_sample_views

    views = list(make_sample_views())
    if recording is not None:
        views += [decision.view for decision in _read(recording)]
    promises = {**PROMISES, APART: APART_WORDS}
    results: list[dict[str, Any]] = []
    for entry in find_entries(package):
        breaches = run_async(examine(entry, views, order_matters=order_matters))
        told = {breach.promise: breach.words for breach in breaches}
        unread = any(breach.is_hung or breach.promise == "form" for breach in breaches)
        kept = None if unread else True
        results += [
            {
                "dispatcher": entry.name,
                "promise": promise,
                "kept": False if promise in told else kept,
                "problem": told.get(promise, ""),
            }
            for promise in promises
        ]
    if output != "human":
        print_data(results, output)
    else:
        rows = [[r["dispatcher"], promises[r["promise"]], _describe_kept(r)] for r in results]
        print_table(["DISPATCHER", "PROMISE", "KEPT"], rows, wide=True)
        echo(f"asked about {len(views)} views")
    return ExitCode.OK if all(result["kept"] for result in results) else ExitCode.FAILED


def _describe_kept(result: Mapping[str, Any]) -> str:
    if result["kept"] is None:
        return "not known"
    return "yes" if result["kept"] else f"no: {result['problem']}"


@command.command("record", short_help="Print the last decisions of the manager")
@cluster_options
def record(*, target: ClusterTarget) -> None:
    """Print the last decisions of the manager, one a line, with all that was seen."""
    click.echo(run_async(_record(target)).decode(), nl=False)


async def _record(target: ClusterTarget) -> bytes:
    from multiqueue.cli.decisions import fetch_recording

    async with connect(target) as (client, _):
        return await fetch_recording(client)


@command.command("replay", short_help="Ask a dispatcher about recorded decisions")
@click.argument("recording", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--dispatcher",
    "name",
    required=True,
    metavar="DISPATCHER|MODULE:CLASS",
    help="Who is asked about what was recorded.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="ARGUMENT=VALUE",
    help="An argument of the dispatcher, its value as YAML; may be repeated. Without any, it is "
    "told what it was told itself.",
)
@click.option("--all", "everything", is_flag=True, help="Show what does not differ, too.")
@output_option
def replay(
    *, recording: Path, name: str, settings: tuple[str, ...], everything: bool, output: str
) -> int:
    """Ask a dispatcher about recorded decisions, and show where it decides otherwise.

    Ends with 1 if it failed on any of them.
    """
    from multiqueue.cli.dispatcher_trial import find_entries, list_trials
    from multiqueue.cli.settings import read_setting

    found = find_entries(name)
    if len(found) != 1:
        names = ", ".join(entry.name for entry in found)
        raise UsageProblem(f'"{name}" has several dispatchers: {names}; name one of them')
    arguments = dict(read_setting(setting, "ARGUMENT=VALUE") for setting in settings)
    trials = run_async(list_trials(found[0], _read(recording), arguments))
    shown = [trial for trial in trials if everything or trial.differs]
    if output != "human":
        print_data([_dump(trial) for trial in shown], output)
    else:
        print_table(
            ["TIME", "WORKLOAD", "DECIDED BY", "THEN", "NOW"], [_row(trial) for trial in shown]
        )
        differing = sum(trial.differs for trial in trials)
        failed = sum(bool(trial.problem) for trial in trials)
        echo(f"{len(trials)} decisions, {differing} differ, {failed} failed")
    return ExitCode.FAILED if any(trial.problem for trial in trials) else ExitCode.OK


def _read(path: Path) -> Iterator[Decision]:
    from multiqueue.plugins.recording import read_recording

    with path.open("rb") as lines:
        try:
            yield from read_recording(lines)
        except ValueError as error:
            raise UsageProblem(f"{path}: {error}") from error


def _row(trial: DispatcherTrial) -> list[Any]:
    from multiqueue.dispatcher_host.shadow import describe_nomination

    view, then = trial.decision.view, trial.decision.nomination
    return [
        view.now.isoformat(timespec="seconds"),
        view.workload.key,
        trial.decision.dispatcher,
        "failed" if then is None else describe_nomination(then),
        f"failed: {trial.problem}" if trial.answer is None else describe_nomination(trial.answer),
    ]


def _dump(trial: DispatcherTrial) -> dict[str, Any]:
    view, then, now = trial.decision.view, trial.decision.nomination, trial.answer
    return {
        "at": view.now.isoformat(),
        "workload": view.workload.key,
        "dispatcher": trial.decision.dispatcher,
        "then": list(then.clusters) if then is not None else [],
        "now": list(now.clusters) if now is not None else [],
        "refusal": (now.refusal or None) if now is not None else None,
        "problem": trial.problem,
        "differs": trial.differs,
    }


def _describe_class(dispatcher: object) -> str | None:
    if dispatcher is None:
        return None
    return f"{type(dispatcher).__module__}:{type(dispatcher).__name__}"
