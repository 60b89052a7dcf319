"""Other objects that a job kind reads, such as the runtime or the child cluster of a job. Pure.

A kind says which collections it reads (`TemplateKind.related`), and takes what it needs from them
when a job is observed (`TemplateKind.with_related`). The observed job holds these objects under
`RELATED`, a key that the API does not have; no write contains it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from multiqueue.jobs.framework.integration import Integration, Job
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.kube.resources import Resource

FindRelated: TypeAlias = Callable[[Resource, str, str], Job | None]
"""Returns an object by collection, namespace ("" if it has none) and name; None if unknown."""


def list_related(integration: Integration) -> tuple[Resource, ...]:
    """Return the collections that a kind reads beside its own."""
    return integration.related if isinstance(integration, TemplateKind) else ()


def add_related(integration: Integration, job: Job, find: FindRelated) -> Job:
    """Return a job with the objects that its kind reads."""
    return integration.with_related(job, find) if isinstance(integration, TemplateKind) else job


def related_keys(integration: Integration, job: Job) -> tuple[str, ...]:
    """Return the keys of the objects that a job is read with, whether they exist or not."""
    keys: list[str] = []

    def note(resource: Resource, namespace: str, name: str) -> None:
        keys.append(related_key(resource, namespace, name))

    add_related(integration, job, note)
    return tuple(keys)


def related_key(resource: Resource, namespace: str, name: str) -> str:
    """Return the identity of an object in the cluster."""
    return f"{resource.group}/{resource.kind}/{namespace}/{name}"
