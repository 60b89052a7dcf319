"""Finds jobs of others on the workers that have the name of a job that is tried out.

A job that is really dispatched finds them when it is created there. A worker that does not answer
in time is left out of the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from multiqueue.api.names import split_key
from multiqueue.dispatch.execute.worker_writes import RemoteWriter
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.errors import KubeError
from multiqueue.workers.connections.fleet import Fleet
from multiqueue.workers.connections.session import WorkerSession

PATIENCE_SECONDS = 1.0
"""People wait for the answer; workers answer in milliseconds."""

log = structlog.get_logger("multiqueue.dispatch")


async def find_collisions(fleet: Fleet, seen: Observation) -> Mapping[str, str]:
    """Ask every worker that could take a job whether another job there has its name.

    Args:
        fleet: The workers.
        seen: The observation of the job, as if it existed.

    Returns:
        By cluster, why the job cannot be created there; clusters without a known reason are left
        out.
    """
    if seen.adapter is None or seen.job is None:
        return {}
    namespace, _ = split_key(seen.view.key)
    name = seen.job["metadata"]["name"]
    open_to_it = [
        (state.name, session)
        for state in seen.view.clusters
        if state.reachable and not state.refusal
        if (session := fleet.find_session(state.name)) is not None
    ]
    found: list[Any] = await asyncio.gather(
        *(_ask(session, seen.adapter, namespace, name) for _, session in open_to_it)
    )
    return {cluster: why for (cluster, _), why in zip(open_to_it, found, strict=True) if why}


async def _ask(
    session: WorkerSession, adapter: MultiKueueAdapter, namespace: str, name: str
) -> str:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await RemoteWriter(session).find_stranger(adapter, namespace, name)
    except (KubeError, TimeoutError) as error:
        log.debug("worker not asked for a job", job=f"{namespace}/{name}", error=str(error))
        return ""
