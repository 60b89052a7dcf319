"""core/v1 Pod: admission (priority, service account), hooks, binding, eviction."""

import copy
from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.builtin.pod_defaults import child, default_pod
from multiqueue.embedded.server.builtin.pod_validation import validate_pod_spec
from multiqueue.embedded.server.builtin.priority import resolve_priority
from multiqueue.embedded.server.causes import FieldCause, forbidden
from multiqueue.embedded.server.kinds import (
    AdmissionRefused,
    Hooks,
    JsonObject,
    RequestContext,
    Subresource,
)

_UNREACHABLE_SECONDS = 300
_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_IMMUTABLE_TEXT = (
    "pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _prepare_create(pod: JsonObject, context: RequestContext) -> None:
    spec = pod["spec"]
    resolve_priority(spec, context)
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    _tolerate_short_outages(spec)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": context.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        ]


def _tolerate_short_outages(spec: JsonObject) -> None:
    tolerations = spec.get("tolerations", [])
    added = [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _UNREACHABLE_SECONDS,
        }
        for key in _NODE_TAINTS
        if not any(_covers(toleration, key) for toleration in tolerations)
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    return bool(
        toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute"
    )


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, by the requests and limits of cpu and memory."""
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    resources = [container.get("resources", {}) for container in containers]
    if not any(resource.get("requests") or resource.get("limits") for resource in resources):
        return "BestEffort"
    guaranteed = all(
        resource.get("limits", {}).get(name)
        and resource.get("requests", {}).get(name) == resource["limits"][name]
        for resource in resources
        for name in ("cpu", "memory")
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _validate_create(pod: JsonObject, _context: RequestContext) -> list[FieldCause]:
    return validate_pod_spec(pod["spec"], "spec")


def _validate_update(
    new: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    causes = validate_pod_spec(new["spec"], "spec")
    if new["spec"] == old["spec"]:
        return causes
    causes += _gates_change(new["spec"], old["spec"])
    if _with_mutable_of(new["spec"], old["spec"]) != new["spec"]:
        causes.append(forbidden("spec", _IMMUTABLE_TEXT))
    return causes


def _gates_change(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldCause]:
    before = {gate.get("name") for gate in old.get("schedulingGates", ())}
    return [
        forbidden(f"spec.schedulingGates[{index}].name", "only deletion is allowed")
        for index, gate in enumerate(new.get("schedulingGates", ()))
        if gate.get("name") not in before
    ]


def _with_mutable_of(new: Mapping[str, Any], old: Mapping[str, Any]) -> JsonObject:
    """The old spec with those fields of the new one that may change."""
    result: JsonObject = copy.deepcopy(dict(old))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(new.get(field, ())):
            if index < len(result.get(field, ())) and "image" in container:
                result[field][index]["image"] = container["image"]
    mutable = ["activeDeadlineSeconds", "schedulingGates"]
    tolerations = old.get("tolerations", [])
    if all(toleration in new.get("tolerations", ()) for toleration in tolerations):
        mutable.append("tolerations")
    if old.get("terminationGracePeriodSeconds", 0) < 0:
        mutable.append("terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        mutable += ["nodeSelector", "affinity"]
    for field in mutable:
        result.pop(field, None)
        if field in new:
            result[field] = new[field]
    return result


def _prepare_status(new: JsonObject, _old: Mapping[str, Any], _context: RequestContext) -> None:
    child(new, "status").setdefault("qosClass", qos_class(new["spec"]))


POD_HOOKS = Hooks(
    default=default_pod,
    prepare_create=_prepare_create,
    prepare_status=_prepare_status,
    validate_create=_validate_create,
    validate_update=_validate_update,
)


def _bind(pod: JsonObject, binding: JsonObject, context: RequestContext) -> JsonObject:
    target = binding.get("target", {}).get("name")
    if not target:
        raise AdmissionRefused("target.name: Required value")
    if pod["metadata"].get("deletionTimestamp"):
        raise ValueError(
            f"pod {pod['metadata']['name']} is being deleted, cannot be assigned to a host"
        )
    if assigned := pod["spec"].get("nodeName"):
        raise ValueError(f'pod {pod["metadata"]["name"]} is already assigned to node "{assigned}"')
    if pod["spec"].get("schedulingGates"):
        name = pod["metadata"]["name"]
        raise ValueError(f"pod {name} has non-empty .spec.schedulingGates")
    pod["spec"]["nodeName"] = target
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": context.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    conditions = pod["status"].get("conditions", [])
    others = [condition for condition in conditions if condition["type"] != "PodScheduled"]
    pod["status"]["conditions"] = [*others, scheduled]
    return pod


def _success(_pod: JsonObject, _body: JsonObject) -> JsonObject:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


POD_SUBRESOURCES = (
    Subresource(
        name="binding",
        kind="Binding",
        group="",
        version="v1",
        verbs=("create",),
        apply=_bind,
        answer=_success,
    ),
    Subresource(
        name="eviction",
        kind="Eviction",
        group="policy",
        version="v1",
        verbs=("create",),
        answer=_success,
        deletes=True,
    ),
    Subresource(name="log", kind="Pod", group="", version="v1", verbs=("get",)),
)
