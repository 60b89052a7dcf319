"""Carries out one step of a `ProvisioningPlan`.

Every answer updates its informer before the call returns, so the next reconcile sees the write.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.conditions import CheckState
from multiqueue.api.names import key_of
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.v1beta2.meta import ObjectMeta, OwnerReference
from multiqueue.api.workload_checks import find_check, set_check_state
from multiqueue.controllers.provisioning.content import Content, request_owner
from multiqueue.controllers.provisioning.plan import (
    ChangeChecks,
    CreateRequest,
    DeleteRequests,
    ProvisioningDone,
    ProvisioningPlan,
    Refuse,
    RepairTemplates,
)
from multiqueue.controllers.provisioning.view import ProvisioningView
from multiqueue.controllers.provisioning.watch import OwnedTemplate, RequestWatch
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from multiqueue.kube.reconciler import DONE, Result
from multiqueue.kube.resources import POD_TEMPLATES, Resource

REFUSED_SECONDS = 60.0
"""Delay before a request that could not be created is tried again: the reason may be a quota or a
webhook, which change without an event for us."""
LEFTOVER_SECONDS = 1.0
"""Delay before trying a name again that an object under deletion still has."""
_REFUSALS = frozenset({400, 403, 404, 413, 422})

log = structlog.get_logger("multiqueue.provisioning")


class NameTakenError(Exception):
    """Another user's object has a name that we need; the message says what to do."""


class ProvisioningExecutor:
    """Writes for the provisioning of one manager."""

    def __init__(self, context: ManagerContext, watch: RequestWatch) -> None:
        self._context = context
        self._watch = watch

    async def execute(self, plan: ProvisioningPlan, view: ProvisioningView) -> Result | None:
        """Carry out a plan; None asks for another pass at once.

        Raises:
            KubeError: the step failed and has to be tried again.
        """
        match plan:
            case ProvisioningDone():
                return DONE
            case DeleteRequests():
                for request in plan.requests:
                    await self._delete(self._watch.requests.resource, request.metadata)
                # The watch reports when they are gone; until then the store still has them.
                return DONE
            case ChangeChecks():
                return await self._change(plan, view)
            case Refuse():
                return await self._refuse(view, plan.check, plan.message)
            case CreateRequest() | RepairTemplates():
                return await self._try_to_make(plan, view)

    async def _try_to_make(
        self, plan: CreateRequest | RepairTemplates, view: ProvisioningView
    ) -> Result | None:
        name = plan.content.request["metadata"]["name"]
        try:
            if isinstance(plan, CreateRequest):
                return await self._create(plan.content, view)
            await self._give_templates(plan.content, view, plan.request)
        except NameTakenError as error:
            reason = str(error)
        except ApiError as error:
            if error.status not in _REFUSALS:
                raise
            reason = error.server_message or str(error)
        else:
            return None
        message = f'Error creating ProvisioningRequest "{name}": {reason}'
        return await self._refuse(view, plan.check, message)

    async def _create(self, content: Content, view: ProvisioningView) -> Result | None:
        for template in content.templates:
            await self._ensure_template(template, {view.workload.metadata.uid})
        resource, metadata = self._watch.requests.resource, content.request["metadata"]
        try:
            request = await self._context.client.create(
                resource,
                content.request,
                namespace=metadata["namespace"],
                decode=partial(decode, ProvisioningRequest),
            )
        except AlreadyExists:
            return await self._take_existing(metadata["name"], view)
        self._watch.requests.observe(request)
        words = f'Created ProvisioningRequest: "{request.metadata.name}"'
        self._event(view.workload, "Normal", "ProvisioningRequestCreated", words)
        return None

    async def _take_existing(self, name: str, view: ProvisioningView) -> Result | None:
        """Handle an existing name: the Workload's own unseen request, or one of an older Workload.

        Raises:
            NameTakenError: another user's object has the name.
        """
        namespace = view.workload.metadata.namespace
        try:
            request = await self._context.client.get(
                self._watch.requests.resource,
                name,
                namespace=namespace,
                decode=partial(decode, ProvisioningRequest),
            )
        except NotFound:
            return None
        uid = view.workload.metadata.uid
        if request.metadata.deletion_timestamp:
            return Result(requeue_after=LEFTOVER_SECONDS)
        if any(owner.uid == uid for owner in request.metadata.owner_references):
            self._watch.requests.observe(request)
            return None
        if not _was_of(request.metadata, "Workload", view.workload.metadata.name):
            raise NameTakenError("it exists and is not owned by this Workload; delete it")
        await self._delete(self._watch.requests.resource, request.metadata)
        return Result(requeue_after=LEFTOVER_SECONDS)

    async def _give_templates(
        self, content: Content, view: ProvisioningView, request: ProvisioningRequest
    ) -> None:
        """Make the request the owner of its templates, so that they are deleted with it."""
        owner = request_owner(
            self._watch.requests.resource.api_version, request.metadata.name, request.metadata.uid
        )
        for body in content.templates:
            template = await self._ensure_template(body, {view.workload.metadata.uid, owner.uid})
            if any(known.uid == owner.uid for known in template.metadata.owner_references):
                continue
            await self._give_template(template.metadata, owner)

    async def _give_template(self, metadata: ObjectMeta, owner: OwnerReference) -> None:
        patch = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "ownerReferences": [encode(owner)],
            }
        }
        written = await self._context.client.patch(
            POD_TEMPLATES,
            metadata.name,
            patch,
            namespace=metadata.namespace,
            decode=partial(decode, OwnedTemplate),
        )
        self._watch.templates.observe(written)

    async def _ensure_template(self, body: dict[str, Any], owners: set[str]) -> OwnedTemplate:
        """Return the template that one of these owns; create it if it is missing.

        The template of an earlier request with that name is about to be deleted, and is replaced.

        Raises:
            NameTakenError: another user's object has the name.
        """
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        found = self._watch.templates.store.get(key_of(namespace, name))
        if found is not None and _is_owned(found, owners):
            return found
        try:
            return await self._create_template(body)
        except AlreadyExists:
            found = await self._context.client.get(
                POD_TEMPLATES, name, namespace=namespace, decode=partial(decode, OwnedTemplate)
            )
        if _is_owned(found, owners):
            self._watch.templates.observe(found)
            return found
        request_names = name.removeprefix("ppt-")
        before = any(
            owner.kind in {"ProvisioningRequest", "Workload"}
            and request_names.startswith(owner.name)
            for owner in found.metadata.owner_references
        )
        if not before:
            raise NameTakenError(f'PodTemplate "{name}" exists and is not ours; delete it')
        await self._delete(POD_TEMPLATES, found.metadata)
        return await self._create_template(body)

    async def _create_template(self, body: dict[str, Any]) -> OwnedTemplate:
        created = await self._context.client.create(
            POD_TEMPLATES,
            body,
            namespace=body["metadata"]["namespace"],
            decode=partial(decode, OwnedTemplate),
        )
        self._watch.templates.observe(created)
        return created

    async def _delete(self, resource: Resource, metadata: ObjectMeta) -> None:
        # It may be gone already, or be a newer object with the same name.
        with suppress(NotFound, Conflict):
            await self._context.client.delete(
                resource,
                metadata.name,
                namespace=metadata.namespace,
                propagation="Background",
                uid=metadata.uid or None,
            )

    async def _change(self, plan: ChangeChecks, view: ProvisioningView) -> Result | None:
        before = view.workload.status

        def change(newest: Workload) -> WorkloadStatus:
            nonlocal before
            before = newest.status
            return plan.change(replace(view, workload=newest))

        try:
            written = await self._context.writer.update_status(view.workload.metadata.key, change)
        except NotFound:
            return DONE
        for check in view.checks:
            self._tell(written, check.name, before)
        return None

    def _tell(self, workload: Workload, check: str, before: WorkloadStatus) -> None:
        old, new = find_check(before, check), find_check(workload.status, check)
        if old is None or new is None:
            return
        if old.state == new.state:
            return
        words = f"Admission check {check} updated state from {old.state} to {new.state}"
        if new.message:
            words = f"{words} with message: {new.message}"
        self._event(workload, "Normal", "AdmissionCheckUpdated", words)

    async def _refuse(self, view: ProvisioningView, check: str, message: str) -> Result:
        """Write the problem on the check and in an Event, and try again later."""
        now = self._context.clock.now()

        def change(newest: Workload) -> WorkloadStatus:
            state = find_check(newest.status, check)
            if state is None or state.state != CheckState.PENDING:
                return newest.status
            return set_check_state(
                newest.status, check, CheckState.PENDING, message=message, now=now
            )

        try:
            written = await self._context.writer.update_status(view.workload.metadata.key, change)
        except NotFound:
            return DONE
        self._event(written, "Warning", "FailedCreate", message)
        return Result(requeue_after=REFUSED_SECONDS)

    def _event(self, workload: Workload, kind: str, reason: str, message: str) -> None:
        self._context.recorder.event(workload_reference(workload), kind, reason, message)
        level = log.warning if kind == "Warning" else log.info
        level("provisioning", workload=workload.metadata.key, reason=reason, message=message)


def _is_owned(template: OwnedTemplate, owners: set[str]) -> bool:
    return any(owner.uid in owners for owner in template.metadata.owner_references)


def _was_of(metadata: ObjectMeta, kind: str, name: str) -> bool:
    return any((o.kind, o.name) == (kind, name) for o in metadata.owner_references)
