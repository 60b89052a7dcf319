"""A control plane and the controllers of a queue in this process, for integration tests.

`QueueCluster` is the API server with a client and informers to look at it;
`QueueCluster.manager()` runs the controllers as a manager would, as its ServiceAccount; ending it
is as good as killing one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.api.conversion.convert import converters
from multiqueue.api.crd import load_crds
from multiqueue.api.v1beta2 import Workload
from multiqueue.controllers.declared.catalog import DeclaredKinds
from multiqueue.controllers.declared.controller import DeclaredJobs
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.controllers.notifications.late_starts import FindStart
from multiqueue.controllers.setup import build_controllers, build_notifications
from multiqueue.embedded.cluster.pod_logs import read_log
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.jobs.context import Informers, ManagerContext
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.setup import build_registry
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.events import EventRecorder
from multiqueue.kube.resources import Resource
from multiqueue.kube.sender import SendOutcome
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.runtime.manifests import create_missing
from multiqueue.runtime.preconditions import list_informers
from tests.builders.workloads import NAMESPACE
from tests.integration.waiting import until
from tests.least_privilege import MANAGER_TOKEN, TOKENS, audit_sink, kubeconfig_of, rbac_objects
from tests.virtual_time import loop_clock
from tests.waiting import Changes

CONFIG = Configuration(namespace="kueue-system")


class QueueCluster:
    """A cluster as a test sees it; ``credentials`` are the manager's, ``client`` may do all."""

    def __init__(
        self,
        server: ApiServer,
        credentials: Credentials,
        client: KubeClient,
        config: Configuration = CONFIG,
        kinds: Sequence[SupportedKind] = (),
    ) -> None:
        self.config, self.kinds = config, tuple(kinds)
        self.server = server
        self.credentials = credentials
        self.client = client
        self.informers: Informers = build_informers(client, config, build_registry(config, *kinds))
        self.changes = Changes(
            self.informers.workloads,
            *self.informers.jobs.values(),
            self.informers.cluster_queues,
            self.informers.local_queues,
            self.informers.resource_flavors,
            self.informers.job_kinds,
        )
        self.writes: list[SendOutcome] = []

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        return await self.client.create(resource, obj)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        return await self.client.patch(
            resource, name, patch, namespace=namespace, subresource=subresource
        )

    def job(self, name: str) -> dict[str, Any] | None:
        return self.informers.jobs["batch/job"].store.get(f"{NAMESPACE}/{name}")

    def workload_of(self, job_name: str) -> Workload | None:
        """The Workload of a job, by owner reference."""
        for workload in self.informers.workloads.store.list():
            for owner in workload.metadata.owner_references:
                if owner.name == job_name:
                    return workload
        return None

    async def events(self) -> list[tuple[str, str, str]]:
        """(kind, name, reason) of all Events."""
        found = await self.client.list(resources.EVENTS)
        return [_read_event(e) for e in found.items]

    async def until_event(self, kind: str, name: str, reason: str) -> None:
        """Wait for an Event: it is written some time after what it tells of."""
        told = kind, name, reason
        await until(
            self.client, resources.EVENTS, lambda all_: told in [_read_event(e) for e in all_]
        )

    @contextlib.asynccontextmanager
    async def manager(
        self,
        config: Configuration | None = None,
        *,
        clock: Clock | None = None,
        client_type: type[KubeClient] = KubeClient,
        find_start: FindStart | None = None,
    ) -> AsyncIterator[ManagerContext]:
        """Run the controllers while the block runs."""
        config = config or self.config
        clock = clock or loop_clock()
        async with client_type(self.credentials, on_outcome=self.on_outcome) as client:
            registry = build_registry(config, *self.kinds)
            informers = build_informers(client, config, registry)
            context = ManagerContext(
                client=client,
                informers=informers,
                writer=WorkloadWriter(client, informers.workloads),
                recorder=EventRecorder(client, "kueue-admission", clock=clock),
                clock=clock,
                metrics=ManagerMetrics(),
                config=config,
                integrations=registry,
            )
            declared = DeclaredKinds(context)
            runnables = [
                *build_controllers(context, build_engine(config)),
                *build_notifications(context, find_start),
                DeclaredJobs(context, declared, dispatches=False),
            ]
            async with tasks() as start:
                start(context.recorder.run())
                for informer in list_informers(informers):
                    start(informer.run())
                start(declared.run())
                await declared.ready.wait()
                for runnable in runnables:
                    start(runnable.run())
                yield context

    def on_outcome(self, outcome: SendOutcome) -> None:
        if outcome.method != "GET":
            self.writes.append(outcome)


@contextlib.asynccontextmanager
async def queue_cluster(
    *,
    crds: Sequence[Mapping[str, Any]] = (),
    clock: Clock | None = None,
    config: Configuration = CONFIG,
    kinds: Sequence[SupportedKind] = (),
) -> AsyncIterator[QueueCluster]:
    """Start an API server with our CRDs, and more of them, and a namespace.

    Args:
        crds: More CRDs.
        clock: The server's clock.
        config: Enables the kinds of jobs whose objects are watched.
        kinds: Kinds of jobs that are not built in.
    """
    options = ServerOptions(
        crds=[*load_crds(), *crds],
        converters=converters(),
        tls=False,
        clock=clock or loop_clock(),
        tokens=TOKENS,
        audit=audit_sink(),
        pod_log=read_log,
    )
    async with ApiServer(options) as server:
        credentials = await Credentials.from_kubeconfig_dict(server.kubeconfig())
        manager = kubeconfig_of(server.kubeconfig(), MANAGER_TOKEN)
        manager_credentials = await Credentials.from_kubeconfig_dict(manager)
        async with KubeClient(credentials) as client:
            cluster = QueueCluster(server, manager_credentials, client, config, kinds)
            async with tasks() as start:
                for informer in list_informers(cluster.informers):
                    start(informer.run())
                for name in (NAMESPACE, CONFIG.namespace):
                    await cluster.create(
                        resources.NAMESPACES,
                        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
                    )
                await create_missing(client, list(rbac_objects()))
                yield cluster


def _read_event(event: Mapping[str, Any]) -> tuple[str, str, str]:
    regarding = event["involvedObject"]
    return regarding["kind"], regarding["name"], event["reason"]


@contextlib.asynccontextmanager
async def tasks() -> AsyncIterator[Any]:
    """Tasks that are cancelled with the block; one that fails fails the block."""
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Any]] = []
        try:
            yield lambda coroutine: tasks.append(group.create_task(coroutine))
        finally:
            for task in tasks:
                task.cancel()
