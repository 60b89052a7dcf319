"""Carries out writes to several members of one job at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from multiqueue.api.names import MANAGED
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.integration import Job, JobPatch, MemberAction, MemberWrite
from multiqueue.jobs.framework.plan import EventNote, WriteMembers
from multiqueue.jobs.framework.view import JobView
from multiqueue.kube.client import PatchType
from multiqueue.kube.errors import NotFound
from multiqueue.kube.events import build_reference
from multiqueue.kube.reconciler import DONE, Result

_RELEASE: Mapping[str, Any] = {"metadata": {"$deleteFromPrimitiveList/finalizers": [MANAGED]}}
"""Whatever other finalizers were added meanwhile stay."""
MAX_WRITING = 16
"""Members of one kind that are written at the same time. It is enough for the default
``clientConnection.qps`` if the API server answers within 50 ms. More would only wait there, and
other writes, such as admissions, would wait behind them.
"""

log = structlog.get_logger("multiqueue.jobs")


class MemberWriter:
    """Writes to pods and other members of jobs."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._turns = asyncio.Semaphore(MAX_WRITING)

    async def write(self, plan: WriteMembers, view: JobView) -> Result | None:
        """Carry out the writes; None asks for another pass at once.

        Raises:
            KubeError: a write failed; the others were carried out all the same.
        """
        outcomes = await asyncio.gather(
            *(self._write(each, plan.note, view) for each in plan.writes), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        # The answer to a deletion does not say whether the object still exists; the watch does.
        deletes = any(MemberAction.DELETE in each.steps for each in plan.writes)
        return DONE if deletes else None

    async def _write(self, write: MemberWrite, note: EventNote | None, view: JobView) -> None:
        try:
            async with self._turns:
                for position, step in enumerate(write.steps):
                    await self._take(step, write.member, view, strict=position == 0)
        except NotFound:
            return
        if note is not None and not write.repeats:
            regarding = build_reference(write.member, view.integration.resource)
            kind = "Warning" if note.warning else "Normal"
            self._context.recorder.event(regarding, kind, note.reason, note.message)
            metadata = write.member["metadata"]
            about = f"{metadata['namespace']}/{metadata['name']}"
            log.info("job", job=about, reason=note.reason, message=note.message)

    async def _take(
        self, step: JobPatch | MemberAction, member: Job, view: JobView, *, strict: bool
    ) -> None:
        resource, metadata = view.integration.resource, member["metadata"]
        name, namespace, client = metadata["name"], metadata["namespace"], self._context.client
        if step is MemberAction.DELETE:
            await client.delete(
                resource,
                name,
                namespace=namespace,
                propagation="Background",
                uid=metadata["uid"],
            )
            return
        subresource, patch_type = None, PatchType.STRATEGIC
        if step is MemberAction.RELEASE:
            patch = dict(_RELEASE)
        else:
            assert isinstance(step, JobPatch)
            patch, subresource = dict(step.patch), step.subresource
            if subresource is None:
                patch_type = PatchType.MERGE
                version = metadata["resourceVersion"] if strict else None
                patch["metadata"] = {**(patch.get("metadata") or {}), "resourceVersion": version}
        patch["metadata"] = {**(patch.get("metadata") or {}), "uid": metadata["uid"]}
        answer = await client.patch(
            resource,
            name,
            patch,
            namespace=namespace,
            subresource=subresource,
            patch_type=patch_type,
        )
        self._context.informers.jobs[view.integration.name].observe(answer)
