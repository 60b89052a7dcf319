"""A change to make in a snapshot, and the objects that it names. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.whatif.snapshot import Snapshot

Json = dict[str, Any]
Submit = Callable[[Snapshot, str], Sequence[str]]
"""Submits the jobs of a file to a snapshot; returns the keys of their Workloads."""
_OWNERS = {"cq": "ClusterQueue", "cohort": "Cohort"}


class ChangeError(ValueError):
    """A change that cannot be made; the message says what to write."""


class FormError(ValueError):
    """The words of a change do not have its form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """One change to make.

    Attributes:
        snapshot: The snapshot to change.
        verb: The first word.
        words: The other words.
        submit: Submits the jobs of a file that the change names.
    """

    snapshot: Snapshot
    verb: str
    words: Sequence[str]
    submit: Submit


def read_pair(words: Sequence[str]) -> tuple[str, str]:
    """Return the two sides of the only word, ``TARGET=VALUE``."""
    if len(words) != 1:
        raise FormError
    target, equals, value = words[0].rpartition("=")
    if not (target and equals and value):
        raise FormError
    return target, value


def read_name(target: str, kind: str) -> str:
    """Return the name in ``KIND/NAME``."""
    found, _, name = target.partition("/")
    if found != kind or not name:
        raise FormError
    return name


def find_quota_owner(snapshot: Snapshot, target: str) -> Json:
    """Return the ClusterQueue of ``cq/NAME`` or the Cohort of ``cohort/NAME``."""
    kind, _, name = target.partition("/")
    if kind not in _OWNERS or not name:
        raise FormError(f'"{target}" is neither cq/NAME nor cohort/NAME')
    return find_object(snapshot, _OWNERS[kind], name)


def find_object(snapshot: Snapshot, kind: str, key: str) -> Json:
    """Return an object of the snapshot; the error lists what there is."""
    found = snapshot.of(kind).get(key)
    if found is None:
        known = ", ".join(sorted(snapshot.of(kind))) or "none"
        raise ChangeError(f'{kind} "{key}" is not in the snapshot; there are: {known}')
    return found


def find_workload(snapshot: Snapshot, target: str) -> Json:
    """Return a Workload by its own name, or by that of its job."""
    workloads = snapshot.of("Workload")
    namespace, _, name = target.partition("/")
    if not name:
        raise FormError(f'"{target}" is no NAMESPACE/JOB')
    if target in workloads:
        return workloads[target]
    owned = [
        obj
        for obj in workloads.values()
        if obj["metadata"].get("namespace") == namespace
        and any(owner.get("name") == name for owner in obj["metadata"].get("ownerReferences", ()))
    ]
    if len(owned) != 1:
        problem = "is not in the snapshot" if not owned else "has several Workloads: name one"
        raise ChangeError(f'job "{target}" {problem}')
    return owned[0]


def name_of(obj: Json) -> str:
    """Return kind and name of an object."""
    metadata = obj["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj['kind']} {where}{metadata['name']}"
