"""``multiqueue clusters show``: one worker, its flavors, and the jobs there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.output import echo, output_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient


@click.command("show")
@click.argument("name", metavar="NAME", shell_complete=names_of("multikueueclusters"))
@cluster_options
@output_option
def command(name: str, target: ClusterTarget, output: str) -> None:
    """Show worker NAME: its state and health, its GPUs by flavor, what runs there or is offered.

    The warnings say when the credentials of the worker end, if that is soon.

    \b
    Examples:
      multiqueue clusters show worker-a100
      multiqueue clusters show worker-a100 -o json
    """  # noqa: D301 - click reads the backspace
    run_async(_show(target, name, output))


async def _show(target: ClusterTarget, name: str, output: str) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.fleet import list_standings
    from multiqueue.cli.views import worker as view

    async with connect(target) as (client, _):
        (worker, problem), (running, narrowed), (waiting, _) = await asyncio.gather(
            _read_worker(client, name),
            list_standings(client, fieldSelector=f"worker={name}"),
            list_standings(client, fieldSelector="phase=Dispatched"),
        )
    there, offered = view.split_jobs([*running, *waiting], name)
    problems = [*filter(None, (problem, narrowed))]
    if output != "human":
        told = {"name": name, **worker, "jobs": there, "offered": offered, "problems": problems}
        print_data(told, output)
        return
    now = datetime.now(UTC)
    for line in view.describe_worker(name, worker, now):
        echo(line)
    for title, headers, rows in (
        ("Flavors", view.FLAVOR_HEADERS, view.list_flavor_rows(worker)),
        ("On it", view.JOB_HEADERS, view.list_job_rows(there, now)),
        ("Offered to it", view.JOB_HEADERS, view.list_job_rows(offered, now)),
    ):
        if rows:
            echo(f"\n{title}:")
            print_table(headers, rows)
    for each in problems:
        echo(f"note: {each}", err=True)


async def _read_worker(client: KubeClient, name: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a worker's row, and what lacks because only its object was read.

    Raises:
        CliError: There is no such worker, or the user may not read it.
    """
    from multiqueue.cli.cluster_marks import read_cluster
    from multiqueue.cli.fleet import try_list_rows
    from multiqueue.views.workers import WorkerFacts, build_worker_row

    rows, problem = await try_list_rows(client, "workers")
    for row in rows:
        if row["metadata"]["name"] == name:
            return row["status"], ""
    cluster = await read_cluster(client, name)
    lacks = f'health and GPUs are not known here; "multiqueue clusters" asks the worker: {problem}'
    return build_worker_row(cluster, WorkerFacts()), lacks
