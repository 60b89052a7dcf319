"""``multiqueue changes``: what was changed lately in queues, flavors and workers."""

from __future__ import annotations

from datetime import timedelta

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.durations import since_option
from multiqueue.cli.output import echo, output_option, print_data, print_table
from multiqueue.lib.words import words

KINDS = words(
    "ClusterQueue Cohort LocalQueue ResourceFlavor AdmissionCheck MultiKueueCluster "
    "DispatchProfile Workload"
)
"""What `visibility.fleet.service` notes changes of; of Workloads, what the dashboard did."""


@click.command("changes")
@since_option
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    type=click.Choice(KINDS, case_sensitive=False),
    help="Only this kind; may be repeated.",
)
@cluster_options
@output_option
def command(
    *,
    since: timedelta,
    kinds: tuple[str, ...],
    target: ClusterTarget,
    output: str,
) -> None:
    """Show which fields of queues, cohorts, flavors, checks and workers changed, and when.

    The manager remembers the last 1,000 changes since it started, and who did what on the dashboard
    that it serves itself.
    """
    run_async(_changes(target, since, kinds, output))


async def _changes(
    target: ClusterTarget, since: timedelta, kinds: tuple[str, ...], output: str
) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.fleet import list_rows
    from multiqueue.cli.views.fleet import CHANGE_HEADERS, list_change_rows, select_changes

    async with connect(target) as (client, _):
        rows = await list_rows(client, "changes")
    now = datetime.now(UTC)
    changes = select_changes(rows, now - since, kinds)
    if output != "human":
        print_data([each["status"] for each in changes], output)
        return
    if not changes:
        echo("Nothing was changed in that time, as far as the manager remembers.")
        return
    print_table(CHANGE_HEADERS, list_change_rows(changes, now))
