"""The search for the job that manages another one: its highest owner with a queue. Pure.

A JobSet makes Jobs, an AppWrapper makes anything: only the highest queued one gets a Workload, and
those below follow it. Parity: J-23 to J-27.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from multiqueue.api.validation.access import mapping, text
from multiqueue.jobs.framework.compose import queue_name
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Job

MAX_DEPTH = 10
"""The most owners above a job."""
TOO_DEEP = (
    f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MAX_DEPTH}"
)


class NestingTooDeepError(Exception):
    """A job has too many owners above it, or its owners own each other."""


class OwnerNotFoundError(Exception):
    """An owner of a known kind is not there, or not seen yet; the search is tried again."""

    def __init__(self, kind: GroupVersionKind, name: str) -> None:
        super().__init__(f'{kind.kind} "{name}", which owns the job, is not found')
        self.kind = kind
        self.name = name


class OwnerLookup(Protocol):
    """What the search needs to know about kinds and owners."""

    def is_known(self, kind: GroupVersionKind) -> bool:
        """Whether owners of this very version and kind are followed (J-24)."""

    def is_enabled(self, kind: GroupVersionKind) -> bool:
        """Whether an owner of this kind can manage a job (J-25)."""

    def find_owner(self, kind: GroupVersionKind, namespace: str, name: str) -> Job | None:
        """Return an owner of a known kind; None if it is not there."""


def controller_of(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference of the controller of an object; None if it has none."""
    references = mapping(job, "metadata").get("ownerReferences")
    found = references if isinstance(references, list) else []
    return next((r for r in map(mapping, found) if r.get("controller") is True), None)


def find_ancestor(job: Mapping[str, Any], owners: OwnerLookup, *, manage_all: bool) -> Job | None:
    """Return the highest owner that manages a job; None if the job stands for itself.

    Args:
        job: The job, or another object that jobs make.
        owners: Access to kinds and owners.
        manage_all: Whether jobs without a queue are managed, too.

    Raises:
        NestingTooDeepError: there are more than `MAX_DEPTH` owners, or a cycle.
        OwnerNotFoundError: an owner of a known kind is not there.
    """
    found: Job | None = None
    namespace = text(mapping(job, "metadata").get("namespace"))
    for _ in range(MAX_DEPTH + 1):
        reference = controller_of(job)
        if reference is None:
            return found
        kind = GroupVersionKind.of(text(reference.get("apiVersion")), text(reference.get("kind")))
        if not owners.is_known(kind):
            return found
        name = text(reference.get("name"))
        owner = owners.find_owner(kind, namespace, name)
        if owner is None:
            raise OwnerNotFoundError(kind, name)
        if owner["metadata"].get("uid") != reference.get("uid"):
            return found
        if owners.is_enabled(kind) and (manage_all or queue_name(owner)):
            found = owner
        job = owner
    raise NestingTooDeepError(TOO_DEEP)
