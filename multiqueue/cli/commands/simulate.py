"""``multiqueue simulate``: compare dispatchers for a fleet and its jobs, in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.output import output_option, print_data, print_table, write_result

if TYPE_CHECKING:
    from multiqueue.simulation.compare import Comparison, Contestant, Plan
    from multiqueue.simulation.fleet import SimulatedFleet
    from multiqueue.simulation.records import RunRecord


QUOTAS = "100,200,400,2000"


@click.command("simulate")
@click.option(
    "--scenario",
    type=click.Choice(["hundred-gpus"]),
    help="Play a scenario with fixed parameters instead of a trace: how nine ways of sharing 100 "
    "GPUs serve 50 people. Of the other options only --variation, --seeds, --first-seed, "
    "--processes, --report, --csv and --output count.",
)
@click.option(
    "--variation",
    type=click.Choice(["none", "even", "uneven", "gangs-of-32", "few-users", "by-hour"]),
    default="none",
    show_default=True,
    help="Play the scenario with other jobs, and four ways of sharing: lengths that differ less "
    "(even) or more (uneven), larger gangs, half of the jobs from five people, or more by day.",
)
@click.option(
    "--trace",
    default="helios-like",
    show_default=True,
    metavar="NAME|FILE",
    help="Jobs: helios-like, acme-like, or a CSV file of the real Helios or Acme trace.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=10),
    default=3000,
    show_default=True,
    metavar="N",
    help="So many jobs for each seed.",
)
@click.option(
    "--load",
    type=click.FloatRange(min=0.05, max=2),
    default=0.9,
    show_default=True,
    metavar="X",
    help="How much the jobs are of what the fleet can do; more than 1 is too much for it.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="So many traces, each of another seed; of a file, each another part of it.",
)
@click.option(
    "--first-seed",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of the first trace; the others have the seeds after it.",
)
@click.option(
    "--clusters",
    type=click.IntRange(min=1, max=200),
    default=4,
    show_default=True,
    metavar="N",
    help="So many clusters, of A100 and H100 in turn.",
)
@click.option(
    "--fleet",
    "fleet_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The fleet as YAML instead: clusters, GPUs, prices, preemption, speeds, watts.",
)
@click.option(
    "--preemption",
    type=click.Choice(["none", "priority", "reclaim"]),
    default="priority",
    show_default=True,
    help="Whom jobs may stop: nobody, the less urgent, or also whoever uses what was lent.",
)
@click.option(
    "--fair-sharing",
    is_flag=True,
    help="Manager and workers share by dominant resource shares (Kueue's fair sharing).",
)
@click.option(
    "--outage",
    "outages",
    multiple=True,
    metavar="CLUSTER:AFTER:FOR",
    help="A cluster is lost, such as a100-1:24h:24h; its jobs stop. Once for each cluster.",
)
@click.option(
    "--manager-quota",
    metavar="PERCENT,…",
    help="Quotas of the manager, of what the workers have: the last dispatcher plays with the "
    "last, and is compared with the best of the others with any of them. Without it: "
    f"{QUOTAS}, or what the fleet's file says.",
)
@click.option(
    "--teams",
    type=click.IntRange(min=1, max=8),
    default=4,
    show_default=True,
    metavar="N",
    help="Teams that share the fleet, each with a queue of its own.",
)
@click.option(
    "--compare",
    "names",
    default="all-at-once,incremental,score",
    show_default=True,
    metavar="NAME,…",
    help="Dispatchers; differences are to the first. LABEL=NAME for one with other arguments.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="LABEL.ARGUMENT=VALUE",
    help="An argument of a dispatcher, its value as YAML; may be repeated.",
)
@click.option(
    "--tell-run-times",
    is_flag=True,
    help="The manager knows exactly how long each job runs: what better predictions could gain.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="So many runs side by side; one a core by default.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page with plots there; it needs nothing beside itself.",
)
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the figures of every run there.",
)
@output_option
def command(  # noqa: PLR0913 - one for each option
    *,
    scenario: str | None,
    variation: str,
    trace: str,
    jobs: int,
    load: float,
    seeds: int,
    first_seed: int,
    clusters: int,
    fleet_file: Path | None,
    preemption: str,
    fair_sharing: bool,
    outages: tuple[str, ...],
    manager_quota: str | None,
    teams: int,
    names: str,
    settings: tuple[str, ...],
    tell_run_times: bool,
    processes: int | None,
    report: Path | None,
    csv_file: Path | None,
    output: str,
) -> None:
    """Play a trace of jobs on a fleet with several dispatchers, and compare what comes of it.

    The engine, the rules and the dispatchers are those that run on clusters; only time and the API
    servers are made up. The same seed gives the same figures.
    """
    from multiqueue.cli.scenario import play_scenario
    from multiqueue.simulation.compare import Plan
    from multiqueue.simulation.rivals import give_quotas
    from multiqueue.simulation.scenarios.hundred_gpus import Variation
    from multiqueue.simulation.traces.make import TraceRequest

    _check_folders(report, csv_file)
    if scenario is not None:
        played = range(first_seed, first_seed + seeds)
        play_scenario(
            played,
            processes,
            output,
            report=report,
            csv_file=csv_file,
            variation=Variation(variation),
        )
        return
    if variation != "none":
        raise UsageProblem("--variation: give --scenario hundred-gpus, too; traces have none")
    fleet = _read_fleet(fleet_file, clusters, preemption)
    if fair_sharing:
        fleet = replace(fleet, fair_sharing=True)
    for outage in outages:
        fleet = _add_outage(fleet, outage)
    own = f"{fleet.quota_percent}" if fleet_file else QUOTAS
    plan = Plan(
        wanted=TraceRequest(source=trace, count=jobs, load=load, teams=teams),
        fleet=fleet,
        contestants=give_quotas(
            _read_contestants(names, settings), _read_percents(manager_quota or own)
        ),
        seeds=tuple(range(first_seed, first_seed + seeds)),
        tells_run_times=tell_run_times,
    )
    comparison = _play(plan, processes)
    _write(comparison, report, csv_file)
    _print(comparison, output)


def _check_folders(*paths: Path | None) -> None:
    """Report a missing folder before the simulation takes minutes."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageProblem(f'"{path}": there is no folder "{path.parent}"')


def _read_fleet(path: Path | None, clusters: int, preemption: str) -> SimulatedFleet:
    from multiqueue.simulation.fleet import Preempting, make_fleet
    from multiqueue.simulation.fleet_file import FleetFileError, load_fleet

    try:
        return load_fleet(path) if path else make_fleet(clusters, Preempting(preemption))
    except FleetFileError as error:
        raise UsageProblem(str(error)) from error


def _add_outage(fleet: SimulatedFleet, text: str) -> SimulatedFleet:
    from multiqueue.simulation.fleet_file import read_outage

    known = [cluster.name for cluster in fleet.clusters]
    name, _, times = text.partition(":")
    after, _, lasts = times.partition(":")
    if any(cluster.name == name and cluster.outage for cluster in fleet.clusters):
        raise UsageProblem(f'--outage "{text}": "{name}" has one already; a cluster is lost once')
    if name not in known:
        raise UsageProblem(
            f'--outage "{text}": there is no cluster "{name}"; there are {", ".join(known)}'
        )
    try:
        outage = read_outage(after, lasts)
    except ValueError as error:
        raise UsageProblem(
            f'--outage "{text}": {error}; write CLUSTER:AFTER:FOR, such as {name}:24h:24h'
        ) from error
    clusters = tuple(
        replace(cluster, outage=outage) if cluster.name == name else cluster
        for cluster in fleet.clusters
    )
    return replace(fleet, clusters=clusters)


def _read_percents(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not (part.isdecimal() and int(part) > 0)]
    if wrong or len(set(parts)) < len(parts):
        raise UsageProblem(
            f'--manager-quota "{text}": write different percentages above 0, such as {QUOTAS}'
        )
    return [int(part) for part in parts]


def _read_contestants(names: str, settings: Sequence[str]) -> tuple[Contestant, ...]:
    from multiqueue.simulation.compare import Contestant

    listed = [name.strip() for name in names.split(",") if name.strip()]
    if not listed:
        raise UsageProblem("--compare: name at least one dispatcher")
    pairs = [
        tuple(part.strip() for part in (n if "=" in n else f"{n}={n}").split("=", 1))
        for n in listed
    ]
    arguments: dict[str, dict[str, Any]] = {label: {} for label, _ in pairs}
    if len(arguments) < len(pairs):
        raise UsageProblem(f'--compare "{names}": two have the same label; use LABEL=NAME')
    for setting in settings:
        _read_setting(setting, arguments)
    return tuple(
        Contestant(label=label, dispatcher=name, arguments=arguments[label])
        for label, name in pairs
    )


def _read_setting(setting: str, arguments: dict[str, dict[str, Any]]) -> None:
    from multiqueue.cli.settings import read_setting

    form = f"LABEL.ARGUMENT=VALUE, where LABEL is one of {', '.join(arguments)}"
    path, value = read_setting(setting, form)
    label, _, argument = path.rpartition(".")
    if not argument or label not in arguments:
        raise UsageProblem(f'--set "{setting}": write {form}')
    arguments[label][argument] = value


def _play(plan: Plan, processes: int | None) -> Comparison:
    from concurrent.futures.process import BrokenProcessPool

    from multiqueue.simulation.compare import UnknownDispatcherError, compare
    from multiqueue.simulation.reconciles import DispatcherError
    from multiqueue.simulation.traces.csv_loader import TraceError

    total = len(plan.contestants) * len(plan.seeds)
    done = 0

    def show(words: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{words}\x1b[K", err=True, nl=False)

    def tell(run: RunRecord) -> None:
        nonlocal done
        done += 1
        show(f"{done} of {total} runs: {run.label}, seed {run.seed}")

    show(f"0 of {total} runs, of {plan.wanted.count} jobs each")
    try:
        return compare(plan, processes=processes, on_done=tell)
    except (UnknownDispatcherError, TraceError) as error:
        raise UsageProblem(str(error)) from error
    except DispatcherError as error:
        raise CliError(str(error)) from error
    except BrokenProcessPool as error:
        names = ", ".join(each.label for each in plan.contestants)
        raise CliError(
            f"a run ended its process: a dispatcher among {names} ends or crashes Python, or "
            "memory is short; `multiqueue dispatcher test NAME` tries one in a process of its own"
        ) from error
    finally:
        show("")


def _write(comparison: Comparison, report: Path | None, csv_file: Path | None) -> None:
    from multiqueue.simulation.report.document import format_csv
    from multiqueue.simulation.report.page import build_page
    from multiqueue.simulation.rivals import narrow

    if report is not None:
        write_result(report, build_page(narrow(comparison)))
    if csv_file is not None:
        write_result(csv_file, format_csv(comparison))


def _print(comparison: Comparison, output: str) -> None:
    from multiqueue.simulation.report.document import build_document
    from multiqueue.simulation.report.table import describe, list_rows, list_seeds
    from multiqueue.simulation.rivals import narrow

    if output != "human":
        print_data(build_document(comparison), output)
        return
    click.echo(describe(comparison))
    for note in dict.fromkeys(
        note for runs in comparison.runs.values() for run in runs for note in run.notes
    ):
        click.echo(f"  {note}")
    click.echo()
    shown = narrow(comparison)
    if shown is not comparison:
        _print_beside_best(shown)
    print_table(*list_rows(shown))
    for line in list_seeds(shown):
        click.echo(line)


def _print_beside_best(beside: Comparison) -> None:
    from multiqueue.simulation.goals import GOAL_HEADERS, list_goal_rows
    from multiqueue.simulation.rivals import TRACE_HEADERS, judge_beside_best, list_traces

    _, (judged, runs) = beside.runs.items()
    click.echo(
        f"{judged} with {runs[0].fleet.quota_percent} % of quota on the manager, beside the rival "
        "with the shortest mean wait on each trace. The worst trace comes first."
    )
    print_table(TRACE_HEADERS, list_traces(beside))
    click.echo()
    print_table(GOAL_HEADERS, list_goal_rows(judge_beside_best(beside)))
    click.echo()
