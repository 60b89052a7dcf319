"""``multiqueue migrate``: take a cluster over from upstream Kueue, and go back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.durations import DURATION
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data

if TYPE_CHECKING:
    from multiqueue.cli.migration.comparison import MigrationOutcome
    from multiqueue.cli.migration.installation import Installation
    from multiqueue.cli.migration.preflight import Preflight
    from multiqueue.cli.migration.take_over import StepDone, TakeOver

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
_COLOURS = {"blocks": "red", "warning": "yellow", "info": "cyan"}


@click.command("migrate")
@click.argument(
    "source", required=False, type=click.Path(path_type=Path, exists=True), metavar="[SOURCE]"
)
@click.option("--check", "only_check", is_flag=True, help="Only check; this is the default.")
@click.option("--backup", type=FILE, help="Write all objects of Kueue to this file.")
@click.option("--apply", "is_applied", is_flag=True, help="Take over; needs --backup and --image.")
@click.option("--rollback", type=FILE, metavar="FILE", help="Go back to upstream by this backup.")
@click.option("--image", metavar="NAME:TAG", help="Your image of multiqueue, for --apply.")
@click.option(
    "--out",
    type=FOLDER,
    default="migration",
    show_default=True,
    help="Folder for the files that start multiqueue, for --apply.",
)
@click.option(
    "--manifests",
    type=FOLDER,
    default="config",
    show_default=True,
    help="The folder config/ of multiqueue, for --apply.",
)
@click.option("--dry-run", is_flag=True, help="Print the steps of --apply or --rollback only.")
@click.option(
    "--timeout",
    type=DURATION,
    default="120s",
    show_default=True,
    metavar="DURATION",
    help="How long a manager may take to stop, and the next one to lead.",
)
@system_namespace_option
@cluster_options
@output_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    source: Path | None,
    only_check: bool,
    backup: Path | None,
    is_applied: bool,
    rollback: Path | None,
    image: str | None,
    out: Path,
    manifests: Path,
    dry_run: bool,
    timeout: timedelta,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Check whether upstream Kueue can be replaced by multiqueue; do it, and go back.

    SOURCE is a folder of manifests, a Configuration or a values file of upstream's chart; without
    it the cluster is read. The check changes nothing, and ends with 1 if something blocks the
    take-over.
    """
    from multiqueue.cli.migration.take_over import TakeOver

    seconds = timeout.total_seconds()
    _refuse_contradictions(
        source=source,
        writes=[backup is not None, is_applied, rollback is not None],
        only_check=only_check,
        dry_run=dry_run,
    )
    if rollback is not None:
        return run_async(
            _roll_back(target, rollback, system_namespace, seconds, dry_run=dry_run, output=output)
        )
    if not is_applied:
        return run_async(_check(target, source, backup, system_namespace, output))
    repository, _, tag = (image or "").rpartition(":")
    if backup is None or image is None or not repository or "/" in tag:
        raise UsageProblem("--apply needs --backup FILE and --image NAME:TAG")
    if not (manifests / "helm" / "Chart.yaml").exists():
        raise UsageProblem(f'--manifests "{manifests}": it is not the folder config/ of multiqueue')
    wanted = TakeOver(
        namespace=system_namespace,
        backup=backup,
        out=out,
        manifests=manifests,
        image=image,
        seconds=seconds,
    )
    return run_async(_take_over(target, wanted, dry_run=dry_run, output=output))


def _refuse_contradictions(
    *, source: Path | None, writes: list[bool], only_check: bool, dry_run: bool
) -> None:
    _, is_applied, goes_back = writes
    if source is not None and any(writes):
        raise UsageProblem("SOURCE can only be checked; the other options need a cluster")
    if goes_back and (any(writes[:2]) or only_check):
        raise UsageProblem("--rollback goes alone: without --check, --backup and --apply")
    if only_check and is_applied:
        raise UsageProblem("--check changes nothing; leave it out, --apply checks first")
    if dry_run and not (is_applied or goes_back):
        raise UsageProblem("--dry-run goes with --apply or --rollback; a check changes nothing")


async def _check(
    target: ClusterTarget, source: Path | None, backup: Path | None, namespace: str, output: str
) -> int:
    from multiqueue.cli.migration.backup import write_backup
    from multiqueue.cli.migration.preflight import check_installation
    from multiqueue.cli.migration.read import read_cluster, read_files

    if source is not None:
        found = read_files(source)
    else:
        async with connect(target) as (client, _):
            found = await read_cluster(client, namespace)
    preflight = check_installation(found)
    if backup is not None:
        checksum = write_backup(backup, found, namespace=namespace, now=datetime.now(UTC))
        echo(f"{backup}: {len(found.objects)} objects, sha256 {checksum}", err=True)
    _print_preflight(preflight, output)
    return ExitCode.FAILED if preflight.blocking else ExitCode.OK


async def _take_over(target: ClusterTarget, wanted: TakeOver, *, dry_run: bool, output: str) -> int:
    from multiqueue.cli.migration import take_over

    async with connect(target) as (client, _):
        found, preflight = await take_over.prepare(client, wanted)
        steps = take_over.build_steps(found, wanted)
        if dry_run:
            return _print_steps(steps, output)
        done = await take_over.carry_out(client, wanted, found, preflight)
        outcome = await take_over.compare(
            client, wanted.namespace, found, ours=True, seconds=wanted.seconds
        )
    then = "" if outcome else take_over.build_command(found, wanted)
    return _print_done(done, outcome, then, output)


async def _roll_back(
    target: ClusterTarget,
    file: Path,
    namespace: str,
    seconds: float,
    *,
    dry_run: bool,
    output: str,
) -> int:
    from multiqueue.cli.migration import roll_back
    from multiqueue.cli.migration.backup import check_cluster, read_backup
    from multiqueue.cli.migration.read import read_cluster
    from multiqueue.cli.migration.take_over import StepDone, compare

    backup = read_backup(file)
    before = backup.installation
    async with connect(target) as (client, _):
        now = await read_cluster(client, namespace)
        check_cluster(backup, now.identity, namespace)
        for line in _tell_missing(before, now):
            echo(f"{click.style('warning', fg='yellow')}: {line}", err=True)
        if dry_run:
            return _print_steps(roll_back.STEPS, output)
        done = [StepDone(name="check the backup", outcome=f"of {backup.taken_at}")]
        steps = roll_back.roll_back(client, namespace, before, seconds=seconds)
        done.extend([step async for step in steps])
        outcome = await compare(client, namespace, before, ours=False, seconds=seconds)
    # helm's record then says what runs; no object is changed by it.
    record = f"helm rollback {before.release} --namespace {namespace}" if before.release else ""
    return _print_done(done, outcome, record, output)


def _tell_missing(before: Installation, now: Installation) -> Iterator[str]:
    from multiqueue.cli.migration.roll_back import find_missing, find_own_objects

    for key in find_missing(before, now):
        yield f"{key} is in the backup and not here; it is not made anew"
    for key in find_own_objects(now):
        yield f"{key} stays, and upstream does not know it"


def _print_preflight(preflight: Preflight, output: str) -> None:
    blocking = len(preflight.blocking)
    if output != "human":
        findings = [each.to_dict() for each in preflight.findings]
        data = {"canMigrate": not blocking, **preflight.facts, "findings": findings}
        print_data(data, output)
        return
    counts = preflight.facts["workloads"]
    numbers = ", ".join(f"{count} {phase}" for phase, count in counts.items())
    echo(f"Kueue {preflight.facts['version'] or '(version unknown)'}; Workloads: {numbers}")
    for each in preflight.findings:
        rows = f" (rows {', '.join(map(str, each.rows))})" if each.rows else ""
        todo = f"; {each.todo}" if each.todo else ""
        level = click.style(each.weight, fg=_COLOURS[each.weight])
        echo(f"{level}: {each.check}: {each.about}: {each.what}{rows}{todo}")
    echo("cannot be taken over yet" if blocking else "can be taken over")


def _print_steps(steps: tuple[tuple[str, str], ...], output: str) -> int:
    if output != "human":
        print_data([{"step": name, "does": what} for name, what in steps], output)
        return ExitCode.OK
    for number, (name, what) in enumerate(steps, 1):
        echo(f"{number}. {name}: {what}")
    return ExitCode.OK


def _print_done(
    done: list[StepDone], outcome: MigrationOutcome | None, then: str, output: str
) -> int:
    code = ExitCode.OK if outcome is None or outcome.is_good else ExitCode.FAILED
    if output != "human":
        data: dict[str, Any] = {
            "steps": [{"step": each.name, "outcome": each.outcome or None} for each in done],
            "outcome": outcome.to_dict() if outcome else None,
            "next": then or None,
        }
        print_data(data, output)
        return code
    for each in done:
        echo(f"{each.name}: {each.outcome or 'nothing left to do'}")
    if outcome is not None:
        echo(
            f"running: {outcome.still_running} of {outcome.running} as before, {outcome.ended} "
            f"ended; waiting: {outcome.waiting}, {outcome.admitted} of them got quota since, "
            f"order {'kept' if outcome.is_order_kept else 'CHANGED'}"
        )
        for key in (*outcome.changed, *outcome.lost):
            echo(f"{click.style('changed', fg='red')}: {key}")
    if then:
        echo(f"next: {then}")
    return code
