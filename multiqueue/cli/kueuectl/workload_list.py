"""``list workload``: which Workloads are wanted, and what their rows need."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import orjson

from multiqueue.api.names import key_of, split_key
from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.job_names import decode_workload, is_owned_by
from multiqueue.cli.kueuectl import tables
from multiqueue.cli.kueuectl.kinds import WORKLOAD
from multiqueue.cli.kueuectl.lists import ListQuery, find_for_object, print_objects, print_rows
from multiqueue.cli.kueuectl.options import request_limit
from multiqueue.cli.queue_objects import QueueObjects
from multiqueue.cli.visibility import read_local_queue
from multiqueue.kube.client import KubeClient

Json = dict[str, Any]
ListedWorkload = tuple[Json, Workload]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFilter:
    """Which Workloads are wanted; empty fields want all."""

    cluster_queue: str
    local_queue: str
    statuses: tuple[str, ...]
    for_object: str


async def list_workloads(client: KubeClient, query: ListQuery, wanted: WorkloadFilter) -> None:
    """Print the Workloads that are wanted, and with ``-w`` each that changes.

    Deviates: upstream lists those that wait only without a ClusterQueue; here, the ClusterQueue of
    their LocalQueue counts.
    """
    owner = None
    if wanted.for_object:
        owner = await find_for_object(client, wanted.for_object, query.namespace)
        if owner is None:
            query.say_none()
            return
    uid = owner["metadata"]["uid"] if owner is not None else ""
    if query.watch:
        await _watch(client, query, wanted, uid)
        return
    queues, listed = await asyncio.gather(_read_queues(client, query), _list(client, query))
    found = [each for each in listed if _is_wanted(each[1], wanted, queues, uid)]
    objects = [obj for obj, _ in found]
    if query.output not in {"human", "wide"}:
        print_objects(WORKLOAD.resource, objects, query.output)
    elif not found:
        query.say_none()
    else:
        wide = query.output == "wide"
        rows = await _make_rows(client, queues, [workload for _, workload in found], wide=wide)
        headers = _headers(query)
        print_rows(headers, rows, objects, with_namespace=query.namespace is None, wide=wide)


async def _watch(
    client: KubeClient, query: ListQuery, wanted: WorkloadFilter, owner_uid: str
) -> None:
    """Print those that are wanted, then each that changes; queues and positions are read again."""
    from multiqueue.cli.kueuectl.watching import ChangePrinter, follow, in_batches

    with_namespace = query.namespace is None
    printer = ChangePrinter(WORKLOAD, query, _headers(query), with_namespace=with_namespace)
    async with aclosing(in_batches(follow(client, WORKLOAD, query))) as batches:
        async for batch in batches:
            queues = await _read_queues(client, query)
            found = [
                (obj, workload)
                for obj in batch
                if _is_wanted(
                    workload := decode_workload(orjson.dumps(obj)), wanted, queues, owner_uid
                )
            ]
            workloads = [workload for _, workload in found] if printer.has_rows else []
            wide = query.output == "wide"
            rows = await _make_rows(client, queues, workloads, wide=wide)
            printer.print([obj for obj, _ in found], rows)


def _is_wanted(
    workload: Workload, wanted: WorkloadFilter, queues: QueueObjects, owner_uid: str
) -> bool:
    return (
        wanted.local_queue in {"", workload.spec.queue_name}
        and wanted.cluster_queue in {"", queues.cluster_queue_of(workload)}
        and tables.has_status(workload, wanted.statuses)
        and (not owner_uid or is_owned_by(workload, owner_uid))
    )


async def _read_queues(client: KubeClient, query: ListQuery) -> QueueObjects:
    queues = QueueObjects(now=datetime.now(UTC), namespace=query.namespace or "")
    await queues.list(client, "local_queues", namespace=query.namespace)
    return queues


async def _list(client: KubeClient, query: ListQuery) -> list[ListedWorkload]:
    listed = await client.list(
        WORKLOAD.resource,
        namespace=query.namespace,
        label_selector=query.selector,
        field_selector=query.field_selector,
        limit=request_limit(),
        decode=lambda data: (orjson.loads(data), decode_workload(data)),
    )
    head = {"apiVersion": WORKLOAD.resource.api_version, "kind": WORKLOAD.kind}
    return [({**head, **obj}, workload) for obj, workload in listed.items]


def _headers(query: ListQuery) -> tuple[str, ...]:
    wide = tables.WIDE_WORKLOAD_HEADERS if query.output == "wide" else ()
    return (*tables.WORKLOAD_HEADERS, *wide)


async def _make_rows(
    client: KubeClient, queues: QueueObjects, workloads: list[Workload], *, wide: bool
) -> list[list[Any]]:
    positions = await _read_positions(client, workloads)
    return [
        tables.workload_row(
            each, queues.cluster_queue_of(each), positions.get(each.metadata.key), queues.now
        )
        + (tables.wide_cells(each) if wide else [])
        for each in workloads
    ]


async def _read_positions(client: KubeClient, workloads: list[Workload]) -> dict[str, int]:
    """Return the positions in their LocalQueues of those that wait; they count from 1."""
    waiting = [each for each in workloads if tables.find_status(each) == "pending"]
    keys = {key_of(each.metadata.namespace, each.spec.queue_name) for each in waiting}
    answers = await asyncio.gather(
        *(read_local_queue(client, *split_key(key)) for key in sorted(keys))
    )
    for problem in dict.fromkeys(answer.problem for answer in answers if answer.problem):
        click.echo(f"note: {problem}", err=True)
    return {key: place.in_local_queue for answer in answers for key, place in answer.by_key.items()}
