"""The Workload of the job that has a name now: a former job's Workload may outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime

from msgspec.structs import replace

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload, format_time
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import WORKLOADS, resource_of

WAIT_SECONDS = 5.0
"""How long a new job's Workload is waited for: managers make it within a second."""


def decode_workload(data: bytes) -> Workload:
    """Decode a Workload."""
    return decode(Workload, data)


async def find_current(
    client: KubeClient, workload: Workload, name: str, *, wait_seconds: float = WAIT_SECONDS
) -> Workload | None:
    """Return the Workload of the job that is called ``name`` now.

    Args:
        client: The cluster's client.
        workload: A Workload of a job of that kind and name.
        name: The name of the job.
        wait_seconds: How long to wait if the job that has the name now has no Workload yet.

    Returns:
        The given Workload if its job exists, if no job has its name, or if the user may not read
        the job. Otherwise, that of the job that exists; None if it has none.
    """
    namespace = workload.metadata.namespace
    uid = await _find_other_uid(client, workload, name)
    if not uid:
        return workload
    return await await_workload(
        client, namespace, lambda each: is_owned_by(each, uid), seconds=wait_seconds
    )


async def _find_other_uid(client: KubeClient, workload: Workload, name: str) -> str:
    """Return the uid of the job that has the name of a Workload's job; empty if it is that job."""
    for owner in workload.metadata.owner_references:
        row = find_job_kind(owner.api_version, owner.kind)
        if owner.name != name or row is None:
            continue
        resource = resource_of(owner.api_version, row.plural, row.kind)
        try:
            job = await client.get(resource, name, namespace=workload.metadata.namespace)
        except (Forbidden, NotFound):
            return ""
        uid: str = job["metadata"]["uid"]
        return "" if is_owned_by(workload, uid) else uid
    return ""


def is_owned_by(workload: Workload, uid: str) -> bool:
    """Whether an object with that uid owns a Workload."""
    return any(owner.uid == uid for owner in workload.metadata.owner_references)


async def await_workload(
    client: KubeClient,
    namespace: str,
    is_meant: Callable[[Workload], bool],
    *,
    seconds: float | None,
) -> Workload | None:
    """Return the first Workload of a namespace that is meant; None if none comes in time."""
    try:
        async with asyncio.timeout(seconds), aclosing(_watch(client, namespace)) as workloads:
            async for workload in workloads:
                if is_meant(workload):
                    return workload
    except TimeoutError:
        pass
    return None


async def _watch(client: KubeClient, namespace: str) -> AsyncGenerator[Workload, None]:
    """Yield the Workloads of a namespace, then each that changes; one that goes has a deletion."""
    while True:
        listed = await client.list(WORKLOADS, namespace=namespace, decode=decode_workload)
        for workload in listed.items:
            yield workload
        events = client.watch(
            WORKLOADS, namespace=namespace, resource_version=listed.resource_version
        )
        async with aclosing(events):
            async for event in events:
                if event.type == "BOOKMARK":
                    continue
                workload = decode_workload(event.raw)
                metadata = workload.metadata
                if event.type == "DELETED" and not metadata.deletion_timestamp:
                    gone = replace(metadata, deletion_timestamp=format_time(datetime.now(UTC)))
                    workload = replace(workload, metadata=gone)
                yield workload
