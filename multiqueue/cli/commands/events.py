"""``multiqueue events``: what happened to a job, here and on its worker."""

from __future__ import annotations

from collections.abc import Sequence
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
from multiqueue.cli.output import RowPrinter, echo, output_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import Workload
    from multiqueue.cli.remote.following import Follower
    from multiqueue.cli.remote.places import JobPlaces
    from multiqueue.cli.views.events import Event
    from multiqueue.jobs.belongings import Json


@click.command("events")
@click.argument("job", metavar="JOB", shell_complete=names_of("jobs"))
@click.option("-w", "--watch", is_flag=True, help="Go on with what happens, until the job ends.")
@system_namespace_option
@namespace_option
@cluster_options
@output_option
def command(
    *,
    job: str,
    watch: bool,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> None:
    """Show the events of a job, its Workload and its pods, here and on its worker, by time."""
    if watch and output != "human":
        raise UsageProblem("--watch prints lines; leave out -o")
    run_async(_events(target, job, system_namespace, watch=watch, output=output))


async def _events(
    target: ClusterTarget, job: str, system_namespace: str, *, watch: bool, output: str
) -> None:
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.remote.following import Follower
    from multiqueue.cli.remote.places import JobPlaces
    from multiqueue.cli.views.events import HEADERS, event_row, sort_events

    async with connect(target) as (client, namespace), AsyncExitStack() as stack:
        workload = await find_workload(client, namespace, job)
        places = JobPlaces(client, stack, system_namespace=system_namespace)
        follower = Follower(client, workload, places, lambda text: _say(job, text))
        events = sort_events(await _list(workload, places, job))
        if watch and not follower.is_over:
            await _watch(follower, events)
            return
    if output != "human":
        print_data({"apiVersion": "v1", "kind": "EventList", "items": events}, output)
        return
    if not events:
        echo("No events; API servers keep them for an hour.")
        return
    now = datetime.now(UTC)
    print_table(list(HEADERS), [event_row(event, now) for event in events])


async def _list(workload: Workload, places: JobPlaces, job: str) -> list[Json]:
    """Return the events here, and those on the worker if it can be asked."""
    from multiqueue.kube.errors import Forbidden, NotFound, ServerError, TransportError

    events = await places.here(workload).list_events()
    if workload.status.cluster_name:
        try:
            events += await (await places.find(workload)).list_events()
        except NotFound:
            pass  # the copy was removed, like that of every finished job
        except (ServerError, TransportError) as error:
            _say(job, f"only events of this cluster: {error}")
        except Forbidden as error:
            _say(job, f"only events of this cluster: {error.server_message}")
    return events


async def _watch(follower: Follower, known: Sequence[Event]) -> None:
    """Print the known events by time, then new ones as they happen."""
    from multiqueue.cli.views.events import HEADERS, event_row

    table = RowPrinter(HEADERS)
    now = datetime.now(UTC)
    table.print_all([event_row(event, now) for event in known])
    told = {(e["metadata"].get("uid"), e["metadata"].get("resourceVersion")) for e in known}
    async with aclosing(follower.follow("events", here=True)) as changes:
        async for seen in changes:
            if seen.obj is None or seen.deleted:
                continue
            metadata = seen.obj["metadata"]
            if (metadata.get("uid"), metadata.get("resourceVersion")) not in told:
                table.print(event_row(seen.obj, datetime.now(UTC)))


def _say(job: str, text: str) -> None:
    echo(click.style(f"{job}: {text}", dim=True), err=True)
