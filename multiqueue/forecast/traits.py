"""Read what predicts the runtime of a Workload, and what a finished one teaches. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import Reason, WorkloadCondition, find_condition
from multiqueue.api.declarations import parse_runtime, parse_speeds, read
from multiqueue.api.ran_on import find_ran_on
from multiqueue.model.resources import parse_request
from multiqueue.model.workload import PodSet
from multiqueue.plugins.view import PodSetView

NO_END = frozenset({Reason.OUT_OF_SYNC, Reason.WORKLOAD_SLICE_REPLACED})
"""Reasons of Workloads that finished although their job did not run to its end."""
_HASH = re.compile(r"[0-9a-f]{5}")
_CHANCE = re.compile(r"\d+|(?=.*\d)[0-9a-z]{5,}")
"""A segment of a name that differs in each run: a number, or letters mixed with digits."""
_COUNTER = re.compile(r"\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The properties of a Workload that predict its runtime.

    Attributes:
        job_class: The job class; jobs of a class are expected to be alike.
        declared: The runtime that the job declares.
        limit: The time after which it is stopped.
        speeds: Declared speeds by hardware, in thousandths.
    """

    job_class: str
    declared: timedelta | None = None
    limit: timedelta | None = None
    speeds: Mapping[str, int] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The namespace, from the job class."""
        return self.job_class.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that ended.

    Attributes:
        uid: Uid of its Workload; each run is learned from once.
        traits: Traits of its Workload.
        flavor: The flavor of its devices; without devices, of its first resource.
        took: Time from its admission to its end.
        devices: Number of devices that it had.
    """

    uid: str
    traits: Traits
    flavor: str
    took: timedelta
    devices: int = 1


def read_traits(
    workload: api.Workload, annotations: Mapping[str, str], pod_sets: Iterable[PodSet | PodSetView]
) -> Traits:
    """Return the traits of a Workload.

    Args:
        workload: The Workload.
        annotations: Its annotations, with those of its job if that is known.
        pod_sets: Its pod sets.
    """
    seconds = workload.spec.maximum_execution_time_seconds
    return Traits(
        job_class=_class_of(workload, annotations, pod_sets),
        declared=read(annotations, names.RUNTIME, parse_runtime),
        limit=timedelta(seconds=seconds) if seconds else None,
        speeds=read(annotations, names.SPEEDS, parse_speeds) or {},
    )


def read_finished(workload: api.Workload, traits: Traits) -> FinishedRun | None:
    """Return the last run of a Workload; None if it never ran, or did not end by itself."""
    conditions = workload.status.conditions
    finished = find_condition(conditions, WorkloadCondition.FINISHED)
    admitted = find_condition(conditions, WorkloadCondition.ADMITTED)
    if finished is None or finished.status != "True" or admitted is None:
        return None
    if finished.reason in NO_END:
        return None
    flavor = _flavor_of(workload)
    took = finished.transitioned_at - admitted.transitioned_at
    if admitted.status != "True" or took <= timedelta() or not flavor:
        return None
    return FinishedRun(
        uid=workload.metadata.uid,
        traits=traits,
        flavor=flavor,
        took=took,
        devices=max(1, _devices_of(workload)),
    )


def stem_of(name: str) -> str:
    """Return the part of a name that all runs share: ``train-bert`` of ``train-bert-17``.

    Trailing numbers, and trailing segments that mix letters and digits, are dropped.
    """
    parts = name.split("-")
    while len(parts) > 1 and _CHANCE.fullmatch(parts[-1]):
        parts.pop()
    return _COUNTER.sub("", "-".join(parts)) or name


def _class_of(
    workload: api.Workload, annotations: Mapping[str, str], pod_sets: Iterable[PodSet | PodSetView]
) -> str:
    """Return ``namespace/class`` as declared, or ``namespace/queue/name of the job/devices``."""
    meta = workload.metadata
    declared = (annotations.get(names.JOB_CLASS) or meta.labels.get(names.JOB_CLASS, "")).strip()
    if declared:
        return f"{meta.namespace}/{declared}"
    owner = next((ref.name for ref in meta.owner_references if ref.controller), "")
    devices = sum(
        amount * pod_set.count
        for pod_set in pod_sets
        for resource, amount in pod_set.requests.items()
        if "/" in resource
    )
    stem = stem_of(owner or _without_hash(meta.name))
    return f"{meta.namespace}/{workload.spec.queue_name}/{stem}/{devices}"


def _without_hash(name: str) -> str:
    """Drop the kind before a Workload's name and the hash after it."""
    before, _, last = name.rpartition("-")
    if not before or not _HASH.fullmatch(last):
        return name
    return before.partition("-")[2] or before


def _flavor_of(workload: api.Workload) -> str:
    admission = workload.status.admission
    if admission is None:
        return ""
    ran_on = find_ran_on(workload).flavors
    found = [
        ("/" not in resource, resource, ran_on.get((assignment.name, resource), flavor))
        for assignment in admission.pod_set_assignments
        for resource, flavor in assignment.flavors.items()
    ]
    return min(found)[2] if found else ""


def _devices_of(workload: api.Workload) -> int:
    admission = workload.status.admission
    return sum(
        parse_request(resource, quantity)
        for assignment in (admission.pod_set_assignments if admission is not None else ())
        for resource, quantity in assignment.resource_usage.items()
        if "/" in resource
    )
