"""Reads jobs of every kind, whether or not a manager queues them. Pure.

For programs that look at objects of users without running a manager: the linter and the CLI. They
tell once which kinds JobKinds declare (`learn_job_kinds`); all others are built in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from multiqueue.api.job_kinds import JOB_KINDS, KnownKind, declare_kinds, find_job_kind
from multiqueue.api.v1alpha1 import JobKind
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


_DECLARED: ContextVar[Mapping[KnownKind, SupportedKind]] = ContextVar("kinds", default={})  # noqa: B039 - never changed


def learn_job_kinds(job_kinds: Iterable[JobKind]) -> None:
    """Read objects of the kinds that these JobKinds declare, from now on in this context.

    Of two JobKinds for one kind the older counts, as for the manager. A kind whose JobKind cannot
    be used is known by name only.
    """
    from multiqueue.jobs.declared.adapter import build_declared
    from multiqueue.jobs.declared.compiled import JobKindRefusedError, compile_kind, row_of
    from multiqueue.jobs.declared.kind import DeclaredKind

    found: dict[KnownKind, SupportedKind | None] = {}
    declare_kinds(())
    for job_kind in sorted(job_kinds, key=_age):
        row = replace(row_of(job_kind.spec), problem=_problem_of(job_kind))
        known = {(each.group, each.kind) for each in (*JOB_KINDS, *found)}
        if (row.group, row.kind) in known:
            continue
        try:
            found[row] = build_declared(DeclaredKind(compile_kind(job_kind.spec)))
        except JobKindRefusedError as error:
            name = job_kind.metadata.name
            problem = row.problem or f'JobKind "{name}" is not accepted: {error}'
            found[replace(row, problem=problem)] = None
    declare_kinds(tuple(found))
    _DECLARED.set({row: kind for row, kind in found.items() if kind is not None})


def _age(job_kind: JobKind) -> tuple[str, str]:
    return job_kind.metadata.creation_timestamp, job_kind.metadata.name


def _problem_of(job_kind: JobKind) -> str:
    """Return why a manager does not queue the kind; empty if it does, or none has looked at it."""
    conditions = {each.type: each for each in job_kind.status.conditions}
    for type_ in ("Accepted", "Active"):
        condition = conditions.get(type_)
        if condition is not None and condition.status == "False":
            return f'JobKind "{job_kind.metadata.name}" is not {type_}: {condition.message}'
    return ""


def find_supported_kind(gvk: GroupVersionKind) -> SupportedKind | None:
    """Return what is done for a kind, in any version; None if it is unknown."""
    row = find_job_kind(gvk.api_version, gvk.kind)
    if row is None:
        return None
    return _load(row) if row.folder else _DECLARED.get().get(row)


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
