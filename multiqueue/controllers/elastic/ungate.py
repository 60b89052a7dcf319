"""Which pods of an elastic job may start: as many as its slice holds quota for. Pure.

Parity: E-169.
Deviates: a waiting pod follows the newest ProvisioningRequest; upstream leaves it gated if an
earlier slice named another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.api import names
from multiqueue.api.slices import counts_of, is_elastic
from multiqueue.api.v1beta2 import PodSetUpdate, Workload
from multiqueue.api.workload_checks import merge_pod_set_updates
from multiqueue.api.workload_state import is_admitted, is_finished
from multiqueue.jobs.framework.slices import arrange, is_leaving

Pod = Mapping[str, Any]

_ENDED = frozenset({"Succeeded", "Failed"})
_ANNOTATIONS = (names.CONSUME_PROVISIONING_REQUEST, names.PROVISIONING_CLASS_NAME)
"""Node selector keys from checks; they may differ from slice to slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UngateVerdict:
    """What to do with the pods of a job.

    Shape: ``patches`` by name of the pod, in the order of the names. ``waits`` says that more pods
    can start once the pods under deletion are gone.
    """

    patches: Mapping[str, Mapping[str, Any]]
    waits: bool = False


def granted_slice(workloads: Sequence[Workload], prebuilt: Workload | None) -> Workload | None:
    """Return the slice whose pods may run; None if no pod of the job may.

    Args:
        workloads: all Workloads that the job owns, oldest first.
        prebuilt: the Workload that the job names itself, if any.
    """
    if prebuilt is None:
        return arrange(workloads, {}).running
    status = prebuilt.status
    may_run = is_elastic(prebuilt) and is_admitted(status) and not is_finished(status)
    return prebuilt if may_run and not is_leaving(prebuilt) else None


def decide_ungating(slice_: Workload, pods: Sequence[Pod]) -> UngateVerdict:
    """Choose the pods that may start, by name.

    Args:
        slice_: The admitted slice.
        pods: All pods of the job.
    """
    updates = merge_pod_set_updates(slice_.status)
    if isinstance(updates, str):
        return UngateVerdict(patches={})  # these pods alone could not start the job (E-153)
    patches: dict[str, Mapping[str, Any]] = {}
    waits = False
    for name, count in counts_of(slice_.spec.pod_sets).items():
        members = [pod for pod in pods if _pod_set(pod) == name and not _is_ended(pod)]
        released = [pod for pod in members if not is_gated(pod)]
        gated = sorted((pod for pod in members if is_gated(pod)), key=_name)
        fitting = [pod for pod in gated if _fits(pod, updates.get(name))]
        room = max(0, count - len(released))
        for pod in fitting[:room]:
            patches[_name(pod)] = _patch(pod, updates.get(name))
        waits |= len(fitting) > room and any(_is_going(pod) for pod in released)
    return UngateVerdict(patches=patches, waits=waits)


def is_gated(pod: Pod) -> bool:
    """Whether a pod waits until its slice is admitted."""
    return {"name": names.ELASTIC_GATE} in (pod["spec"].get("schedulingGates") or ())


def _pod_set(pod: Pod) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get(names.PODSET) or names.DEFAULT_PODSET)


def _name(pod: Pod) -> str:
    return str(pod["metadata"]["name"])


def _is_ended(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def _is_going(pod: Pod) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _fits(pod: Pod, update: PodSetUpdate | None) -> bool:
    """Whether the pod can get the node selector: keys can be added, never changed."""
    if _is_going(pod):
        return False
    has = pod["spec"].get("nodeSelector") or {}
    wanted = update.node_selector if update is not None else {}
    return all(has.get(key, value) == value for key, value in wanted.items())


def _patch(pod: Pod, update: PodSetUpdate | None) -> Mapping[str, Any]:
    gates = [
        gate for gate in pod["spec"]["schedulingGates"] if gate != {"name": names.ELASTIC_GATE}
    ]
    metadata: dict[str, Any] = {
        "uid": pod["metadata"]["uid"],
        "resourceVersion": pod["metadata"]["resourceVersion"],
    }
    spec: dict[str, Any] = {"schedulingGates": gates or None}
    if update is not None:
        told = {key: update.annotations[key] for key in _ANNOTATIONS if key in update.annotations}
        if told:
            metadata["annotations"] = told
        if update.node_selector:
            spec["nodeSelector"] = dict(update.node_selector)
    return {"metadata": metadata, "spec": spec}
