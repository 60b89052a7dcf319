"""``multiqueue list``: kueuectl's lists of Workloads, queues, flavors and pods."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import (
    ClusterTarget,
    connect,
    run_async,
    system_namespace_option,
    with_target,
)
from multiqueue.cli.kueuectl.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    POD,
    RESOURCE_FLAVOR,
    WORKLOAD,
    KindGroup,
    KueuectlKind,
)
from multiqueue.cli.kueuectl.options import (
    all_namespaces_option,
    for_option,
    list_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multiqueue.cli.kueuectl.lists import ListQuery
    from multiqueue.kube.client import KubeClient

    Json = dict[str, Any]

STATUSES = ["all", "pending", "quotareserved", "admitted", "finished"]
_of_cluster_queue = click.option(
    "-c",
    "--clusterqueue",
    default="",
    metavar="NAME",
    shell_complete=names_of("clusterqueues"),
    help="Only those of this ClusterQueue.",
)


@click.command("clusterqueue")
@click.option(
    "--active",
    is_flag=False,
    flag_value="true",
    default="",
    type=click.Choice(["true", "false", ""]),
    metavar="true|false",
    help="Only those that can admit, or that cannot. Without a value it is true.",
)
@list_options
@with_target
def list_cluster_queues(*, target: ClusterTarget, active: str, **options: Any) -> None:
    """List ClusterQueues with their counts of Workloads."""

    def is_wanted(queue: Json) -> bool:
        from multiqueue.cli.kueuectl.tables import is_active

        return not active or is_active(queue) is (active == "true")

    run_async(list_kind(target, CLUSTER_QUEUE, options, is_wanted=is_wanted))


@click.command("localqueue")
@_of_cluster_queue
@all_namespaces_option
@list_options
@with_target
def list_local_queues(
    *, target: ClusterTarget, clusterqueue: str, all_namespaces: bool, **options: Any
) -> None:
    """List LocalQueues with their counts of Workloads."""

    def is_wanted(queue: Json) -> bool:
        return clusterqueue in {"", queue["spec"].get("clusterQueue")}

    run_async(
        list_kind(target, LOCAL_QUEUE, options, all_namespaces=all_namespaces, is_wanted=is_wanted)
    )


@click.command("resourceflavor")
@list_options
@with_target
def list_resource_flavors(*, target: ClusterTarget, **options: Any) -> None:
    """List ResourceFlavors with the labels of their nodes."""
    run_async(list_kind(target, RESOURCE_FLAVOR, options))


@click.command("workload")
@_of_cluster_queue
@click.option(
    "-q",
    "--localqueue",
    default="",
    metavar="NAME",
    shell_complete=names_of("localqueues"),
    help="Only those of this LocalQueue.",
)
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(STATUSES, case_sensitive=False),
    help="Only those with this status; may be repeated.",
)
@for_option()
@all_namespaces_option
@list_options
@with_target
def list_workloads(
    *,
    target: ClusterTarget,
    clusterqueue: str,
    localqueue: str,
    status: tuple[str, ...],
    for_object: str,
    all_namespaces: bool,
    **options: Any,
) -> None:
    """List Workloads with job, queue, status and position; -o wide adds phase and worker.

    The position counts from 0, as in kueuectl; that of "queue" counts from 1.
    """
    from multiqueue.cli.kueuectl.workload_list import WorkloadFilter, list_workloads

    wanted = WorkloadFilter(
        cluster_queue=clusterqueue, local_queue=localqueue, statuses=status, for_object=for_object
    )

    async def show() -> None:
        async with connect(target) as (client, namespace):
            query = _query(None if all_namespaces else namespace, **options)
            await list_workloads(client, query, wanted)

    run_async(show())


@click.command("pods")
@for_option(required=True)
@all_namespaces_option
@list_options
@system_namespace_option
@with_target
def list_pods(
    *,
    target: ClusterTarget,
    for_object: str,
    all_namespaces: bool,
    system_namespace: str,
    **options: Any,
) -> None:
    """List the pods of a job, also those on its worker.

    With --for pod/NAME: the pods of the group of that pod.
    """
    from multiqueue.cli.kueuectl.pod_list import list_pods_of

    async def show() -> None:
        async with connect(target) as (client, namespace):
            query = _query(None if all_namespaces else namespace, **options)
            await list_pods_of(client, query, for_object, system_namespace)

    run_async(show())


async def list_kind(
    target: ClusterTarget,
    kind: KueuectlKind,
    options: Mapping[str, Any],
    *,
    all_namespaces: bool = False,
    is_wanted: Callable[[Json], bool] = lambda _: True,
) -> None:
    """Print the objects of a kind, as the options of `list_options` say."""
    from multiqueue.cli.kueuectl.lists import list_objects, print_objects, print_rows

    async with connect(target) as (client, namespace):
        chosen = namespace if kind.namespaced and not all_namespaces else None
        query = _query(chosen, **options)
        if query.watch:
            await _watch(client, kind, query, is_wanted, with_namespace=all_namespaces)
            return
        objects = [each for each in await list_objects(client, kind, query) if is_wanted(each)]
    if query.output not in {"human", "wide"}:
        print_objects(kind.resource, objects, query.output)
    elif not objects:
        query.say_none()
    else:
        headers, row = _table(kind)
        now = datetime.now(UTC)
        rows = [row(each, now) for each in objects]
        wide = query.output == "wide"
        print_rows(headers, rows, objects, with_namespace=all_namespaces, wide=wide)


async def _watch(
    client: KubeClient,
    kind: KueuectlKind,
    query: ListQuery,
    is_wanted: Callable[[Json], bool],
    *,
    with_namespace: bool,
) -> None:
    from multiqueue.cli.kueuectl.watching import ChangePrinter, follow

    headers, row = _table(kind)
    printer = ChangePrinter(kind, query, headers, with_namespace=with_namespace)
    async with aclosing(follow(client, kind, query)) as changes:
        async for changed in changes:
            objects = [each for each in changed if is_wanted(each)]
            printer.print(objects, [row(each, datetime.now(UTC)) for each in objects])


def _table(kind: KueuectlKind) -> tuple[tuple[str, ...], Callable[[Json, datetime], list[Any]]]:
    from multiqueue.cli.kueuectl import tables

    return {
        CLUSTER_QUEUE: (tables.CLUSTER_QUEUE_HEADERS, tables.cluster_queue_row),
        LOCAL_QUEUE: (tables.LOCAL_QUEUE_HEADERS, tables.local_queue_row),
        RESOURCE_FLAVOR: (tables.RESOURCE_FLAVOR_HEADERS, tables.resource_flavor_row),
    }[kind]


def _query(namespace: str | None, **options: Any) -> ListQuery:
    from multiqueue.cli.kueuectl.lists import ListQuery

    return ListQuery(namespace=namespace, **options)


command = KindGroup(
    "list",
    help_="List Workloads, queues, flavors, or the pods of a job.",
    kinds={
        WORKLOAD: list_workloads,
        LOCAL_QUEUE: list_local_queues,
        CLUSTER_QUEUE: list_cluster_queues,
        RESOURCE_FLAVOR: list_resource_flavors,
        POD: list_pods,
    },
)
