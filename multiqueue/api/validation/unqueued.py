"""Warnings about objects that name a queue but are of a kind that is not queued."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.job_kinds import KnownKind, find_job_kind
from multiqueue.api.names import QUEUE_NAME
from multiqueue.api.validation.access import items, mapping, text

LABEL = f"metadata.labels[{QUEUE_NAME}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unqueued:
    """The problem of an object that names a queue and is not queued, and the remedy."""

    what: str
    todo: str


def find_unqueued(
    obj: Mapping[str, Any], frameworks: Container[str] | None = None
) -> Unqueued | None:
    """Return a warning if an object names a queue that has no effect on it.

    Objects made by a queued job, such as the pods of a Job, count with that job.

    Args:
        obj: The object.
        frameworks: The enabled kinds by their names in the Configuration; all if it is not known.
    """
    row = find_job_kind(text(obj.get("apiVersion")), text(obj.get("kind")))
    if row is None or not _queue_of(obj) or _is_queued(row, frameworks):
        return None
    if _is_made_by_a_queued_job(obj, frameworks):
        return None
    if row.is_queued:
        return Unqueued(
            what=f"{row.kind}s are not enabled: this one runs at once, outside of every quota",
            todo=f'add "{row.framework}" to integrations.frameworks, or remove the label',
        )
    what = f"{row.kind}s are not queued yet: this one runs at once, outside of every quota"
    todo = "submit a batch/v1 Job instead, or remove the label"
    if row.template:
        made: Mapping[str, Any] = mapping(obj, *row.template.split("."))
        if _queue_of(made):
            return None
        todo = (
            f"put the label into {row.template}.metadata.labels: the Jobs that it makes are queued"
        )
    return Unqueued(what=what, todo=todo)


def _queue_of(obj: Mapping[str, Any]) -> str:
    return text(mapping(obj, "metadata", "labels").get(QUEUE_NAME))


def _is_queued(row: KnownKind, frameworks: Container[str] | None) -> bool:
    return row.is_queued and (frameworks is None or row.framework in frameworks)


def _is_made_by_a_queued_job(obj: Mapping[str, Any], frameworks: Container[str] | None) -> bool:
    owners = (owner for _, owner in items(mapping(obj, "metadata").get("ownerReferences")))
    rows = (
        find_job_kind(text(owner.get("apiVersion")), text(owner.get("kind")))
        for owner in owners
        if owner.get("controller")
    )
    return any(row is not None and _is_queued(row, frameworks) for row in rows)
