"""``multiqueue fairness``: how the queues share, who is served next, and who is starved."""

from __future__ import annotations

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.output import echo, output_option, print_data, print_table


@click.command("fairness")
@click.option(
    "--starved",
    is_flag=True,
    help="Only queues whose jobs wait while they use less than their own quota.",
)
@cluster_options
@output_option
def command(*, starved: bool, target: ClusterTarget, output: str) -> None:
    """Show how the ClusterQueues share: weight, share, past usage, and for how long one is starved.

    A queue is starved while its jobs wait and it uses less than its own nominal quota of GPUs. Of
    the queues of a cohort, the one with the lowest share is served next (TURN 1). Shares are
    computed if fair sharing is on, past usage if admission fair sharing is.

    \b
    Examples:
      multiqueue fairness
      multiqueue fairness --starved -o json
    """  # noqa: D301 - click reads the backspace
    run_async(_fairness(target, output, starved=starved))


async def _fairness(target: ClusterTarget, output: str, *, starved: bool) -> None:
    from multiqueue.cli.fleet import list_rows
    from multiqueue.cli.views.fleet import SHARE_HEADERS, list_share_rows

    async with connect(target) as (client, _):
        rows = await list_rows(client, "shares")
    shown = [each for each in rows if each["status"]["starvedSeconds"] or not starved]
    if output != "human":
        print_data([{"clusterQueue": e["metadata"]["name"], **e["status"]} for e in shown], output)
    elif shown:
        print_table(SHARE_HEADERS, list_share_rows(shown))
    else:
        echo("No queue is starved." if rows else "There is no ClusterQueue.")
