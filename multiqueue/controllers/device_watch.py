"""Watches DeviceClasses and ResourceClaimTemplates, by which devices count as quota (E-175, M-192).

Runs only with the gate KueueDRAIntegration. On a cluster that does not serve resource.k8s.io/v1
(before Kubernetes 1.34) both collections stay empty, and are asked for again at long intervals.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES

KNOWN_SECONDS = 10.0
"""How long a start waits for the DeviceClasses; Workloads without devices can be decided then."""

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

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.classes.run(), name="informer deviceclasses")
            tasks.create_task(self.templates.run(), name="informer resourceclaimtemplates")

    async def until_known(self) -> None:
        """Wait for a limited time until both were listed, or are known not to be served."""
        try:
            async with asyncio.timeout(KNOWN_SECONDS):
                await wait_settled(self.classes, self.templates)
        except TimeoutError:
            log.warning(
                "DeviceClasses are not known yet; extended resources count under their own names",
                classes=str(self.classes.last_error or "listing"),
                templates=str(self.templates.last_error or "listing"),
            )
