"""The rules that the jobs of every kind have to obey, when created and when changed. Pure.

A kind says what it supports; its own rules are in its webhook. Parity: J-52 to J-67.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from multiqueue.api import names
from multiqueue.api.config import Gate, Gates
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError, forbidden, invalid
from multiqueue.api.validation.job_metadata import (
    ANNOTATIONS,
    LABELS,
    find_prebuilt,
    prebuilt_path,
    validate_job_metadata,
)
from multiqueue.api.validation.pod_sets import is_elastic
from multiqueue.jobs.framework.defaulting import queue_of
from multiqueue.jobs.framework.gvk import GroupVersionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSupport:
    """What the rules need to know about a kind.

    Attributes:
        gvk: The kind, for messages.
        prebuilt: Whether a job of the kind may name a prebuilt Workload (J-55). Deviates: the copy
            of a job from a manager always may, because it cannot run otherwise (J-56).
        elastic: Whether a job of the kind may be elastic (J-58).
    """

    gvk: GroupVersionKind
    prebuilt: bool = True
    elastic: bool = False


def validate_new_job(job: Object, gates: Gates, support: KindSupport) -> Iterator[FieldError]:
    """Yield the errors of a job's labels and annotations, whether it is queued or not (J-52)."""
    yield from validate_job_metadata(job, gates)
    is_copy = names.MULTIKUEUE_ORIGIN in mapping(job, "metadata", "labels")
    if not support.prebuilt and find_prebuilt(job) and not is_copy:
        yield forbidden(prebuilt_path(job), f'Is not supported for "{support.gvk}"')
    is_gated = gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES)
    if not support.elastic and is_gated and is_elastic(job):
        path = f"{ANNOTATIONS}[{names.ELASTIC_JOB}]"
        yield forbidden(path, f'elastic job is not supported for "{support.gvk}"')


def validate_left_queue(new: Object, old: Object, errors: Iterable[FieldError]) -> list[FieldError]:
    """Return the error of a job that leaves its queue in a namespace with a default one (J-62).

    Args:
        new: The new state of the job.
        old: The present state of the job.
        errors: What is known to be wrong already; it is not said twice.
    """
    path = f"{LABELS}[{names.QUEUE_NAME}]"
    if not queue_of(old) or queue_of(new) or any(error.path == path for error in errors):
        return []
    return [invalid(path, "", "queue-name must not be empty in namespace with default queue")]
