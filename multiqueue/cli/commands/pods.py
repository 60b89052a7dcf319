"""``multiqueue pods``: the pods of a job, on whatever cluster it runs."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    namespace_option,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import RowPrinter, echo, form_option, print_data, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from multiqueue.cli.remote.following import Follower
    from multiqueue.jobs.belongings import Json


@click.command("pods")
@click.argument("job", metavar="JOB", shell_complete=names_of("jobs"))
@click.option("-w", "--watch", is_flag=True, help="Go on with what changes, until the job ends.")
@form_option("human", "wide", "json", "yaml", "name")
@system_namespace_option
@namespace_option
@cluster_options
def command(
    *,
    job: str,
    watch: bool,
    output: str,
    system_namespace: str,
    target: ClusterTarget,
) -> None:
    """Show the pods of a job with cluster and node, wherever the job runs."""
    if watch:
        check_watched_form(output)
    run_async(_pods(target, job, system_namespace, watch=watch, output=output))


async def _pods(
    target: ClusterTarget, job: str, system_namespace: str, *, watch: bool, output: str
) -> None:
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.remote.following import Follower
    from multiqueue.cli.remote.places import JobPlaces
    from multiqueue.cli.remote.standing import list_pods

    async with connect(target) as (client, namespace), AsyncExitStack() as stack:
        workload = await find_workload(client, namespace, job)
        places = JobPlaces(client, stack, system_namespace=system_namespace)
        follower = Follower(client, workload, places, lambda text: _say(job, text))
        if watch and not follower.is_over:
            await watch_pods(follower, output)
            return
        _, pods = await list_pods(workload, places)
    print_pods(job, pods, output)


def print_pods(job: str, pods: list[Json], output: str) -> None:
    """Print pods as a table or in another form; say if there are none."""
    from multiqueue.cli.views.pods import HEADERS, WIDE, pod_row

    if output == "name":
        for pod in pods:
            echo(f"pod/{pod['metadata']['name']}")
        return
    if output not in {"human", "wide"}:
        print_data({"apiVersion": "v1", "kind": "PodList", "items": pods}, output)
        return
    if not pods:
        _say(job, "no pods now")
        return
    wide, now = output == "wide", datetime.now(UTC)
    headers = [*HEADERS, *WIDE] if wide else list(HEADERS)
    print_table(headers, [pod_row(pod, now, wide=wide) for pod in pods], wide=wide)


def check_watched_form(output: str) -> None:
    """Refuse a form in which changes of pods cannot be printed.

    Raises:
        UsageProblem: it is not one of lines.
    """
    if output not in {"human", "wide", "name"}:
        raise UsageProblem("--watch prints lines; choose -o human, wide or name")


async def watch_pods(
    follower: Follower, output: str, is_wanted: Callable[[Json], bool] = lambda _: True
) -> None:
    """Print the pods of a job that are wanted, then each that changes, until the job ends."""
    from multiqueue.cli.views.pods import HEADERS, WIDE, pod_row

    table = RowPrinter([*HEADERS, *WIDE] if output == "wide" else HEADERS)
    last: dict[str, list[str]] = {}
    async with aclosing(follower.follow("pods")) as changes:
        async for seen in changes:
            if seen.obj is None or not is_wanted(seen.obj):
                continue
            name = seen.obj["metadata"]["name"]
            row = pod_row(seen.obj, datetime.now(UTC), wide=output == "wide")
            telling = row[1:4] + row[5:]  # everything except the age
            if seen.deleted or last.get(name) == telling:
                continue
            if output == "name":
                if name not in last:
                    echo(f"pod/{name}")
            else:
                table.print(row)
            last[name] = telling


def _say(job: str, text: str) -> None:
    echo(click.style(f"{job}: {text}", dim=True), err=True)
