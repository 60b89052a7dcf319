"""Finds our objects on the workers that belong to nothing on the manager any more.

All our objects are found by their origin label, whatever owns them: upstream follows owner
references and so leaves objects without any behind (M-173, M-154, I-4). Workloads are left to the
reconciler, which reconciles each one found here. A job that names no Workload is deleted here once
the job of the same name on the manager is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import structlog

from multiqueue.api.names import key_of
from multiqueue.dispatch.execute.worker_writes import RemoteWriter
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.workers.connections.fleet import Fleet, FleetListener
from multiqueue.workers.connections.session import WorkerSession

Json = dict[str, Any]
PAUSE_SECONDS = 1.0
"""Shortest pause between two passes, however often workers come and go."""

log = structlog.get_logger("multiqueue.dispatch.garbage_collector")


class GarbageCollector:
    """Checks the objects on all connected workers.

    Args:
        context: The manager's context.
        fleet: The workers.
        enqueue: Asks for a reconcile of a Workload.
    """

    name = "multikueue-gc"

    def __init__(
        self, context: ManagerContext, fleet: Fleet, *, enqueue: Callable[[str], None]
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._enqueue = enqueue
        self._connected = asyncio.Event()
        fleet.add_listener(
            FleetListener(
                on_remote=lambda _: None,
                on_connection=lambda _: self._connected.set(),
                on_room=lambda: None,
            )
        )

    async def run(self) -> None:
        """Check all workers again and again, until cancelled."""
        interval = self._context.config.multi_kueue.gc_interval.total_seconds()
        if interval <= 0:
            await asyncio.get_running_loop().create_future()
        while True:
            self._connected.clear()
            await self.collect()
            await asyncio.sleep(min(PAUSE_SECONDS, interval))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._connected.wait()

    async def collect(self) -> None:
        """Check all connected workers once."""
        for connection in self._fleet.connections:
            if connection.session is None:
                continue
            try:
                await self._collect_on(connection.session)
            except Exception:  # an error on one worker must not keep the others from being checked
                log.exception("garbage collection failed", worker=connection.name)

    async def _collect_on(self, session: WorkerSession) -> None:
        store = self._context.informers.workloads.store
        for key in session.copy_keys:
            local = store.get(key)
            if local is None or local.metadata.deletion_timestamp:
                self._enqueue(key)
        for adapter in tuple(self._fleet.adapters):
            for job in session.list_jobs(adapter):
                await self._look_at_job(session, adapter, job)

    async def _look_at_job(
        self, session: WorkerSession, adapter: MultiKueueAdapter, job: Json
    ) -> None:
        metadata = job["metadata"]
        namespace, job_name = metadata.get("namespace", ""), metadata["name"]
        workload = adapter.workload_name(job)
        if workload is not None:
            if key_of(namespace, workload) not in self._context.informers.workloads.store:
                self._enqueue(key_of(namespace, workload))
            return
        try:
            await self._context.client.get(adapter.resource, job_name, namespace=namespace)
        except NotFound:
            writer = RemoteWriter(session)
            session.submit(
                "collect", key_of(namespace, job_name), lambda: writer.delete_job(adapter, job)
            )
        except KubeError as error:
            log.warning("cannot look for a job", job=job_name, error=str(error))
