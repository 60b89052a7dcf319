"""core/v1 Namespace and Node."""

from collections.abc import Mapping
from typing import Any

from multiqueue.api.validation.scheduling import validate_taints
from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.builtin.resources import validate_amount
from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names

NAMESPACE_FINALIZER = "kubernetes"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def _default_namespace(namespace: JsonObject) -> None:
    child(namespace, "spec")
    child(namespace, "status").setdefault("phase", "Active")
    metadata = child(namespace, "metadata")
    if name := metadata.get("name"):
        child(metadata, "labels")[NAMESPACE_NAME_LABEL] = name


def _prepare_namespace(namespace: JsonObject, _context: RequestContext) -> None:
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace["spec"].get("finalizers", [])
    if NAMESPACE_FINALIZER not in finalizers:
        namespace["spec"]["finalizers"] = [*finalizers, NAMESPACE_FINALIZER]


def _keep_finalizers(new: JsonObject, old: Mapping[str, Any], _context: RequestContext) -> None:
    """They go when the namespace is empty; nobody else changes them."""
    new["spec"]["finalizers"] = old.get("spec", {}).get("finalizers", [])


NAMESPACE_HOOKS = Hooks(
    default=_default_namespace,
    prepare_create=_prepare_namespace,
    prepare_update=_keep_finalizers,
)


def _default_node(node: JsonObject) -> None:
    child(node, "spec")
    status = child(node, "status")
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _cordon(node: JsonObject) -> None:
    """The taint of an unschedulable node; in a real cluster a controller adds it a moment later."""
    spec = node["spec"]
    taints = [
        taint for taint in spec.get("taints", ()) if taint.get("key") != UNSCHEDULABLE_TAINT["key"]
    ]
    if spec.get("unschedulable"):
        taints.append(dict(UNSCHEDULABLE_TAINT))
    if taints:
        spec["taints"] = taints
    else:
        spec.pop("taints", None)


def _validate_node(node: JsonObject) -> list[FieldCause]:
    causes = [
        FieldCause(error.type.value, error.path, error.message)
        for error in validate_taints(node["spec"].get("taints", ()), "spec.taints")
    ]
    for field in ("capacity", "allocatable"):
        for name, amount in node["status"].get(field, {}).items():
            where = f"status.{field}"
            causes += check_name(name, where, names.qualified_name)
            causes += validate_amount(name, amount, f"{where}[{name}]")
    return causes


NODE_HOOKS = Hooks(
    default=_default_node,
    prepare_create=lambda node, _context: _cordon(node),
    prepare_update=lambda node, _old, _context: _cordon(node),
    validate_create=lambda node, _context: _validate_node(node),
    validate_update=lambda node, _old, _context: _validate_node(node),
    validate_status=lambda node, _old, _context: _validate_node(node),
)
