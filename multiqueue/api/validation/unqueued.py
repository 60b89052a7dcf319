"""Warnings about objects that name a queue but are of a kind that is not queued."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.job_kinds import SUPPORTED_FRAMEWORKS, find_job_kind
from multiqueue.api.names import MANAGED, QUEUE_NAME
from multiqueue.api.validation.access import items, mapping, text

LABEL = f"metadata.labels[{QUEUE_NAME}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unqueued:
    """The problem of an object that names a queue and is not queued, and the remedy."""

    what: str
    todo: str


def find_unqueued(
    obj: Mapping[str, Any], enabled: Collection[str] | None = None
) -> Unqueued | None:
    """Return a warning if an object names a queue that has no effect on it.

    Objects made by a queued job, such as the pods of a Job, count with that job.

    Args:
        obj: The object.
        enabled: The frameworks that the manager queues. If that is not known, all do, but for a
            Pod that a server answered with and no webhook of the manager has labelled.
    """
    if enabled is None:
        enabled = SUPPORTED_FRAMEWORKS - ({"pod"} if _is_stored_pod_of_nobody(obj) else set())
    row = find_job_kind(text(obj.get("apiVersion")), text(obj.get("kind")))
    if row is None or row.framework in enabled or not _queue_of(obj):
        return None
    if row.is_declared:
        what = f"{row.kind}s are not queued now: {row.problem}"
        return Unqueued(what=what, todo="mend that first") if row.problem else None
    if _is_made_by_a_queued_job(obj, enabled):
        return None
    what = f"{row.kind}s are not queued: this one runs at once, outside of every quota"
    todo = (
        f'add "{row.framework}" to integrations.frameworks of the manager, or remove the label'
        if row.folder
        else "submit a batch/v1 Job instead, or remove the label"
    )
    if row.template:
        made: Mapping[str, Any] = mapping(obj, *row.template.split("."))
        if _queue_of(made):
            return None
        todo = (
            f"put the label into {row.template}.metadata.labels: the Jobs that it makes are queued"
        )
    return Unqueued(what=what, todo=todo)


def _is_stored_pod_of_nobody(obj: Mapping[str, Any]) -> bool:
    metadata = mapping(obj, "metadata")
    is_pod = (obj.get("apiVersion"), obj.get("kind")) == ("v1", "Pod")
    return is_pod and "uid" in metadata and mapping(metadata, "labels").get(MANAGED) != "true"


def _queue_of(obj: Mapping[str, Any]) -> str:
    return text(mapping(obj, "metadata", "labels").get(QUEUE_NAME))


def _is_made_by_a_queued_job(obj: Mapping[str, Any], enabled: Collection[str]) -> bool:
    owners = (owner for _, owner in items(mapping(obj, "metadata").get("ownerReferences")))
    rows = (
        find_job_kind(text(owner.get("apiVersion")), text(owner.get("kind")))
        for owner in owners
        if owner.get("controller")
    )
    return any(row is not None and (row.framework in enabled or row.is_declared) for row in rows)
