"""The defaults and rules that kinds share which are queued through their pods. Pure.

Parity: J-69, J-70, J-264, J-267, J-275, J-288, J-300, J-304, J-305.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError, immutable
from multiqueue.api.validation.job_metadata import LABELS, validate_job_metadata_update
from multiqueue.api.validation.topology_annotations import validate_topology_annotations
from multiqueue.jobs.framework.defaulting import (
    JobDefaults,
    QueueLookup,
    default_labels,
    is_managed,
    queue_of,
)
from multiqueue.jobs.framework.fields import FieldPath, describe_path, get_field, set_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.job_rules import (
    KindSupport,
    validate_new_job,
)
from multiqueue.jobs.framework.kind_webhook import is_queued
from multiqueue.jobs.pod.pods import SHAPE
from multiqueue.jobs.pod_owners.kind import PodOwnerKind

_FOLLOWED = (names.QUEUE_NAME, names.PRIORITY_CLASS)
_CHECKED_ANNOTATIONS = (names.ELASTIC_JOB, names.ADMISSION_GATED_BY)
_CONTAINER_SHAPE: Sequence[FieldPath] = (("resources", "requests"), ("ports",))


class PodOwnerWebhook:
    """The webhook of a kind that is queued through its pods; kinds add their own rules.

    Args:
        kind: The integration of the kind.
    """

    mutates_on: Sequence[str] = ("CREATE", "UPDATE")

    def __init__(self, kind: PodOwnerKind) -> None:
        self.kind = kind
        self.support = KindSupport(gvk=kind.gvk)

    # ------------------------------------------------------------ what a kind adds

    def stamp_template(self, job: Job, template: Job, path: FieldPath) -> Job:
        """Return a pod template with what its pods need."""
        return with_metadata(template, annotations={names.POD_SUSPENDING_PARENT: self.kind.name})

    def validate_more(self, job: Job) -> Iterator[FieldError]:
        """Yield the errors of a queued object by the rules that only this kind has."""
        yield from ()

    def validate_more_update(
        self, new: Job, old: Job, config: Configuration
    ) -> Iterator[FieldError]:
        """Yield the errors of a change of a queued object by the rules of this kind."""
        yield from ()

    # ------------------------------------------------------------ what all of them share

    def default(self, job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
        """Mark the pod templates of a queued object, so that its pods are gated.

        Deviates: an object with ready pods gets no default queue, which its rules would refuse.
        """
        result: Job = copy.deepcopy(dict(job))
        if self.kind.is_skipped(result):
            return JobDefaults(result)
        if self.kind.is_suspended(result):
            default_labels(result, lookup, config)
        if not is_managed(result, lookup, config):
            return JobDefaults(result)
        for path in self.kind.present_templates(result):
            template = self.stamp_template(result, get_field(result, path), path)
            result = set_field(result, path, template)
        return JobDefaults(result)

    def validate_create(self, job: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a new object."""
        return list(self._validate(job, config))

    def validate_update(self, new: Object, old: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a change; whether pods are ready counts by the old state (J-69)."""
        if self.kind.is_skipped(dict(new)):
            return []
        suspended = self.kind.is_suspended(dict(old))
        errors = list(self._validate(new, config))
        errors.extend(
            validate_job_metadata_update(
                _checked(new),
                _checked(old),
                config.gates,
                suspended=suspended,
                was_suspended=suspended,
            )
        )
        queue_path = f"{LABELS}[{names.QUEUE_NAME}]"
        if queue_of(old) and not queue_of(new) and all(e.path != queue_path for e in errors):
            errors.append(immutable(queue_path, ""))
        if is_queued(new, config):
            errors.extend(self.validate_more_update(dict(new), dict(old), config))
        return errors

    def validate_shape(self, new: Job, old: Job) -> Iterator[FieldError]:
        """Yield what changed of the shape of the pod templates (J-70)."""
        for path in self.kind.templates:
            if isinstance(get_field(new, path), dict) and isinstance(get_field(old, path), dict):
                yield from _compare_shapes(new, old, (*path, "spec"))

    def _validate(self, job: Object, config: Configuration) -> Iterator[FieldError]:
        """Deviates: upstream leaves topology annotations to the webhook of pods (91)."""
        if self.kind.is_skipped(dict(job)):
            return
        yield from validate_new_job(_checked(job), config.gates, self.support)
        if not is_queued(job, config):
            return
        yield from self.validate_more(dict(job))
        for path in self.kind.present_templates(dict(job)):
            yield from validate_topology_annotations(
                get_field(dict(job), path), describe_path(path)
            )


def with_metadata(
    template: Job, *, labels: Job | None = None, annotations: Job | None = None
) -> Job:
    """Return a pod template, or a pod, with further labels and annotations."""
    metadata = dict(template.get("metadata") or {})
    for field, added in (("labels", labels), ("annotations", annotations)):
        if added:
            metadata[field] = {**(metadata.get(field) or {}), **added}
    return {**template, "metadata": metadata}


def followed_labels(job: Object) -> dict[str, str]:
    """Return the labels of an object that its pods have, too: queue and priority class."""
    labels = mapping(job, "metadata", "labels")
    return {key: labels[key] for key in _FOLLOWED if labels.get(key)}


def _checked(job: Object) -> dict[str, Any]:
    """Return what the common rules check of such an object (J-69)."""
    labels, annotations = (mapping(job, "metadata", part) for part in ("labels", "annotations"))
    return {
        "metadata": {
            "labels": {key: labels[key] for key in _FOLLOWED if key in labels},
            "annotations": {
                key: annotations[key] for key in _CHECKED_ANNOTATIONS if key in annotations
            },
        }
    }


def _compare_shapes(new: Job, old: Job, at: FieldPath) -> Iterator[FieldError]:
    paths: list[FieldPath] = [(*at, field) for field in SHAPE]
    for field in ("initContainers", "containers"):
        after, before = (get_field(job, (*at, field)) or [] for job in (new, old))
        if len(after) != len(before):
            yield immutable(describe_path((*at, field)), after)
            continue
        for position in range(len(after)):
            paths.extend((*at, field, position, *part) for part in _CONTAINER_SHAPE)
    for path in paths:
        value, known = get_field(new, path), get_field(old, path)
        if (value or None) != (known or None):
            yield immutable(describe_path(path), value)
