"""``multiqueue queue``: show which Workloads wait, in which order, and why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from multiqueue.api.names import split_key
from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.live import show_live, watch_option
from multiqueue.cli.output import echo, output_option, print_data, print_table
from multiqueue.lib.words import words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.cli.views.queues import QueueRow, QueueSummary
    from multiqueue.cli.visibility import Places
    from multiqueue.kube.client import KubeClient

    Standings = Mapping[str, Mapping[str, Any]]

KINDS = ("cluster_queues", "local_queues", "workloads")
WATCH_SECONDS = 2.0
HEADERS = words("POSITION WORKLOAD JOB PRIORITY GPUS STATE WORKER START AGE WHY")


@click.command("queue")
@click.argument("localqueue", required=False, shell_complete=names_of("localqueues"))
@click.option("--cluster-queue", metavar="NAME", help="Show a ClusterQueue instead.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Queues of all namespaces.")
@click.option("--all", "show_all", is_flag=True, help="Also show Workloads that have ended.")
@watch_option
@with_target
@output_option
def command(
    localqueue: str | None,
    cluster_queue: str | None,
    *,
    all_namespaces: bool,
    show_all: bool,
    watch: bool,
    target: ClusterTarget,
    output: str,
) -> None:
    """Show a queue: position, state, expected start and reason of each Workload.

    Without a name: all LocalQueues of the namespace.
    """
    if localqueue and cluster_queue:
        raise UsageProblem("name a LocalQueue or --cluster-queue, not both")
    if watch and output != "human":
        raise UsageProblem("--watch shows tables; for programs, watch standings with kubectl")
    run_async(
        _show(
            target,
            localqueue,
            cluster_queue,
            all_namespaces=all_namespaces,
            show_all=show_all,
            watch=watch,
            output=output,
        )
    )


async def _show(
    target: ClusterTarget,
    local_queue: str | None,
    cluster_queue: str | None,
    *,
    all_namespaces: bool,
    show_all: bool,
    watch: bool,
    output: str,
) -> None:
    from multiqueue.cli.declared_kinds import learn_kinds

    async with connect(target) as (client, namespace):
        await learn_kinds(client)

        async def show() -> None:
            if cluster_queue is not None:
                await _show_cluster_queue(
                    client, namespace, cluster_queue, show_all=show_all, output=output
                )
            elif local_queue is not None:
                key = local_queue if "/" in local_queue else f"{namespace}/{local_queue}"
                await _show_local_queue(client, key, show_all=show_all, output=output)
            else:
                chosen = None if all_namespaces else namespace
                await _show_summaries(client, namespace, chosen, output)

        if watch:
            await show_live(show, WATCH_SECONDS)
        else:
            await show()


async def _show_cluster_queue(
    client: KubeClient, namespace: str, name: str, *, show_all: bool, output: str
) -> None:
    from multiqueue.cli.views.queues import list_rows
    from multiqueue.cli.visibility import read_cluster_queue

    objects = _make_objects(namespace)
    _, places, standings = await asyncio.gather(
        objects.list(client, *KINDS),
        read_cluster_queue(client, name),
        _read_standings(client, fieldSelector=f"clusterQueue={name}"),
    )
    await objects.list_jobs(client)
    if "clusterqueues" not in objects.hidden:
        _require(name, objects.cluster_queues, "ClusterQueue")
    if objects.narrowed and places.problem:
        places = await _read_own_places(client, objects, name)
    rows = list_rows(
        objects, places.by_key, cluster_queue=name, ended=show_all, standings=standings
    )
    _print_rows(rows, places, objects, output)


async def _show_local_queue(client: KubeClient, key: str, *, show_all: bool, output: str) -> None:
    from multiqueue.cli.views.queues import list_rows
    from multiqueue.cli.visibility import read_local_queue

    where, name = split_key(key)
    objects = _make_objects(where)
    _, places, standings = await asyncio.gather(
        objects.list(client, "local_queues", "workloads", namespace=where),
        read_local_queue(client, where, name),
        _read_standings(client, namespace=where, fieldSelector=f"localQueue={name}"),
    )
    await objects.list_jobs(client, namespace=where)
    _require(key, objects.local_queues, "LocalQueue")
    rows = list_rows(objects, places.by_key, local_queue=key, ended=show_all, standings=standings)
    _print_rows(rows, places, objects, output)


async def _show_summaries(
    client: KubeClient, namespace: str, chosen: str | None, output: str
) -> None:
    from multiqueue.cli.views.queues import summarize

    objects = _make_objects(namespace)
    await objects.list(client, *KINDS, namespace=chosen)
    if "localqueues" in objects.hidden:
        where = f'in namespace "{chosen}"' if chosen else "in all namespaces"
        raise CliError(
            f"you may not list LocalQueues {where}, or the cluster has no such kind; "
            "-n names a namespace in which you may"
        )
    await objects.list_jobs(client, namespace=chosen)
    _note_narrowed(objects)
    print_summaries(summarize(objects, chosen), chosen, output)


def _make_objects(namespace: str) -> QueueObjects:
    from datetime import UTC, datetime

    from multiqueue.cli.queue_objects import QueueObjects

    return QueueObjects(now=datetime.now(UTC), namespace=namespace)


async def _read_standings(client: KubeClient, *, namespace: str = "", **params: str) -> Standings:
    """Return what the manager says of Workloads, for start and reason; empty if it does not."""
    from multiqueue.cli.fleet import try_list_rows

    rows, _ = await try_list_rows(client, "standings", namespace=namespace, **params)
    return {
        f"{row['metadata']['namespace']}/{row['metadata']['name']}": row["status"] for row in rows
    }


async def _read_own_places(client: KubeClient, objects: QueueObjects, cluster_queue: str) -> Places:
    """Return the positions in a ClusterQueue of the Workloads that the user may see."""
    from multiqueue.cli.visibility import Places, read_local_queue

    queues = [
        queue.metadata
        for queue in objects.local_queues.values()
        if queue.spec.cluster_queue == cluster_queue
    ]
    found = await asyncio.gather(
        *(read_local_queue(client, queue.namespace, queue.name) for queue in queues)
    )
    return Places(
        by_key={key: place for each in found for key, place in each.by_key.items()},
        problem=next((each.problem for each in found if each.problem), ""),
    )


def _note_narrowed(objects: QueueObjects) -> None:
    if objects.narrowed:
        click.echo(
            f"note: you may list {', '.join(objects.narrowed)} in namespace "
            f'"{objects.namespace}" only: those of other namespaces are not shown.',
            err=True,
        )


def _require(name: str, known: Collection[str], kind: str) -> None:
    if name in known:
        return
    namespace, slash, _ = name.partition("/")
    none = f"there is no {kind} yet"
    if slash:
        none = f'there is none in namespace "{namespace}"; "queue -A" shows those of all namespaces'
    hint = f"there are: {', '.join(sorted(known))}" if known else none
    raise CliError(f'no {kind} "{name}"; {hint}')


def _print_rows(rows: list[QueueRow], places: Places, objects: QueueObjects, output: str) -> None:
    from multiqueue.views.ages import format_age
    from multiqueue.views.start import say_start_shortly

    _note_narrowed(objects)
    if places.problem:
        note = f"note: {places.problem}. Everything else is read from the objects."
        click.echo(note, err=True)
    if output != "human":
        print_data([row.to_dict() for row in rows], output)
        return
    if not rows:
        echo("Nobody waits or runs here.")
        return
    table: list[list[Any]] = [
        [
            row.position or "",
            row.view.key,
            row.view.job,
            row.view.priority,
            row.view.gpus,
            str(row.view.state),
            row.view.worker or ", ".join(row.view.phase.offered_to),
            say_start_shortly(row.start, objects.now),
            format_age(row.view.created, objects.now),
            row.why,
        ]
        for row in rows
    ]
    print_table(HEADERS, table)


def print_summaries(summaries: list[QueueSummary], namespace: str | None, output: str) -> None:
    """Print one row for each LocalQueue, or say that there is none."""
    if output != "human":
        print_data([summary.to_dict() for summary in summaries], output)
        return
    if not summaries:
        where = f' in namespace "{namespace}"; -A shows all namespaces' if namespace else ""
        echo(f"No LocalQueues{where}.")
        return
    print_table(
        ["NAMESPACE", "LOCALQUEUE", "CLUSTERQUEUE", "PENDING", "RUNNING", "GPUS", "ACTIVE", "WHY"],
        [
            [
                summary.namespace,
                summary.name,
                summary.cluster_queue,
                summary.pending,
                summary.reserving,
                summary.gpus,
                "Active" if summary.is_active else "Inactive",
                summary.why,
            ]
            for summary in summaries
        ],
    )
