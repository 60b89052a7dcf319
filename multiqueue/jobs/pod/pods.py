"""What one pod says about itself and its group. Pure.

Parity: J-215, J-233 to J-247.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from multiqueue.api import names
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import MEMBERS, InvalidJobError, Job
from multiqueue.lib.digits import is_number
from multiqueue.lib.words import words

Pod = Job
TERMINATED = frozenset({"Succeeded", "Failed"})
ROLE_LENGTH = 8
SHAPE = words(
    "nodeSelector affinity tolerations runtimeClassName priority "
    "topologySpreadConstraints overhead resourceClaims"
)
"""Fields of a pod's spec that tell roles apart, beside containers (J-240)."""


def members_of(job: Job) -> Sequence[Pod]:
    """Return the pods of a group, oldest first; a pod without a group is its only member."""
    members: Sequence[Pod] = job.get(MEMBERS) or (job,)
    return members


def gather_group(pods: Iterable[Pod]) -> Job | None:
    """Return the job that the pods of one group make; None if none is left.

    It has the metadata of its oldest active pod, but is never being deleted: it is there as long as
    one of its pods is.
    """
    members = sorted((pod for pod in pods if not is_replaced(pod)), key=by_age)
    if not members:
        return None
    first = next(filter(is_active_member, members), members[0])
    hidden = "deletionTimestamp"
    metadata = {key: value for key, value in first["metadata"].items() if key != hidden}
    return {**first, "metadata": metadata, MEMBERS: members}


def is_group(job: Job) -> bool:
    """Whether a job is a group of pods."""
    return MEMBERS in job


def labels_of(pod: Pod) -> Mapping[str, str]:
    """Return the labels."""
    return pod["metadata"].get("labels") or {}


def annotations_of(pod: Pod) -> Mapping[str, str]:
    """Return the annotations."""
    return pod["metadata"].get("annotations") or {}


def group_name(pod: Pod) -> str:
    """Return the name of the pod's group, or an empty string; the annotation counts first."""
    annotation = annotations_of(pod).get(names.POD_GROUP_NAME)
    return str(annotation or labels_of(pod).get(names.POD_GROUP_NAME) or "")


def total_count(pod: Pod) -> int:
    """Return how many pods the group is to have.

    Raises:
        InvalidJobError: the annotation is missing or is not a positive number.
    """
    text = annotations_of(pod).get(names.POD_GROUP_TOTAL_COUNT)
    if text is None or not is_number(text) or int(text) < 1:
        found = "is missing" if text is None else f'"{text}" is not a positive whole number'
        raise InvalidJobError(
            f'pod "{pod["metadata"]["name"]}": annotation {names.POD_GROUP_TOTAL_COUNT} {found}'
        )
    return int(text)


def phase(pod: Pod) -> str:
    """Return the phase, or an empty string."""
    return str(get_field(pod, ("status", "phase")) or "")


def is_terminated(pod: Pod) -> bool:
    """Whether the pod succeeded or failed."""
    return phase(pod) in TERMINATED


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def gates_of(pod: Pod) -> tuple[str, ...]:
    """Return the names of the scheduling gates."""
    gates = get_field(pod, ("spec", "schedulingGates")) or ()
    return tuple(str(gate.get("name")) for gate in gates)


def is_gated(pod: Pod) -> bool:
    """Whether the pod waits for its admission."""
    return names.ADMISSION_GATE in gates_of(pod)


def is_held(pod: Pod) -> bool:
    """Whether our finalizer keeps the pod."""
    return names.MANAGED in (pod["metadata"].get("finalizers") or ())


def is_active_member(pod: Pod) -> bool:
    """Whether the pod fills its place in the group: it may run, runs, or has succeeded (J-247)."""
    if is_terminating(pod) and not get_field(pod, ("spec", "nodeName")):
        return False
    return phase(pod) != "Failed"


def is_replaced(pod: Pod) -> bool:
    """Whether the group was done with an inactive pod: our finalizer is gone."""
    stamped = names.POD_SUSPENDING_PARENT in annotations_of(pod)
    return not (is_active_member(pod) or is_held(pod) or stamped)


def is_ready(pod: Pod) -> bool:
    """Whether the condition Ready is True."""
    conditions = get_field(pod, ("status", "conditions")) or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def is_retriable(pod: Pod) -> bool:
    """Whether the group waits for a replacement if its pods fail (J-236)."""
    return annotations_of(pod).get(names.RETRIABLE_IN_GROUP) != "false"


def is_fast(job: Job) -> bool:
    """Whether the group is admitted when its first pod is there (J-246)."""
    return annotations_of(job).get(names.POD_GROUP_FAST_ADMISSION) == "true"


def is_serving(job: Job) -> bool:
    """Whether the group runs until it is deleted (J-259)."""
    return is_group(job) and annotations_of(job).get(names.POD_GROUP_SERVING) == "true"


def role_of(pod: Pod) -> str:
    """Return the name of the pod set that the pod belongs to (J-240)."""
    return str(annotations_of(pod).get(names.ROLE_HASH) or hash_role(pod.get("spec") or {}))


def hash_role(spec: Mapping[str, Any]) -> str:
    """Return the hash of everything that tells roles apart; images and commands do not (J-241)."""
    shape: dict[str, Any] = {field: spec.get(field) for field in SHAPE}
    for field in ("initContainers", "containers"):
        shape[field] = [_shape_of(container) for container in spec.get(field) or ()]
    requests = get_field(spec, ("resources", "requests"))
    if requests is not None:
        shape["resources"] = requests
    data = orjson.dumps({"spec": shape}, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(data).hexdigest()[:ROLE_LENGTH]


def _shape_of(container: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "requests": get_field(container, ("resources", "requests")),
        "ports": container.get("ports"),
    }


def ends_at(pod: Pod) -> datetime | None:
    """Return when a pod that is being deleted is to have ended; None if it is not (J-257).

    Its deletion time includes the grace period already. Upstream waits for it once more, and so do
    we, because a kubelet may start late.
    """
    deleted_at = parse_time(pod["metadata"].get("deletionTimestamp"))
    if deleted_at is None:
        return None
    grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    return deleted_at + timedelta(seconds=int(grace))


def created_at(pod: Pod) -> str:
    """Return the creation time, in wire format."""
    return str(pod["metadata"].get("creationTimestamp") or "")


def by_age(pod: Pod) -> tuple[str, str]:
    """Return what members are sorted by, oldest first."""
    return (created_at(pod), str(pod["metadata"]["name"]))


def by_worth(pod: Pod) -> tuple[bool, bool, str, str]:
    """Return what active members are sorted by; those to keep come first (J-248)."""
    return (not is_held(pod), is_gated(pod), *by_age(pod))


def by_last_activity(pod: Pod) -> tuple[bool, str]:
    """Return what inactive members are sorted by; those to release come first."""
    failed = next(
        (
            str(c.get("lastTransitionTime") or "")
            for c in get_field(pod, ("status", "conditions")) or ()
            if (c.get("type"), c.get("reason")) == ("ContainersReady", "PodFailed")
        ),
        "",
    )
    deleted = str(pod["metadata"].get("deletionTimestamp") or "")
    times = [time for time in (failed, deleted) if time]
    return (is_held(pod), min(times, default="9999"))
