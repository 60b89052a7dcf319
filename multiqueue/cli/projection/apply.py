"""Writes the steps of a plan by server-side apply, and labels our objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from multiqueue.api.names import PROJECTION_FIELD_MANAGER
from multiqueue.api.validation.access import mapping
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.errors import ApiError, Conflict, NotFound
from multiqueue.kube.resources import Resource
from multiqueue.lint.world import name_of, namespace_of
from multiqueue.projection.plan import SyncAction, SyncPlan, SyncStep

RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in (
        resources.NAMESPACES,
        resources.TOPOLOGIES,
        resources.RESOURCE_FLAVORS,
        resources.WORKLOAD_PRIORITY_CLASSES,
        resources.COHORTS,
        resources.CLUSTER_QUEUES,
        resources.LOCAL_QUEUES,
    )
}


class Written(StrEnum):
    """The outcome of a step, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    DELETED = "deleted"
    REFUSED = "refused"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """One step and its outcome; ``message`` if it failed."""

    step: SyncStep
    written: Written
    message: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the step succeeded."""
        return self.written not in {Written.REFUSED, Written.CONFLICT}


_DONE = {
    SyncAction.CREATE: Written.CREATED,
    SyncAction.UPDATE: Written.CONFIGURED,
    SyncAction.DELETE: Written.DELETED,
}


async def carry_out(
    client: KubeClient, plan: SyncPlan, *, force: bool, dry_run: bool
) -> AsyncIterator[StepOutcome]:
    """Do the steps in order; a step that fails does not stop the others.

    Args:
        client: The worker's client, with the right to write.
        plan: The steps.
        force: Whether to take over fields from other managers.
        dry_run: Whether the server only checks the steps and writes nothing.
    """
    new = {name_of(s.obj) for s in plan.steps if s.obj["kind"] == "Namespace" and not s.actual}
    for step in plan.steps:
        if dry_run and namespace_of(step.obj) in new:
            # The server cannot check an object in a namespace that does not exist yet.
            yield StepOutcome(step=step, written=_DONE[step.action])
            continue
        yield await _do(client, step, force=force, dry_run=dry_run)


async def _do(client: KubeClient, step: SyncStep, *, force: bool, dry_run: bool) -> StepOutcome:
    try:
        if step.action is SyncAction.DELETE:
            if not dry_run:
                await _delete(client, step)
        else:
            await _apply(client, step, force=force, dry_run=dry_run)
    except Conflict as error:
        message = f"{error.server_message}; {_what_to_do(step)}"
        return StepOutcome(step=step, written=Written.CONFLICT, message=message)
    except ApiError as error:
        return StepOutcome(step=step, written=Written.REFUSED, message=error.server_message)
    return StepOutcome(step=step, written=_DONE[step.action])


def _what_to_do(step: SyncStep) -> str:
    if step.action is SyncAction.DELETE:
        return "it changed meanwhile: sync again"
    return "--force takes the fields over"


async def _apply(client: KubeClient, step: SyncStep, *, force: bool, dry_run: bool) -> None:
    body: dict[str, Any] = dict(step.obj)
    if step.actual is not None:
        # Change only the object for which the plan was made.
        uid = mapping(step.actual, "metadata").get("uid")
        body["metadata"] = {**mapping(body, "metadata"), "uid": uid}
    params = {"fieldManager": PROJECTION_FIELD_MANAGER, "fieldValidation": "Strict"}
    if force:
        params["force"] = "true"
    if dry_run:
        params["dryRun"] = "All"
    path = RESOURCES[body["kind"]].path(namespace_of(body) or None, name_of(body))
    await client.request(
        "PATCH", path, params=params, body=body, content_type=PatchType.APPLY.value
    )


async def _delete(client: KubeClient, step: SyncStep) -> None:
    metadata = mapping(step.obj, "metadata")
    try:
        await client.delete(
            RESOURCES[step.obj["kind"]],
            name_of(step.obj),
            namespace=namespace_of(step.obj) or None,
            uid=metadata.get("uid"),
            resource_version=metadata.get("resourceVersion"),
        )
    except NotFound:
        return
