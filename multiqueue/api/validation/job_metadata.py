"""Rules that all job kinds share: our labels and annotations, and topology requests.

Parity: the job webhooks of Kueue 0.20.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multiqueue.api import names
from multiqueue.api.config.gates import Gate, Gates
from multiqueue.api.validation.access import Object, mapping, text
from multiqueue.api.validation.cluster_constraints import OF_JOBS, validate_annotations
from multiqueue.api.validation.field_error import (
    FieldError,
    immutable,
    invalid,
)
from multiqueue.api.validation.names import check_subdomain
from multiqueue.api.validation.pod_sets import is_elastic
from multiqueue.api.validation.workload import (
    validate_admission_gates_update,
    validate_workload_annotations,
)
from multiqueue.lib.digits import is_number

LABELS = "metadata.labels"
ANNOTATIONS = "metadata.annotations"


def find_prebuilt(obj: Object) -> str:
    """Return the name of the job's prebuilt Workload; empty if it has none."""
    metadata = mapping(obj, "metadata")
    key = names.PREBUILT_WORKLOAD_NAME
    annotation = mapping(metadata, "annotations").get(key)
    return text(annotation) or text(mapping(metadata, "labels").get(key))


def validate_job_metadata(obj: Object, gates: Gates) -> Iterator[FieldError]:
    """Check the labels and annotations of a job that is queued or may be."""
    labels = mapping(obj, "metadata", "labels")
    queue = labels.get(names.QUEUE_NAME)
    for message in check_subdomain(queue) if isinstance(queue, str) else ():
        yield invalid(f"{LABELS}[{names.QUEUE_NAME}]", queue, message)
    yield from _prebuilt(obj)
    seconds = labels.get(names.MAX_EXEC_TIME_SECONDS)
    if seconds is not None and not _is_positive(seconds):
        path = f"{LABELS}[{names.MAX_EXEC_TIME_SECONDS}]"
        yield invalid(path, seconds, "should be a whole number greater than 0")
    yield from validate_workload_annotations(obj, gates)
    yield from validate_annotations(obj, OF_JOBS)


def _prebuilt(obj: Object) -> Iterator[FieldError]:
    """Check the name of the prebuilt Workload, where it is given."""
    name = find_prebuilt(obj)
    if name or names.PREBUILT_WORKLOAD_NAME in mapping(obj, "metadata", "labels"):
        for message in check_subdomain(name):
            yield invalid(prebuilt_path(obj), name, message)


def prebuilt_path(obj: Object) -> str:
    """Return the field that names the prebuilt Workload: the annotation, or else the label."""
    key = names.PREBUILT_WORKLOAD_NAME
    field = ANNOTATIONS if text(mapping(obj, "metadata", "annotations").get(key)) else LABELS
    return f"{field}[{key}]"


def _is_positive(value: Any) -> bool:
    return isinstance(value, str) and is_number(value) and int(value) > 0


def validate_job_metadata_update(
    new: Object, old: Object, gates: Gates, *, suspended: bool, was_suspended: bool
) -> Iterator[FieldError]:
    """Check a change of labels and annotations.

    Args:
        new: the new state of the job.
        old: the present state of the job.
        gates: the feature gates of the Configuration.
        suspended: whether the new state is suspended.
        was_suspended: whether the present state is suspended.
    """
    after, before = mapping(new, "metadata", "labels"), mapping(old, "metadata", "labels")
    frozen = [] if suspended or _is_import(new, old) else [names.QUEUE_NAME]
    if not (suspended and was_suspended):
        frozen.append(names.MAX_EXEC_TIME_SECONDS)
    for key in frozen:
        if text(after.get(key)) != text(before.get(key)):
            yield immutable(f"{LABELS}[{key}]", text(after.get(key)))
    # The remote job of an elastic job changes from slice to slice (M-161).
    if not suspended and find_prebuilt(new) != find_prebuilt(old) and not _is_elastic(old, gates):
        yield immutable(prebuilt_path(new), find_prebuilt(new))
    yield from _priority_class(after, before, suspended=suspended)
    # The scheduling gate of the job's pods is set when the job is created, or never (E-169).
    if _is_elastic(new, gates) != _is_elastic(old, gates):
        yield immutable(f"{ANNOTATIONS}[{names.ELASTIC_JOB}]", _is_elastic(new, gates))
    if gates.enabled(Gate.ADMISSION_GATED_BY):
        yield from validate_admission_gates_update(new, old)


def _is_import(new: Object, old: Object) -> bool:
    """Whether ``multiqueue import`` gives a running job its first queue.

    Deviates: upstream's importer needs a manager that does not serve the webhook of pods.
    """
    after, before = (mapping(job, "metadata", "annotations") for job in (new, old))
    had_queue = text(mapping(old, "metadata", "labels").get(names.QUEUE_NAME))
    return names.IMPORTED_AT in after and names.IMPORTED_AT not in before and not had_queue


def _is_elastic(job: Object, gates: Gates) -> bool:
    return gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES) and is_elastic(job)


def _priority_class(after: Object, before: Object, *, suspended: bool) -> Iterator[FieldError]:
    """Check the priority class: it may change at any time, be added only while suspended, and never
    be removed.
    """
    key = names.PRIORITY_CLASS
    path = f"{LABELS}[{key}]"
    had, has = text(before.get(key)), text(after.get(key))
    if had and not has:
        yield invalid(path, has, "WorkloadPriorityClass cannot be removed from a workload")
    if has and not had and not suspended:
        detail = "WorkloadPriorityClass cannot be added to a non-suspended workload"
        yield invalid(path, has, detail)
