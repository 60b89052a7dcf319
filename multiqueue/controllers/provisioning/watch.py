"""Watches what autoscalers answer, in the version that the cluster serves.

Most clusters have no provisioning check: they are asked for nothing but its configurations. Where
there is a check and the kind is not served, it is asked for again and again, slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from functools import partial

import orjson
import structlog

from multiqueue.api import names
from multiqueue.api.autoscaling import VERSIONS, ProvisioningRequest
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import AdmissionCheck
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfig
from multiqueue.api.v1beta2.meta import ObjectMeta, Struct
from multiqueue.controllers.provisioning.configs import is_provisioning
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    Resource,
)

RETRY_SECONDS = 30.0
"""How often a kind that is not served is asked for again: somebody has to install it first."""
BY_OWNER = "owner"
"""Requests by the uid of each owner."""

log = structlog.get_logger("multiqueue.provisioning")


class OwnedTemplate(Struct, frozen=True, kw_only=True):
    """A PodTemplate as far as we read it: whose it is."""

    metadata: ObjectMeta = ObjectMeta()


class Served(Enum):
    """Whether the cluster has the kind ProvisioningRequest."""

    UNKNOWN = "Unknown"
    YES = "Yes"
    NO = "No"


class RequestWatch:
    """The informers of provisioning.

    Attributes:
        configs: Always watched.
        requests: Set with the version once that is known.
        templates: Those that carry our label.
        served: Whether there is anything to watch.
        synced: Set once requests, templates and configurations are known.
    """

    name = "provisioning-watch"

    def __init__(self, context: ManagerContext) -> None:
        client = context.client
        self.configs: Informer[ProvisioningRequestConfig] = Informer(
            client, PROVISIONING_REQUEST_CONFIGS, decode=partial(decode, ProvisioningRequestConfig)
        )
        self.requests = _request_informer(client, PROVISIONING_REQUESTS)
        self.templates: Informer[OwnedTemplate] = Informer(
            client,
            POD_TEMPLATES,
            label_selector=f"{names.MANAGED}=true",
            decode=partial(decode, OwnedTemplate),
        )
        self.served = Served.UNKNOWN
        self.synced = asyncio.Event()
        self._client = client
        self._checks = context.informers.admission_checks
        self._wanted = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever `served` changes."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Watch until cancelled."""
        self._checks.add_handler(self._on_check)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.configs.run(), name="informer provisioningrequestconfigs")
            await self._wanted.wait()
            resource = await self._find_resource()
            if resource != self.requests.resource:
                self.requests = _request_informer(self._client, resource)
            for informer in (self.requests, self.templates):
                tasks.create_task(informer.run(), name=f"informer {informer.resource.plural}")
            await wait_settled(self.configs, self.templates)
            await self.requests.synced.wait()
            self._set_served(Served.YES)
            self.synced.set()

    async def _find_resource(self) -> Resource:
        """Return the collection in the newest version that is served, once there is one."""
        while True:
            try:
                for version in VERSIONS:
                    resource = replace(PROVISIONING_REQUESTS, version=version)
                    if await self._is_served(resource):
                        return resource
                self._set_served(Served.NO)
            except KubeError as error:
                if not error.retryable:
                    raise
                log.warning("cannot ask what the cluster serves", error=str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _is_served(self, resource: Resource) -> bool:
        try:
            answer = await self._client.request("GET", f"/apis/{resource.api_version}")
        except NotFound:
            return False
        rows = orjson.loads(answer.body).get("resources") or ()
        return any(row["name"] == resource.plural for row in rows)

    def _set_served(self, served: Served) -> None:
        if served is self.served:
            return
        self.served = served
        log.info(
            "provisioning requests", served=served.value, version=self.requests.resource.version
        )
        for listener in self._listeners:
            listener()

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        del old
        if is_provisioning(new):
            self._wanted.set()


def _request_informer(client: KubeClient, resource: Resource) -> Informer[ProvisioningRequest]:
    return Informer(
        client,
        resource,
        decode=partial(decode, ProvisioningRequest),
        indexers={BY_OWNER: _owners},
    )


def _owners(request: ProvisioningRequest) -> Iterable[str]:
    return [owner.uid for owner in request.metadata.owner_references]
