"""``multiqueue top``: the fleet in numbers, live."""

from __future__ import annotations

import asyncio
import sys

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.output import echo, output_option, print_data, print_table


@click.command("top")
@click.option("--once", is_flag=True, help="Print once, also on a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two looks.",
)
@cluster_options
@output_option
def command(*, once: bool, interval: float, target: ClusterTarget, output: str) -> None:
    """Show how full queues and workers are, live on a terminal.

    SHARED is what a queue borrows from others, or lends to them. OFFERED counts the jobs that were
    offered to a worker and have not started there.
    """
    is_live = output == "human" and not once and sys.stdout.isatty()
    run_async(_top(target, output, interval if is_live else None))


async def _top(target: ClusterTarget, output: str, interval: float | None) -> None:
    from multiqueue.cli.live import show_live

    async with connect(target) as (client, _):
        if interval is None:
            await _show(client, output)
        else:
            await show_live(lambda: _show(client, output), interval)


async def _show(client: object, output: str) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.fleet import list_rows, try_list_rows
    from multiqueue.cli.views import fleet
    from multiqueue.kube.client import KubeClient

    assert isinstance(client, KubeClient)
    totals, (quotas, no_quotas), (workers, no_workers) = await asyncio.gather(
        list_rows(client, "totals"),
        try_list_rows(client, "quotas"),
        try_list_rows(client, "workers"),
    )
    if output != "human":
        print_data({"totals": totals, "quotas": quotas, "workers": workers}, output)
        return
    for each in totals[:1]:
        echo(fleet.describe_totals(each, datetime.now(UTC)))
    for headers, rows, problem in (
        (fleet.QUEUE_HEADERS, fleet.list_queue_rows(quotas), no_quotas),
        (fleet.WORKER_HEADERS, fleet.list_worker_rows(workers), no_workers),
    ):
        if problem:
            echo(f"\nnote: {problem}")
        elif rows:
            echo()
            print_table(headers, rows)
