"""An embedded cluster in this process: an API server with our CRDs.

Simulated nodes and a manager are optional.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from multiqueue.api.config import Configuration
from multiqueue.api.conversion.convert import converters
from multiqueue.api.crd import load_crds
from multiqueue.api.crd.autoscaling import provisioning_request_crd
from multiqueue.embedded.cluster.cluster import SimCluster, SimOptions
from multiqueue.embedded.cluster.pod_logs import read_log
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import NotFound
from multiqueue.kube.events import EventRecorder
from multiqueue.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from multiqueue.runtime.components import TaskScope, open_scope
from multiqueue.runtime.files import write_yaml
from multiqueue.runtime.manager import Manager
from multiqueue.runtime.manifests import apply_all, create_missing
from multiqueue.runtime.preconditions import tune_garbage_collector
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """The parts of an embedded cluster.

    Attributes:
        name: The cluster's name in its kubeconfig and in logs.
        data_dir: The folder in which the API server keeps its objects; None: in memory.
        port: The port of the API server; 0 takes a free one.
        kubeconfig: The path for the administrator's kubeconfig; None: not written.
        crds: CustomResourceDefinitions beside our own.
        objects: Objects to create if they are missing, before simulation and manager start.
        secrets: Secrets to apply at the same time. They replace those of an earlier run, because
            they contain addresses of this run.
        simulation: The nodes and their pace; None: no nodes, so no pod runs.
        manager: The configuration of a manager in this process; None: no manager.
    """

    name: str = "multiqueue"
    data_dir: Path | None = None
    port: int = 0
    kubeconfig: Path | None = None
    crds: Sequence[Mapping[str, Any]] = ()
    objects: Sequence[Mapping[str, Any]] = ()
    secrets: Sequence[Mapping[str, Any]] = ()
    simulation: SimOptions | None = None
    manager: Configuration | None = None


class EmbeddedCluster:
    """A cluster that exists while `run` runs.

    Attributes:
        kubeconfig: The administrator's kubeconfig, once `started` is set.
        started: Set once the API server answers and holds the initial objects.
        ready: Set once the simulated nodes are Ready and the manager leads.
    """

    def __init__(self, options: EmbeddedOptions) -> None:
        self.name = f"cluster {options.name}"
        self.options = options
        self.kubeconfig: dict[str, Any] = {}
        self.url = ""
        self.started = asyncio.Event()
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Run the server, the simulation and the manager until cancelled."""
        structlog.contextvars.bind_contextvars(cluster=self.options.name)
        async with self._serve() as credentials, KubeClient(credentials) as client:
            if self.options.objects:
                await _forget_webhooks(client)
                await create_missing(client, self.options.objects)
                await apply_all(client, self.options.secrets)
            tune_garbage_collector()
            self.started.set()
            async with open_scope() as scope:
                if self.options.simulation is not None:
                    await self._simulate(scope, client, self.options.simulation)
                if self.options.manager is not None:
                    manager = Manager(self.options.manager, credentials)
                    scope.start(manager)
                    await manager.until_at_work()
                self.ready.set()
                await asyncio.Event().wait()

    @contextlib.asynccontextmanager
    async def _serve(self) -> AsyncIterator[Credentials]:
        options = self.options
        # In a real cluster, the autoscaler brings the kind; here the simulation replaces it.
        autoscaling = [provisioning_request_crd()] if options.simulation is not None else []
        server_options = ServerOptions(
            port=options.port,
            data_dir=options.data_dir,
            crds=[*load_crds(), *autoscaling, *options.crds],
            converters=converters(),
            pod_log=read_log,
        )
        async with ApiServer(server_options) as server:
            self.url = server.url
            self.kubeconfig = server.kubeconfig(name=options.name)
            if options.kubeconfig is not None:
                await asyncio.to_thread(write_yaml, options.kubeconfig, self.kubeconfig)
            yield await Credentials.from_kubeconfig_dict(self.kubeconfig)

    async def _simulate(self, scope: TaskScope, client: KubeClient, options: SimOptions) -> None:
        recorder = EventRecorder(client, "multiqueue-simcluster")
        simulation = SimCluster(client, options, recorder=recorder)
        scope.create_task(recorder.run(), name="sim-events")
        scope.start(simulation)
        await simulation.wait_until_ready()


async def _forget_webhooks(client: KubeClient) -> None:
    """Delete webhook registrations of an earlier run, which would block every request."""
    for resource, name in (
        (MUTATING_WEBHOOKS, MUTATING_NAME),
        (VALIDATING_WEBHOOKS, VALIDATING_NAME),
    ):
        with contextlib.suppress(NotFound):
            await client.delete(resource, name)
