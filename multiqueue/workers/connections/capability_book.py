"""Publishes what the workers can do: one ConfigMap in the manager's namespace, a key per worker.

MultiKueueClusters have no field for it (their schema is upstream's). The ConfigMap is written after
changes, at most once every few seconds, however many workers come and go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import structlog

from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, KubeError, NotFound
from multiqueue.kube.resources import CONFIG_MAPS
from multiqueue.workers.connections.capabilities import (
    CONFIG_MAP,
    Discovery,
    build_capabilities,
    discover,
)
from multiqueue.workers.connections.fleet import Fleet, FleetListener
from multiqueue.workers.connections.session import WorkerSession

PAUSE_SECONDS = 5.0
"""Pause between two writes, and between two checks after a change."""
DISCOVER_SECONDS = 10.0
"""Longest time for one worker to answer questions about itself."""

log = structlog.get_logger("multiqueue.dispatch")


class CapabilityBook:
    """Keeps the ConfigMap up to date.

    Args:
        context: The manager's context.
        fleet: The workers.
    """

    name = "multikueue-capabilities"

    def __init__(self, context: ManagerContext, fleet: Fleet) -> None:
        self._context = context
        self._fleet = fleet
        self._changed = asyncio.Event()
        self._known: dict[str, tuple[WorkerSession, Discovery]] = {}
        self._written: dict[str, str] = {}
        fleet.add_listener(
            FleetListener(
                on_remote=lambda _: None,
                on_connection=lambda _: self._changed.set(),
                on_room=self._changed.set,
            )
        )

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.publish()
            except KubeError as error:
                log.warning("capabilities of workers not written, retrying", error=str(error))
                self._changed.set()
            await asyncio.sleep(PAUSE_SECONDS)

    async def publish(self) -> None:
        """Write what changed since the last time.

        The entry of an unreachable worker stays; the entry of a removed worker is deleted.

        Raises:
            KubeError: The manager's own API server failed.
        """
        connections = self._fleet.connections
        async with asyncio.TaskGroup() as tasks:
            for connection in connections:
                if connection.session is not None:
                    tasks.create_task(self._discover(connection.name, connection.session))
        names = {connection.name for connection in connections}
        data: dict[str, str | None] = {n: None for n in self._written if n not in names}
        for name, (session, discovery) in self._known.items():
            text = self._render(session, discovery)
            if name in names and self._written.get(name) != text:
                data[name] = text
        if data:
            await write_entries(self._context.client, self._context.config.namespace, data)
        for name, new in data.items():
            if new is None:
                self._written.pop(name, None)
                self._known.pop(name, None)
            else:
                self._written[name] = new

    async def _discover(self, name: str, session: WorkerSession) -> None:
        """Ask a worker once per session."""
        known = self._known.get(name)
        if known is not None and known[0] is session:
            return
        try:
            async with asyncio.timeout(DISCOVER_SECONDS):
                found = await discover(session.client)
        except (KubeError, TimeoutError) as error:
            log.info("worker does not say what it can do", worker=name, error=str(error))
        except Exception:  # an answer of one worker must not keep the others from being published
            log.exception("worker does not say what it can do", worker=name)
        else:
            self._known[name] = (session, found)
            info = self._context.metrics.worker_info
            info.forget(cluster=name)
            info.child(name, found.program, next(iter(found.versions), ""), found.kubernetes).set(1)

    def _render(self, session: WorkerSession, discovery: Discovery) -> str:
        served = [a.gvk for a in self._fleet.adapters if session.serves(a.gvk)]
        flavors = session.informers.flavors.store.list()
        shown = build_capabilities(discovery, [kind.dotted for kind in served], flavors)
        return orjson.dumps(shown).decode()


async def write_entries(client: KubeClient, namespace: str, data: Mapping[str, str | None]) -> None:
    """Change entries of the ConfigMap; None removes one.

    Raises:
        KubeError: The API server refuses it, or cannot be asked.
    """
    try:
        await client.patch(CONFIG_MAPS, CONFIG_MAP, {"data": data}, namespace=namespace)
    except NotFound:
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": namespace},
            "data": {key: value for key, value in data.items() if value is not None},
        }
        try:
            await client.create(CONFIG_MAPS, body)
        except AlreadyExists:
            await client.patch(CONFIG_MAPS, CONFIG_MAP, {"data": data}, namespace=namespace)
