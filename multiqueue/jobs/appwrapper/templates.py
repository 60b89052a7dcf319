"""What a Workload has of a component's pod template, with the API server's defaults. Pure.

A component is not checked against the schema of pods, so it lacks the defaults that stored pods
have. A worker of upstream compares Workloads that have them. Parity: J-471. Deviates: the restart
policy of init containers is kept, since it decides how a side container's requests are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

_POD_FIELDS = (
    "nodeSelector",
    "nodeName",
    "affinity",
    "tolerations",
    "priorityClassName",
    "overhead",
    "topologySpreadConstraints",
)
_POD_DEFAULTS: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER_FIELDS = ("name", "image", "command", "args", "securityContext", "restartPolicy")
_CONTAINER_DEFAULTS: Object = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def workload_template(found: Object) -> dict[str, Any]:
    """Return what a Workload keeps of a pod template, or of a pod."""
    metadata, spec = found.get("metadata") or {}, found["spec"]
    pod = {**_kept(spec, *_POD_FIELDS), **_defaulted(spec, _POD_DEFAULTS)}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            pod[field] = [_container(each) for each in spec[field]]
    return {"metadata": _kept(metadata, "labels", "annotations"), "spec": pod}


def _container(found: Object) -> dict[str, Any]:
    pull = "Always" if _is_latest(found.get("image") or "") else "IfNotPresent"
    return {
        **_kept(found, *_CONTAINER_FIELDS),
        **_defaulted(found, {**_CONTAINER_DEFAULTS, "imagePullPolicy": pull}),
        "resources": _kept(found.get("resources") or {}, "requests", "limits"),
    }


def _is_latest(image: str) -> bool:
    """Whether an image has the tag ``latest``, or neither a tag nor a digest."""
    name, _, digest = image.rpartition("/")[2].partition("@")
    tag = name.partition(":")[2]
    return tag == "latest" if tag else not digest


def _kept(found: Object, *fields: str) -> dict[str, Any]:
    return {field: found[field] for field in fields if found.get(field) is not None}


def _defaulted(found: Object, defaults: Object) -> dict[str, Any]:
    return {field: found.get(field) or default for field, default in defaults.items()}
