"""``multiqueue cancel``: delete jobs with their pods."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.durations import DURATION
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.kueuectl.options import DryRun, dry_run_option
from multiqueue.cli.output import echo, print_data, print_table, wide_output_option

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import Workload
    from multiqueue.kube.client import KubeClient

HEADERS = ("JOB", "RESULT", "WORKER")
POLL_SECONDS = 0.5


@click.command("cancel")
@click.argument("jobs", nargs=-1, metavar="[JOB]...", shell_complete=names_of("jobs"))
@click.option(
    "-l",
    "--selector",
    metavar="LABELS",
    default="",
    help="The jobs of the namespace with these labels, such as team=vision.",
)
@click.option("--all", "every", is_flag=True, help="All jobs of the namespace.")
@click.option("--wait", is_flag=True, help="Wait until the jobs hold no quota and are gone.")
@click.option(
    "--timeout", type=DURATION, metavar="DURATION", help="Wait no longer than this (90s, 10m)."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@with_target
@wide_output_option
def command(
    *,
    jobs: tuple[str, ...],
    selector: str,
    every: bool,
    wait: bool,
    timeout: timedelta | None,
    yes: bool,
    dry_run: DryRun,
    target: ClusterTarget,
    output: str,
) -> int:
    """Delete jobs with their pods, wherever they run; a Workload without a job is deleted itself.

    It says first how many jobs stop and what they lose, and asks. Without a terminal it needs -y.
    Jobs that have ended stay. One that cannot be found is named, and then nothing is deleted.

    \b
    Examples:
      multiqueue cancel train-7b
      multiqueue cancel -l team=vision -y --wait
      multiqueue cancel --all -n team --dry-run
    """  # noqa: D301 - click reads the backspace
    if sum(map(bool, (jobs, selector, every))) != 1:
        raise UsageProblem("name jobs, or use -l or --all: one of the three")
    return run_async(
        _cancel(
            target,
            jobs,
            selector,
            yes=yes,
            dry_run=dry_run,
            seconds=(timeout.total_seconds() if timeout else None) if wait else 0,
            output=output,
        )
    )


async def _cancel(
    target: ClusterTarget,
    names: tuple[str, ...],
    selector: str,
    *,
    yes: bool,
    dry_run: DryRun,
    seconds: float | None,
    output: str,
) -> int:
    from multiqueue.api.workload_state import is_finished
    from multiqueue.cli.asking import ask_first
    from multiqueue.views.stops import say_stops, sum_stops

    async with connect(target) as (client, namespace):
        found = await _find(client, namespace, names, selector)
        doomed = [each for each in found if not is_finished(each.status)]
        if doomed:
            lost = say_stops(sum_stops(doomed, datetime.now(UTC)))
            ask_first(
                f"{_say_what(doomed)} deleted{dry_run.words}. Now: {lost}.",
                yes=yes or dry_run != DryRun.NONE,
            )
        results = {each.metadata.uid: await _delete(client, each, dry_run) for each in doomed}
        if seconds != 0 and dry_run is DryRun.NONE:
            await _wait_until_gone(client, doomed, seconds)
    _print(found, results, output)
    return ExitCode.OK


async def _find(
    client: KubeClient, namespace: str, names: tuple[str, ...], selector: str
) -> list[Workload]:
    """Return the Workloads of the named jobs; of those with the labels; or all."""
    from multiqueue.cli.declared_kinds import learn_kinds
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.job_names import decode_workload
    from multiqueue.cli.kueuectl.deletion import list_doomed
    from multiqueue.kube.resources import WORKLOADS

    if names:
        found = [await find_workload(client, namespace, name) for name in names]
        return list({each.metadata.uid: each for each in found}.values())
    await learn_kinds(client)
    listed = await client.list(WORKLOADS, namespace=namespace, decode=decode_workload)
    if not selector:
        return list(listed.items)
    jobs = {each.metadata.uid: list_doomed(each) for each in listed.items}
    uids: set[str] = set()
    for resource in {job.resource for each in jobs.values() for job in each}:
        labelled = await client.list(resource, namespace=namespace, label_selector=selector)
        uids |= {each["metadata"]["uid"] for each in labelled.items}
    return [w for w in listed.items if any(job.uid in uids for job in jobs[w.metadata.uid])]


def _say_what(doomed: list[Workload]) -> str:
    from multiqueue.views.workloads import name_job

    if len(doomed) > 1:
        return f"{len(doomed):,} jobs are"
    return f'{name_job(doomed[0])} of namespace "{doomed[0].metadata.namespace}" is'


async def _delete(client: KubeClient, workload: Workload, dry_run: DryRun) -> str:
    """Delete the job of a Workload; return what became of it."""
    from multiqueue.cli.kueuectl.deletion import list_doomed
    from multiqueue.dashboard.action_writer import ActionWriter
    from multiqueue.dashboard.job_actions import ActionWrite
    from multiqueue.kube.errors import Conflict, NotFound

    writer, result = ActionWriter(client), "gone already"
    for job in list_doomed(workload):
        try:
            if dry_run is not DryRun.CLIENT:
                await writer.write(ActionWrite(target=job), dry_run=dry_run is DryRun.SERVER)
        except (Conflict, NotFound):
            continue  # what has its name now is another object
        result = f"deleted{dry_run.words}"
    return result


async def _wait_until_gone(
    client: KubeClient, workloads: list[Workload], seconds: float | None
) -> None:
    """Wait until the Workloads are gone: then they hold no quota, here or on a worker.

    Raises:
        CliError: One is still there after this time.
    """
    from multiqueue.kube.errors import NotFound
    from multiqueue.kube.resources import WORKLOADS

    key = ""
    try:
        async with asyncio.timeout(seconds):
            for workload in workloads:
                metadata, key, uid = workload.metadata, workload.metadata.key, workload.metadata.uid
                while uid == workload.metadata.uid:
                    try:
                        now = await client.get(
                            WORKLOADS, metadata.name, namespace=metadata.namespace
                        )
                    except NotFound:
                        break
                    uid = now["metadata"]["uid"]
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError as error:
        raise CliError(
            f'Workload "{key}" is still there after {seconds:g} s: its job is deleted; the '
            "Workload goes when its pods have ended, if a manager runs"
        ) from error


def _print(found: list[Workload], results: dict[str, str], output: str) -> None:
    from multiqueue.views.workloads import view_workload

    views = [(each.metadata.uid, view_workload(each)) for each in found]
    rows = [
        {
            "workload": view.key,
            "job": view.job,
            "result": results.get(uid, "has ended"),
            "worker": view.worker,
        }
        for uid, view in views
    ]
    if output not in {"human", "wide"}:
        print_data(rows, output)
    elif rows:
        cells = [[each["job"], each["result"], each["worker"]] for each in rows]
        print_table(HEADERS, cells, wide=output == "wide")
    else:
        echo("There is no such job.")
