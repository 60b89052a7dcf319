"""Watches DeviceClasses and ResourceClaimTemplates, by which devices count as quota (E-175, M-192).

Runs only with the gate KueueDRAIntegration. A cluster that does not serve resource.k8s.io/v1
(before Kubernetes 1.34) has no devices; it is asked for the kinds again at long intervals.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import structlog

from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES

KNOWN_SECONDS = 10.0
"""How long a start waits for the DeviceClasses; Workloads without devices can be decided then."""
RETRY_SECONDS = 60.0
"""Interval of asking for kinds that are not served: the cluster has to be upgraded first."""
HICCUP_SECONDS = 1.0
"""Delay after an error that may pass."""

log = structlog.get_logger("multiqueue.devices")


class DeviceWatch:
    """The informers of dynamic resource allocation.

    Attributes:
        classes: All DeviceClasses.
        templates: All ResourceClaimTemplates.
    """

    name = "device-watch"

    def __init__(self, context: ManagerContext) -> None:
        self.classes: Informer[dict[str, Any]] = Informer(context.client, DEVICE_CLASSES)
        self.templates: Informer[dict[str, Any]] = Informer(
            context.client, RESOURCE_CLAIM_TEMPLATES
        )
        self._client = context.client
        self._known = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._until_served()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.classes.run(), name="informer deviceclasses")
            tasks.create_task(self.templates.run(), name="informer resourceclaimtemplates")
            await wait_settled(self.classes, self.templates)
            self._known.set()

    async def until_known(self) -> None:
        """Wait for a limited time until both were listed, or are known not to be served."""
        try:
            async with asyncio.timeout(KNOWN_SECONDS):
                await self._known.wait()
        except TimeoutError:
            log.warning(
                "DeviceClasses are not known yet; extended resources count under their own names",
                classes=str(self.classes.last_error or "listing"),
                templates=str(self.templates.last_error or "listing"),
            )

    async def _until_served(self) -> None:
        while True:
            try:
                if await self._is_served():
                    return
            except KubeError as error:
                log.warning("cannot ask what the cluster serves", error=str(error))
                await asyncio.sleep(HICCUP_SECONDS if error.retryable else RETRY_SECONDS)
            else:
                self._known.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _is_served(self) -> bool:
        path = f"/apis/{DEVICE_CLASSES.api_version}"
        try:
            answer = await self._client.request("GET", path)
        except NotFound:
            return False
        served = {row["name"] for row in orjson.loads(answer.body).get("resources") or ()}
        return {DEVICE_CLASSES.plural, RESOURCE_CLAIM_TEMPLATES.plural} <= served
