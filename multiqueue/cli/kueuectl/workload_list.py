"""``list workload``: which Workloads are wanted, and what their rows need."""

from __future__ import annotations

import asyncio
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
    """Print the Workloads that are wanted.

    Deviates: upstream lists those that wait only without a ClusterQueue; here, the ClusterQueue of
    their LocalQueue counts.
    """
    owner = None
    if wanted.for_object:
        owner = await find_for_object(client, wanted.for_object, query.namespace)
        if owner is None:
            query.say_none()
            return
    queues = QueueObjects(now=datetime.now(UTC), namespace=query.namespace or "")
    listed, _ = await asyncio.gather(
        _list(client, query),
        queues.list(client, "local_queues", namespace=query.namespace),
    )
    found = [
        (obj, workload)
        for obj, workload in listed
        if wanted.local_queue in {"", workload.spec.queue_name}
        and wanted.cluster_queue in {"", queues.cluster_queue_of(workload)}
        and tables.has_status(workload, wanted.statuses)
        and (owner is None or is_owned_by(workload, owner["metadata"]["uid"]))
    ]
    if query.output not in {"human", "wide"}:
        print_objects(WORKLOAD.resource, [obj for obj, _ in found], query.output)
    elif not found:
        query.say_none()
    else:
        await _print(client, query, queues, found)


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


async def _print(
    client: KubeClient, query: ListQuery, queues: QueueObjects, found: list[ListedWorkload]
) -> None:
    workloads = [workload for _, workload in found]
    positions = await _read_positions(client, workloads)
    wide = query.output == "wide"
    headers: tuple[str, ...] = tables.WORKLOAD_HEADERS
    headers += tables.WIDE_WORKLOAD_HEADERS if wide else ()
    rows = [
        tables.workload_row(
            each, queues.cluster_queue_of(each), positions.get(each.metadata.key), queues.now
        )
        + (tables.wide_cells(each) if wide else [])
        for each in workloads
    ]
    objects = [obj for obj, _ in found]
    print_rows(headers, rows, objects, with_namespace=query.namespace is None, wide=wide)


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
