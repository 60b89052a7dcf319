"""The scale subresource of every kind that declares the paths of its replicas."""

from typing import Any

from multiqueue.embedded.server.causes import invalid as invalid_cause
from multiqueue.embedded.server.kinds import JsonObject, Scale
from multiqueue.embedded.server.status import bad_request, invalid
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.update import Produce

API_VERSION = "autoscaling/v1"
_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(scale: Scale, obj: JsonObject) -> JsonObject:
    """The Scale that an object shows."""
    metadata = {name: obj["metadata"][name] for name in _COPIED if name in obj["metadata"]}
    status: JsonObject = {"replicas": _read(obj, scale.status_replicas_path) or 0}
    if scale.label_selector_path and (selector := _read(obj, scale.label_selector_path)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": metadata,
        "spec": {"replicas": _read(obj, scale.spec_replicas_path) or 0},
        "status": status,
    }


def through_scale(target: OperationTarget, scale: Scale, produce: Produce) -> Produce:
    """A change of an object from a change of its Scale."""

    def produce_object(obj: JsonObject) -> JsonObject:
        wanted = produce(scale_of(scale, obj))
        if not isinstance(wanted, dict) or wanted.get("kind") != "Scale":
            raise bad_request("the object in the request is not a Scale")
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            cause = invalid_cause("spec.replicas", replicas, "should be a non-negative integer")
            raise invalid(target.kind, target.name, [cause])
        write(obj, scale.spec_replicas_path, replicas)
        revision = (wanted.get("metadata") or {}).get("resourceVersion")
        if revision:
            obj["metadata"]["resourceVersion"] = revision
        return obj

    return produce_object


def _read(obj: Any, path: str) -> Any:
    for part in path.lstrip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


def write(obj: JsonObject, path: str, value: Any) -> None:
    """Set what a path of a CRD names: ``.spec.replicas``."""
    *parents, last = path.lstrip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value
