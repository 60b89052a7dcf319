"""Reads jobs of every kind that is built in, whether or not a manager queues them. Pure.

For programs that look at objects of users without running a manager: the linter and the CLI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Integration, InvalidJobError
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.setup import load_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPodSet:
    """One pod set of a job.

    Attributes:
        path: Where the pod template is in the job, such as ``spec.template``.
        template: The pod template.
        count: How many pods run at a time.
    """

    name: str
    path: str
    template: Mapping[str, Any]
    count: int

    def at(self, field: str) -> str:
        """Return the path of a field of the template, such as ``spec.template.spec.containers``."""
        return f"{self.path}.{field}" if self.path else field


_load = cache(load_kind)


def find_supported_kind(gvk: GroupVersionKind) -> SupportedKind | None:
    """Return what is done for a kind, in any version; None if it is not built in."""
    row = find_job_kind(gvk.api_version, gvk.kind)
    return _load(row) if row is not None and row.folder else None


def find_integration(obj: Mapping[str, Any]) -> Integration | None:
    """Return the integration of an object's kind, in any version; None if it is no job."""
    gvk = GroupVersionKind.of(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))
    kind = find_supported_kind(gvk)
    return None if kind is None else kind.integration


def read_pod_sets(obj: Mapping[str, Any]) -> Sequence[JobPodSet]:
    """Return the pod sets of a job; none if it is no job or cannot be read."""
    integration = find_integration(obj)
    if integration is None:
        return ()
    job = dict(obj)
    try:
        return [
            JobPodSet(
                name=pod_set.name,
                path=integration.template_path(job, position),
                template=pod_set.template,
                count=pod_set.count,
            )
            for position, pod_set in enumerate(integration.pod_sets(job))
        ]
    except (InvalidJobError, KeyError, TypeError, ValueError, AttributeError):
        return ()


def is_ready(obj: Mapping[str, Any]) -> bool | None:
    """Whether all pods of a job are ready or have succeeded; None if that cannot be read."""
    integration = find_integration(obj)
    try:
        return integration.pods_ready(dict(obj)) if integration is not None else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def is_over(obj: Mapping[str, Any]) -> bool:
    """Whether a job has ended; false if it is no job or cannot be read."""
    integration = find_integration(obj)
    try:
        return integration is not None and integration.finished(dict(obj)) is not None
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
