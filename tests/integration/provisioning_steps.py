"""A queue whose jobs wait for capacity, and what can be seen of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.api.crd.autoscaling import provisioning_request_crd
from multiqueue.api.v1beta2 import AdmissionCheckState, Workload
from multiqueue.api.workload_checks import find_check
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.waiting import Object, simulation, until, until_one
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import LoopClock

CHECK = "prov"
CLASS = "check-capacity.autoscaling.x-k8s.io"
HOUR = 3600.0


def make_config(name: str = "config", **spec: Any) -> Object:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "ProvisioningRequestConfig",
        "metadata": {"name": name},
        "spec": {"provisioningClassName": CLASS, **spec},
    }


def make_provisioning_check(name: str = CHECK, *, config: str = "config") -> Object:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {
            "controllerName": names.PROVISIONING_REQUEST_CONTROLLER,
            "parameters": {
                "apiGroup": names.GROUP,
                "kind": "ProvisioningRequestConfig",
                "name": config,
            },
        },
    }


class ProvisioningWorld:
    """A cluster with simulated nodes and autoscaler, and a queue with a provisioning check."""

    def __init__(self, cluster: QueueCluster, clock: LoopClock) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.clock = clock

    def manager(
        self, config: Configuration = CONFIG
    ) -> Any:  # an async context manager of a ManagerContext
        return self.cluster.manager(config, clock=self.clock)

    async def submit(self, name: str = "train", **job: Any) -> None:
        await self.client.create(resources.JOBS, make_job(name, **job))

    async def until_workload(
        self, holds: Callable[[Workload], Any], what: str, *, job: str = "train"
    ) -> Workload:
        def found() -> Workload | None:
            workload = self.cluster.workload_of(job)
            return workload if workload is not None and holds(workload) else None

        return await self.cluster.changes.until(found, what, seconds=HOUR)

    async def until_check(self, state: str, *, job: str = "train") -> AdmissionCheckState:
        def reached(workload: Workload) -> bool:
            check = find_check(workload.status, CHECK)
            return check is not None and check.state == state

        workload = await self.until_workload(reached, f"check {state}", job=job)
        check = find_check(workload.status, CHECK)
        assert check is not None
        return check

    async def until_requests(self, holds: Callable[[list[Object]], bool]) -> list[Object]:
        return await until(
            self.client,
            resources.PROVISIONING_REQUESTS,
            holds,
            namespace=NAMESPACE,
            seconds=HOUR,
        )

    async def until_request(
        self, suffix: str, holds: Callable[[Object], bool] = lambda _: True
    ) -> Object:
        """The request whose name ends so; other names are made up."""

        def found(requests: list[Object]) -> list[Object]:
            return [r for r in requests if r["metadata"]["name"].endswith(suffix) and holds(r)]

        requests = await self.until_requests(lambda requests: bool(found(requests)))
        return found(requests)[0]

    async def until_object(
        self, resource: resources.Resource, name: str, holds: Callable[[Object], bool]
    ) -> Object:
        return await until_one(self.client, resource, name, holds, seconds=HOUR)

    async def annotate(self, request: Object, outcome: str) -> None:
        """Tell the autoscaler what happens to a request."""
        await self.client.patch(
            resources.PROVISIONING_REQUESTS,
            request["metadata"]["name"],
            {"metadata": {"annotations": {"multiqueue.dev/sim-outcome": outcome}}},
            namespace=NAMESPACE,
        )

    async def reasons(self, kind: str = "Workload") -> list[str]:
        return [reason for what, _, reason in await self.cluster.events() if what == kind]


@asynccontextmanager
async def world(
    *,
    parameters: Mapping[str, str] | None = None,
    nodes: Sequence[str] = ("2xcpu",),
    crds: Sequence[Mapping[str, Any]] | None = None,
    simulate: bool = True,
    checks: Sequence[str] = (CHECK,),
    gpu: str = "",
    **config: Any,
) -> AsyncIterator[ProvisioningWorld]:
    """Start everything but a manager."""
    clock = LoopClock()
    served = [provisioning_request_crd()] if crds is None else crds
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(queue_cluster(crds=served, clock=clock))
        if simulate:
            await stack.enter_async_context(simulation(cluster.client, *nodes, clock=clock))
        strategy = {"admissionChecks": [{"name": name} for name in checks]}
        spec = {"parameters": dict(parameters or {}), **config}
        for resource, obj in (
            (resources.PROVISIONING_REQUEST_CONFIGS, make_config(**spec)),
            (resources.ADMISSION_CHECKS, make_provisioning_check()),
            (resources.RESOURCE_FLAVORS, make_flavor(**({"gpu": gpu} if gpu else {}))),
            (resources.CLUSTER_QUEUES, make_cluster_queue(admissionChecksStrategy=strategy)),
            (resources.LOCAL_QUEUES, make_local_queue()),
        ):
            await cluster.client.create(resource, obj)
        yield ProvisioningWorld(cluster, clock)


def owner_kinds(obj: Object) -> list[str]:
    return [owner["kind"] for owner in obj["metadata"].get("ownerReferences") or ()]
