"""``multiqueue flavors``: the ResourceFlavors and their GPUs."""

from __future__ import annotations

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.output import echo, print_data, print_table, wide_output_option


@click.command("flavors")
@cluster_options
@wide_output_option
def command(*, target: ClusterTarget, output: str) -> None:
    """Show the ResourceFlavors: GPUs by quota, used and free.

    GPUS is the sum of the nominal quotas of all Cohorts and ClusterQueues. A flavor without any
    has no figures. -o wide adds the labels and taints of its nodes, its Topology, and the
    ClusterQueues that have quota of it.

    \b
    Examples:
      multiqueue flavors
      multiqueue flavors -o wide
    """  # noqa: D301 - click reads the backspace
    run_async(_flavors(target, output))


async def _flavors(target: ClusterTarget, output: str) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.fleet import try_list_rows
    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.cli.views import flavors as view
    from multiqueue.views.workers import count_accelerators

    objects = QueueObjects(now=datetime.now(UTC))
    async with connect(target) as (client, _):
        totals, problem = await try_list_rows(client, "totals")
        await objects.list(client, "flavors", "cluster_queues")
    figures = [figure for row in totals for figure in row["status"]["flavors"]]
    if problem:
        figures = count_accelerators(objects.cluster_queues.values())
    flavors = view.list_flavors(objects, figures)
    if output not in {"human", "wide"}:
        print_data(flavors, output)
    elif not flavors:
        echo("There is no ResourceFlavor.")
    elif output == "wide":
        print_table(view.WIDE_HEADERS, view.list_flavor_rows(flavors), wide=True)
    else:
        rows = view.list_flavor_rows(flavors)
        print_table(view.HEADERS, [row[: len(view.HEADERS)] for row in rows])
    if problem:
        echo(
            f"note: only quotas of ClusterQueues are counted, none of Cohorts: {problem}", err=True
        )
    for kind in objects.hidden:
        echo(f"note: you may not list {kind}", err=True)
