"""Defaults and rules of batch/v1 Jobs, for webhooks and, without webhooks, for the reconciler.

Parity: M-136, and the job webhooks of Kueue 0.20.
Deviates: a queued Job that requests an extended resource without a limit gets the limit from the
request, with a warning; Kubernetes would refuse it. The parallelism of a Job that runs on a worker
cannot change; upstream accepts the change, but the worker never gets it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from multiqueue.api import names
from multiqueue.api.config import Configuration, Gate, Gates
from multiqueue.api.validation.access import Object, boolean, mapping, number, text
from multiqueue.api.validation.alternatives import (
    find_fewest,
    validate_alternatives,
    validate_alternatives_fit,
    validate_alternatives_update,
)
from multiqueue.api.validation.field_error import FieldError, forbidden, invalid
from multiqueue.api.validation.job_metadata import ANNOTATIONS, validate_job_metadata_update
from multiqueue.api.validation.pod_sets import is_elastic, iterate_resources
from multiqueue.api.validation.topology_annotations import (
    validate_slices_fit,
    validate_topology_annotations,
)
from multiqueue.api.validation.workload import is_int32
from multiqueue.jobs.batch_job.integration import is_stopping
from multiqueue.jobs.framework.defaulting import (
    JobDefaults,
    QueueLookup,
    default_labels,
    is_managed,
    is_to_delegate,
    queue_of,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.job_rules import (
    KindSupport,
    validate_new_job,
)
from multiqueue.kube.resources import JOBS
from multiqueue.model.resources import is_extended

TEMPLATE = "spec.template"
SUPPORT = KindSupport(gvk=GroupVersionKind.of_resource(JOBS), elastic=True)


class BatchJobWebhook:
    """The webhook of ``batch/job``."""

    mutates_on: Sequence[str] = ("CREATE",)

    def default(self, job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
        """Return the Job to create: queued, suspended, delegated."""
        return default_job(job, lookup, config)

    def validate_create(self, job: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a new Job."""
        return validate_job_create(job, config.gates)

    def validate_update(self, new: Object, old: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a change."""
        return validate_job_update(new, old, config.gates)


def default_job(job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
    """Return the Job to create: queued, suspended, delegated. The argument is not changed."""
    result = copy.deepcopy(dict(job))
    default_labels(result, lookup, config)
    if not isinstance(result.get("spec"), dict) or not is_managed(result, lookup, config):
        return JobDefaults(result)
    spec = result["spec"]
    spec["suspend"] = True
    managed_by, own = spec.get("managedBy"), names.KUBERNETES_JOB_CONTROLLER
    if is_to_delegate(result, lookup, config, managed_by=managed_by, own_controller=own):
        spec["managedBy"] = names.MULTIKUEUE_CONTROLLER
    if is_elastic(result) and config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES):
        _gate_pods(spec)
    warnings = list(_complete_limits(spec))
    namespace, queue = text(mapping(result, "metadata").get("namespace")), queue_of(result)
    if queue and not lookup.has_local_queue(namespace, queue):
        warnings.append(
            f'LocalQueue "{queue}" does not exist in namespace "{namespace}"; '
            "the Job waits until it is created"
        )
    return JobDefaults(result, tuple(warnings))


def _gate_pods(spec: dict[str, Any]) -> None:
    """Gate the pods of an elastic Job until a slice with quota for them is admitted (E-169)."""
    pod = mapping(spec, "template", "spec")
    gates, gate = pod.get("schedulingGates") or [], {"name": names.ELASTIC_GATE}
    if isinstance(pod, dict) and isinstance(gates, list) and gate not in gates:
        pod["schedulingGates"] = [*gates, gate]


def _complete_limits(spec: dict[str, Any]) -> Iterator[str]:
    pod = mapping(spec, "template", "spec")
    for path, resources in iterate_resources(pod, f"{TEMPLATE}.spec"):
        missing = {
            name: value
            for name, value in mapping(resources, "requests").items()
            if is_extended(name) and name not in mapping(resources, "limits")
        }
        if not missing or not isinstance(resources, dict):
            continue
        limits = resources.get("limits")
        resources["limits"] = {**(limits if isinstance(limits, dict) else {}), **missing}
        yield (
            f"{path}.limits: set to the requests of {', '.join(sorted(missing))}; "
            "Kubernetes needs equal limits for extended resources"
        )


def validate_job_create(job: Object, gates: Gates) -> list[FieldError]:
    """Return the errors of a new Job; if it is not queued, only its labels are checked."""
    return [
        *_validate(job, gates),
        *_partial_admission(job),
        *_alternatives_in_range(job),
        *_slices_fit(job),
    ]


def validate_job_update(new: Object, old: Object, gates: Gates) -> list[FieldError]:
    """Return the errors of a change; errors that were there before block no other change."""
    known = {(error.path, str(error.value)) for error in _validate(old, gates)}
    errors = [e for e in _validate(new, gates) if (e.path, str(e.value)) not in known]
    suspended, was_suspended = _is_suspended(new), _is_suspended(old)
    # A Job that is being stopped still has pods; its Workload holds the quota of its queue.
    errors.extend(
        validate_job_metadata_update(
            new,
            old,
            gates,
            suspended=suspended and not is_stopping(new),
            was_suspended=was_suspended and not is_stopping(old),
        )
    )
    errors.extend(
        _partial_admission_update(new, old, suspended=suspended, was_suspended=was_suspended)
    )
    if queue_of(new):
        is_resized = _parallelism(new) != _parallelism(old)
        runs = not suspended and not was_suspended
        errors.extend(validate_alternatives_update(new, old, is_resized=is_resized and runs))
        errors.extend(_alternatives_in_range(new) if is_resized and suspended else ())
        errors.extend(_dispatched_size(new, gates) if is_resized and runs else ())
    return errors


def _is_suspended(job: Object) -> bool:
    return mapping(job, "spec").get("suspend") is True


def _validate(job: Object, gates: Gates) -> Iterator[FieldError]:
    yield from validate_new_job(job, gates, SUPPORT)
    if not queue_of(job):
        return
    spec = mapping(job, "spec")
    yield from validate_alternatives(job)
    yield from _completions(job)
    yield from validate_topology_annotations(spec.get("template"), TEMPLATE)
    yield from _elastic_topology(job)


def _parallelism(job: Object) -> int:
    return number(mapping(job, "spec").get("parallelism"), 1)


def _partial_admission(job: Object) -> Iterator[FieldError]:
    """Check the least number of pods when it is written; a started Job may have just as many."""
    key = names.JOB_MIN_PARALLELISM
    value = mapping(job, "metadata", "annotations").get(key)
    if value is None:
        return
    path, most = f"{ANNOTATIONS}[{key}]", _pods(job) - 1
    if not is_int32(value):
        yield invalid(path, value, "must be a whole number")
    elif not 0 < int(str(value)) <= most:
        yield invalid(path, int(str(value)), f"should be between 0 and {most}")
    if is_elastic(job):
        yield invalid(path, value, "partial admission and elastic job cannot be used together")


def _pods(job: Object) -> int:
    completions = mapping(job, "spec").get("completions")
    return min(_parallelism(job), number(completions, _parallelism(job)))


def _slices_fit(job: Object) -> Iterator[FieldError]:
    """Check only what users write, like the minimum."""
    if queue_of(job):
        template = mapping(job, "spec").get("template")
        yield from validate_slices_fit(template, TEMPLATE, find_fewest(job, _pods(job)))


def _alternatives_in_range(job: Object) -> Iterator[FieldError]:
    """Check only what users write, like the minimum."""
    if queue_of(job):
        yield from validate_alternatives_fit(job, {names.DEFAULT_PODSET: _pods(job)})


def _dispatched_size(job: Object, gates: Gates) -> Iterator[FieldError]:
    """A worker runs the admitted number of pods; only elastic Jobs can change it there."""
    if mapping(job, "spec").get("managedBy") != names.MULTIKUEUE_CONTROLLER:
        return
    if not (is_elastic(job) and gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES)):
        detail = (
            "cannot change while a worker cluster runs the job; set spec.suspend to true in the "
            f'same change to queue it again, or create the job with {names.ELASTIC_JOB}: "true"'
        )
        yield forbidden("spec.parallelism", detail)


def _elastic_topology(job: Object) -> Iterator[FieldError]:
    """The nodes of changing numbers of pods are not planned together (E-165)."""
    annotations = mapping(job, "spec", "template", "metadata", "annotations")
    for key in (names.PODSET_REQUIRED_TOPOLOGY, names.PODSET_PREFERRED_TOPOLOGY):
        if is_elastic(job) and key in annotations:
            path = f"{TEMPLATE}.metadata.annotations[{key}]"
            mode = "required" if key == names.PODSET_REQUIRED_TOPOLOGY else "preferred"
            yield forbidden(path, f"{mode} topology is not supported with elastic jobs")


def _completions(job: Object) -> Iterator[FieldError]:
    key = names.JOB_COMPLETIONS_EQUAL_PARALLELISM
    value = mapping(job, "metadata", "annotations").get(key)
    if value is None:
        return
    path = f"{ANNOTATIONS}[{key}]"
    if boolean(value) is None:
        yield invalid(path, value, "must be true or false")
    if not boolean(value):
        return
    spec = mapping(job, "spec")
    if spec.get("completionMode") != "Indexed":
        yield invalid(path, value, "should not be enabled for NonIndexed jobs")
    if spec.get("completions") != _parallelism(job):
        detail = f"should be equal to parallelism when {key} is true"
        yield invalid("spec.completions", spec.get("completions"), detail)


def _partial_admission_update(
    new: Object, old: Object, *, suspended: bool, was_suspended: bool
) -> Iterator[FieldError]:
    """While pods may run, only we may change their number (J-176, J-178)."""
    before, after = (mapping(job, "metadata", "annotations") for job in (old, new))
    key = names.JOB_MIN_PARALLELISM
    if before.get(key) != after.get(key):
        yield from _partial_admission(new)
    if key in before and not was_suspended and _parallelism(new) != _parallelism(old):
        yield forbidden(
            "spec.parallelism",
            "cannot change when partial admission is enabled and the job is not suspended",
        )
    key = names.JOB_COMPLETIONS_EQUAL_PARALLELISM
    runs = not suspended and not was_suspended
    if runs and bool(boolean(before.get(key))) != bool(boolean(after.get(key))):
        detail = "field is immutable while the job is not suspended"
        yield forbidden(f"{ANNOTATIONS}[{key}]", detail)
