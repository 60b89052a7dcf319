"""Writes what an action asks for, with the credentials of the reader."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Any

from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_evicted, is_finished
from multiqueue.dashboard.job_actions import ActionWrite
from multiqueue.kube.client import KubeClient
from multiqueue.kube.job_objects import JobObject
from multiqueue.kube.resources import SELF_SUBJECT_ACCESS_REVIEWS, WORKLOADS

FIELD_MANAGER = "multiqueue-dashboard"
EVICTION_SECONDS = 4.0
"""How long a manager may take to begin an eviction before the job is resumed.

It is less than what a server that stops leaves to requests in progress.
"""

Json = dict[str, Any]


class ActionWriter:
    """Writes, and says what may be written.

    Args:
        client: A client with the reader's credentials.
        field_manager: Whose changes of fields they are.
    """

    def __init__(self, client: KubeClient, field_manager: str | None = FIELD_MANAGER) -> None:
        self._client = client
        self._field_manager = field_manager

    async def may(self, verb: str, target: JobObject) -> bool:
        """Ask the API server; a button without the right is not shown."""
        wanted = {
            "verb": verb,
            "group": target.resource.group,
            "resource": target.resource.plural,
            "name": target.name,
            "namespace": target.namespace,
        }
        review = {
            "apiVersion": SELF_SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SELF_SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": wanted},
        }
        answer = await self._client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
        return bool(answer["status"]["allowed"])

    async def write(
        self, write: ActionWrite, seen: Json | None = None, *, dry_run: bool = False
    ) -> None:
        """Patch or delete an object that is still the one that was read.

        Args:
            write: What to write.
            seen: An object; if it is the one to patch, it must be unchanged since it was read.
            dry_run: Whether the server only checks it.

        Raises:
            KubeError: The API server refuses it; `Conflict` if the object is another one by now.
        """
        target, patch = write.target, write.patch
        namespace = target.namespace or None
        if not patch:
            await self._client.delete(
                target.resource,
                target.name,
                namespace=namespace,
                uid=target.uid,
                propagation="Background",
                dry_run=dry_run,
            )
            return
        known = {"uid": target.uid}
        if seen is not None and seen["metadata"]["uid"] == target.uid:
            known["resourceVersion"] = seen["metadata"]["resourceVersion"]
        await self._client.patch(
            target.resource,
            target.name,
            {**patch, "metadata": {**patch.get("metadata", {}), **known}},
            namespace=namespace,
            field_manager=self._field_manager,
            dry_run=dry_run,
        )

    async def resume_evicted(self, target: JobObject) -> bool:
        """Resume a stopped Workload once its eviction has begun, which goes on by itself.

        Returns:
            Whether the eviction was seen. The Workload is resumed in any case.

        Raises:
            KubeError: The Workload cannot be read or watched, or cannot be resumed.
        """
        try:
            async with asyncio.timeout(EVICTION_SECONDS):
                return await self._is_evicted_soon(target)
        except TimeoutError:
            return False
        finally:
            resumed = ActionWrite(target=target, patch={"spec": {"active": True}})
            await asyncio.shield(self.write(resumed))

    async def _is_evicted_soon(self, target: JobObject) -> bool:
        """Wait until the Workload is evicted, or ends."""
        read = partial(decode, Workload)
        workload = await self._client.get(
            WORKLOADS, target.name, namespace=target.namespace, decode=read
        )
        if is_evicted(workload.status):
            return True
        events = self._client.watch(
            WORKLOADS,
            namespace=target.namespace,
            resource_version=workload.metadata.resource_version,
            field_selector=f"metadata.name={target.name}",
        )
        async with aclosing(events):
            async for event in events:
                if event.type == "BOOKMARK":
                    continue
                workload = read(event.raw)
                is_over = event.type == "DELETED" or is_finished(workload.status)
                if is_over or is_evicted(workload.status):
                    return not is_over
        return False
