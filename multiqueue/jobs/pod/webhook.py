"""The defaults and rules of pods. Pure. Parity: J-208 to J-211, J-225 to J-228, J-233 to J-237."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from multiqueue.api import names
from multiqueue.api.config import Configuration, Gate
from multiqueue.api.validation.access import Object, items, mapping, text
from multiqueue.api.validation.field_error import (
    FieldError,
    forbidden,
    immutable,
    invalid,
    required,
)
from multiqueue.api.validation.job_metadata import (
    ANNOTATIONS,
    LABELS,
    find_prebuilt,
    validate_job_metadata_update,
)
from multiqueue.api.validation.names import check_subdomain
from multiqueue.api.validation.topology_annotations import validate_topology_annotations
from multiqueue.jobs.framework.ancestors import controller_of
from multiqueue.jobs.framework.defaulting import (
    JobDefaults,
    QueueLookup,
    default_labels,
    is_managed,
)
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.job_rules import (
    KindSupport,
    validate_new_job,
)
from multiqueue.jobs.framework.kind_webhook import WebhookScope
from multiqueue.jobs.pod.integration import PodKind
from multiqueue.jobs.pod.pods import (
    gates_of,
    group_name,
    hash_role,
    is_gated,
    is_retriable,
    is_terminated,
)
from multiqueue.lib.digits import is_number


def _has(part: str, key: str) -> str:
    return f"has(o.metadata.{part}) && '{key}' in o.metadata.{part}"


def _either(condition: str) -> str:
    """Apply a condition to the object and to what it was: a label may be taken off."""
    return f"[object, oldObject].exists(o, o != null && ({condition}))"


TOTAL = f"{ANNOTATIONS}[{names.POD_GROUP_TOTAL_COUNT}]"


_STAMPED = _has("annotations", names.POD_SUSPENDING_PARENT)
STAMPED = _either(_STAMPED)
"""Pods of a kind that runs through its pods."""
QUEUED = _either(f"{_has('labels', names.QUEUE_NAME)} || {_STAMPED}")
WITHOUT_CONTROLLER = (
    "!has(object.metadata.ownerReferences)"
    " || !object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)
"""Pods that people make; a controller's pods get no default queue, nor wait for our answer."""
_START = (names.CLUSTER_QUEUE_NAME, names.LOCAL_QUEUE_NAME, names.PODSET, names.WORKLOAD)
"""Labels and annotations that each pod gets at its start; no rule reads them."""


def _is_same(part: str) -> str:
    at, was = f"object.metadata.{part}", f"oldObject.metadata.{part}"
    return (
        f"has({at}) && has({was})"
        f" && {at}.all(k, k in {list(_START)} || k in {was} && {was}[k] == {at}[k])"
        f" && {was}.all(k, k in {list(_START)} || k in {at})"
    )


VALIDATED = f"oldObject == null || !({_is_same('labels')} && {_is_same('annotations')})"
"""New pods, and changes of labels and annotations: the rules for changes read nothing else. So
neither the start of a pod nor the removal of its finalizer costs a call.
"""


def find_scope(name: str, config: Configuration) -> WebhookScope:
    """Return which pods the API server asks about.

    An outage of this program must not stop the pods of others. If pods are only implied, those that
    no other kind has marked are left alone (J-7).

    Args:
        name: The name of the kind in the Configuration.
        config: The Configuration.
    """
    if name not in config.integrations.frameworks:
        return WebhookScope(queued=STAMPED, others=None, validated=VALIDATED)
    return WebhookScope(queued=QUEUED, others=WITHOUT_CONTROLLER, validated=VALIDATED)


class PodWebhook:
    """The webhook of pods.

    Args:
        kind: The integration of pods.
    """

    mutates_on: Sequence[str] = ("CREATE",)

    def __init__(self, kind: PodKind) -> None:
        self._name = kind.name
        self._support = KindSupport(gvk=kind.gvk)

    def default(self, job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
        """Gate a new pod that is queued; a pod that is not is left as it is (J-7, J-208)."""
        pod: Job = copy.deepcopy(dict(job))
        if not all(isinstance(pod.get(part), dict) for part in ("metadata", "spec")):
            return JobDefaults(pod)  # the API server refuses it
        is_stamped = names.POD_SUSPENDING_PARENT in mapping(pod, "metadata", "annotations")
        if not is_stamped:
            if self._name not in config.integrations.frameworks:
                return JobDefaults(dict(job))
            default_labels(pod, lookup, config)
            if not is_managed(pod, lookup, config):
                return JobDefaults(pod, _warn(pod, lookup))
        warnings = () if is_stamped else _warn(pod, lookup)
        return JobDefaults(_gated(pod, config, is_stamped=is_stamped), warnings)

    def validate_create(self, job: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a new pod."""
        return list(self._validate(job, config))

    def validate_update(self, new: Object, old: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a change."""
        after, before = _readable(new), _readable(old)
        errors = list(
            validate_job_metadata_update(
                new,
                old,
                config.gates,
                suspended=_is_suspended(after),
                was_suspended=_is_suspended(before),
            )
        )
        errors.extend(self._validate(new, config))
        group = group_name(after)
        if group and not is_retriable(before) and is_retriable(after):
            path = f"{ANNOTATIONS}[{names.RETRIABLE_IN_GROUP}]"
            errors.append(forbidden(path, "unretriable pod group can't be converted to retriable"))
        if group_name(before) and group != group_name(before):
            errors.append(immutable(_group_path(new), group))
        return errors

    def _validate(self, pod: Object, config: Configuration) -> Iterator[FieldError]:
        yield from validate_new_job(pod, config.gates, self._support)
        managed = mapping(pod, "metadata", "labels").get(names.MANAGED)
        if managed is not None and managed != "true":
            path = f"{LABELS}[{names.MANAGED}]"
            yield forbidden(path, "managed label value can only be 'true'")
        yield from _validate_group(_readable(pod))
        yield from validate_topology_annotations(pod, "")
        prebuilt, group = find_prebuilt(pod), group_name(_readable(pod))
        if group and prebuilt and prebuilt != group:
            at = ANNOTATIONS if _annotation(pod, names.PREBUILT_WORKLOAD_NAME) else LABELS
            path = f"{at}[{names.PREBUILT_WORKLOAD_NAME}]"
            yield invalid(path, prebuilt, "prebuilt workload and pod group should be equal")


def _warn(pod: Job, lookup: QueueLookup) -> tuple[str, ...]:
    """Warn of a pod that is marked as queued although its owner is queued (J-226)."""
    controller = controller_of(pod) or {}
    is_owned = lookup.is_queued_kind(
        text(controller.get("apiVersion")), text(controller.get("kind"))
    )
    if not is_owned or mapping(pod, "metadata", "labels").get(names.MANAGED) != "true":
        return ()
    label = f"{names.MANAGED}=true"
    return (f"pod owner is managed by kueue, label '{label}' might lead to unexpected behaviour",)


def _gated(pod: Job, config: Configuration, *, is_stamped: bool) -> Job:
    """Add gates, role and, if nobody else queues the pod, label and finalizer (J-209 to J-211)."""
    metadata, spec = dict(pod.get("metadata") or {}), dict(pod["spec"])
    labels, annotations = (
        dict(metadata.get("labels") or {}),
        dict(metadata.get("annotations") or {}),
    )
    gates = [names.ADMISSION_GATE]
    labels[names.MANAGED] = "true"  # upstream labels stamped pods later; ours are watched by it
    if not is_stamped:
        finalizers = list(metadata.get("finalizers") or ())
        metadata["finalizers"] = finalizers + [names.MANAGED] * (names.MANAGED not in finalizers)
    if config.gates.enabled(Gate.TOPOLOGY_AWARE_SCHEDULING):
        gates.append(names.TOPOLOGY_GATE)
        rank = annotations.get(names.POD_GROUP_POD_INDEX_LABEL)
        if rank is not None:
            labels[names.POD_GROUP_POD_INDEX] = labels.get(rank, "")
    annotations.setdefault(names.ROLE_HASH, hash_role(spec))
    present = list(spec.get("schedulingGates") or ())
    missing = [{"name": gate} for gate in gates if gate not in gates_of(pod)]
    metadata.update(annotations=annotations, **({"labels": labels} if labels else {}))
    return {**pod, "metadata": metadata, "spec": {**spec, "schedulingGates": present + missing}}


def _readable(obj: Object) -> Job:
    """Return the parts that rules look at, if their types are right."""
    metadata, status = mapping(obj, "metadata"), mapping(obj, "status")
    gates = [
        {"name": gate.get("name")} for _, gate in items(mapping(obj, "spec").get("schedulingGates"))
    ]
    return {
        "metadata": {
            part: {
                key: value
                for key, value in mapping(metadata, part).items()
                if isinstance(value, str)
            }
            for part in ("labels", "annotations")
        },
        "spec": {"schedulingGates": gates},
        "status": {"phase": text(status.get("phase"))},
    }


def _is_suspended(pod: Job) -> bool:
    return is_gated(pod) or is_terminated(pod)


def _annotation(pod: Object, key: str) -> str:
    return text(mapping(pod, "metadata", "annotations").get(key))


def _group_path(pod: Object) -> str:
    at = ANNOTATIONS if _annotation(pod, names.POD_GROUP_NAME) else LABELS
    return f"{at}[{names.POD_GROUP_NAME}]"


def _validate_group(pod: Job) -> Iterator[FieldError]:
    """Check that a pod names both its group and the size of it (J-234, J-235)."""
    annotation, group = _annotation(pod, names.POD_GROUP_NAME), group_name(pod)
    what = "annotation" if annotation else "label"
    both = (
        f"both the '{names.POD_GROUP_TOTAL_COUNT}' annotation and the '{names.POD_GROUP_NAME}'"
        f" {what} should be set"
    )
    total = mapping(pod, "metadata", "annotations").get(names.POD_GROUP_TOTAL_COUNT)
    if not group:
        if total is not None:
            yield required(_group_path(pod), both)
        return
    for message in check_subdomain(group):
        yield invalid(_group_path(pod), group, message)
    if total is None:
        yield required(TOTAL, both)
    elif not isinstance(total, str) or not is_number(total):
        yield invalid(TOTAL, total, "should be a whole number greater than zero")
    elif int(total) < 1:
        found = f"{names.POD_GROUP_TOTAL_COUNT}={total}"
        zero = (
            f"incorrect annotation value '{found}': group total count should be greater than zero"
        )
        yield invalid(TOTAL, total, zero)
