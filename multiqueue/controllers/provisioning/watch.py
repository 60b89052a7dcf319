"""Watches the ProvisioningRequests in the version that the cluster serves.

Most clusters have no provisioning check; there, only the configurations are watched. If there is a
check and the kind is not served, the API server is asked for the kind again, at long intervals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import structlog

from multiqueue.api import names
from multiqueue.api.autoscaling import GROUP, VERSIONS, ProvisioningRequest
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import AdmissionCheck
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfig
from multiqueue.api.v1beta2.meta import ObjectMeta, Struct
from multiqueue.controllers.provisioning.configs import is_provisioning
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Gone, KubeError, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    Resource,
)

RETRY_SECONDS = 30.0
"""Interval of asking for a kind that is not served: somebody has to install it first."""
HICCUP_SECONDS = 1.0
"""Delay after an error that may pass."""
BY_OWNER = "owner"
"""Requests by the uid of each owner."""

log = structlog.get_logger("multiqueue.provisioning")


class OwnedTemplate(Struct, frozen=True, kw_only=True):
    """The fields of a PodTemplate that are needed: its owners."""

    metadata: ObjectMeta = ObjectMeta()


NOT_SERVED = (
    f"the cluster serves ProvisioningRequest of {GROUP} neither in {' nor in '.join(VERSIONS)}; "
    "install the CustomResourceDefinition and an autoscaler that acts on it"
)


class RequestWatch:
    """The informers of provisioning.

    Attributes:
        configs: Configurations; always watched.
        requests: Requests; set once their version is known.
        templates: PodTemplates with our label.
        problem: Why requests cannot be watched; empty if they can, None before that is known.
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
        self.problem: str | None = None
        self.synced = asyncio.Event()
        self._client = client
        self._checks = context.informers.admission_checks
        self._wanted = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this whenever `problem` changes."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._checks.settled.wait()
        self._checks.add_handler(self._on_check)
        async with asyncio.TaskGroup() as tasks:
            self._start(tasks, self.configs)
            await self._wanted.wait()
            resource = await self._find_resource()
            if resource != self.requests.resource:
                self.requests = _request_informer(self._client, resource)
            self._start(tasks, self.requests)
            self._start(tasks, self.templates)
            await asyncio.gather(
                self.configs.synced.wait(),
                self.requests.synced.wait(),
                self.templates.synced.wait(),
            )
            self._set_problem("")
            self.synced.set()

    def _start(self, tasks: asyncio.TaskGroup, informer: Informer[Any]) -> None:
        informer.add_listener(self._on_state)
        tasks.create_task(informer.run(), name=f"informer {informer.resource.plural}")

    async def _find_resource(self) -> Resource:
        """Return the collection in the newest served version; wait until there is one."""
        while True:
            try:
                for version in VERSIONS:
                    resource = replace(PROVISIONING_REQUESTS, version=version)
                    if await self._is_served(resource):
                        return resource
                self._set_problem(NOT_SERVED)
            except KubeError as error:
                # Workloads that need no capacity are not affected, so this does not stop.
                log.warning("cannot ask what the cluster serves", error=str(error))
                if not error.retryable:
                    self._set_problem(f"cannot ask what the cluster serves: {error}")
            await asyncio.sleep(RETRY_SECONDS if self.problem else HICCUP_SECONDS)

    async def _is_served(self, resource: Resource) -> bool:
        try:
            answer = await self._client.request("GET", f"/apis/{resource.api_version}")
        except NotFound:
            return False
        rows = orjson.loads(answer.body).get("resources") or ()
        return any(row["name"] == resource.plural for row in rows)

    def _set_problem(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        level = log.warning if problem else log.info
        version = self.requests.resource.version
        level("watch of ProvisioningRequests", version=version, problem=problem or None)
        for listener in self._listeners:
            listener()

    def _on_state(self, informer: Informer[Any]) -> None:
        """Record the error if requests cannot be listed, such as for lack of permissions."""
        error = informer.last_error
        if error is None or isinstance(error, Gone):  # after Gone it is listed again
            return
        if not error.retryable and not self.synced.is_set():
            self._set_problem(f"cannot watch {informer.resource.plural}: {error}")

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
