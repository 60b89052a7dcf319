"""``multiqueue decisions``: where jobs were offered lately, and why."""

from __future__ import annotations

from datetime import timedelta

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.durations import since_option
from multiqueue.cli.output import echo, print_data, print_table, wide_output_option


@click.command("decisions")
@since_option
@click.option(
    "--worker",
    "workers",
    multiple=True,
    metavar="NAME",
    shell_complete=names_of("multikueueclusters"),
    help="Only Workloads that were offered to this worker; may be repeated.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME",
    help="Only decisions by this DispatchProfile; may be repeated.",
)
@cluster_options
@wide_output_option
def command(
    *,
    since: timedelta,
    workers: tuple[str, ...],
    profiles: tuple[str, ...],
    target: ClusterTarget,
    output: str,
) -> None:
    """Show which workers Workloads were offered to and why, the newest first.

    The leading manager remembers its last decisions. WHY is the reason for the first worker, or
    why there is none. -o wide adds the dispatcher, its profile, and how many Workloads are stopped
    there (STOPS). "multiqueue why JOB --clusters" shows one decision with all workers.

    \b
    Examples:
      multiqueue decisions --since 1h
      multiqueue decisions --worker worker-a100 --profile batch
    """  # noqa: D301 - click reads the backspace
    run_async(_decisions(target, since, workers, profiles, output))


async def _decisions(
    target: ClusterTarget,
    since: timedelta,
    workers: tuple[str, ...],
    profiles: tuple[str, ...],
    output: str,
) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.decisions import fetch_recording
    from multiqueue.cli.views import decisions as view
    from multiqueue.plugins.recording import read_recording

    async with connect(target) as (client, _):
        recording = await fetch_recording(client)
    now = datetime.now(UTC)
    known = read_recording(recording.splitlines())
    found = view.select_decisions(known, now - since, workers=workers, profiles=profiles)
    if output not in {"human", "wide"}:
        print_data([view.to_dict(each) for each in found], output)
        return
    if not found:
        echo("No such decision in that time, as far as the manager remembers.")
        return
    rows = view.list_decision_rows(found, now)
    if output == "wide":
        print_table(view.WIDE_HEADERS, rows, wide=True)
    else:
        print_table(view.HEADERS, [[*row[:3], row[-1]] for row in rows])
