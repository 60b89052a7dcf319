"""core/v1 Namespace and Node."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.builtin.resources import validate_amount
from multiqueue.embedded.server.builtin.tolerations import validate_taints
from multiqueue.embedded.server.causes import FieldCause, forbidden, invalid
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext, Subresource
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
    """Only the finalize subresource changes them."""
    new["spec"]["finalizers"] = old.get("spec", {}).get("finalizers", [])


def _finalize(namespace: JsonObject, body: JsonObject, _context: RequestContext) -> JsonObject:
    namespace.setdefault("spec", {})["finalizers"] = body.get("spec", {}).get("finalizers", [])
    return namespace


NAMESPACE_HOOKS = Hooks(
    default=_default_namespace,
    prepare_create=_prepare_namespace,
    prepare_update=_keep_finalizers,
)
NAMESPACE_SUBRESOURCES = (
    Subresource(
        name="finalize",
        kind="Namespace",
        group="",
        version="v1",
        verbs=("update",),
        apply=_finalize,
    ),
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
    causes = validate_taints(node["spec"].get("taints", ()), "spec.taints")
    for field in ("capacity", "allocatable"):
        for name, amount in node["status"].get(field, {}).items():
            where = f"status.{field}"
            causes += check_name(name, where, names.qualified_name)
            causes += validate_amount(name, amount, f"{where}[{name}]")
    return causes


def _validate_node_update(
    node: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    causes = _validate_node(node)
    before, after = old["spec"].get("providerID"), node["spec"].get("providerID")
    if before and after != before:
        text = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden("spec.providerID", text))
    if old["spec"].get("podCIDR") and node["spec"].get("podCIDR") != old["spec"]["podCIDR"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        causes.append(invalid("spec.podCIDRs", node["spec"].get("podCIDR"), text))
    return causes


NODE_HOOKS = Hooks(
    default=_default_node,
    prepare_create=lambda node, _context: _cordon(node),
    prepare_update=lambda node, _old, _context: _cordon(node),
    validate_create=lambda node, _context: _validate_node(node),
    validate_update=_validate_node_update,
    validate_status=lambda node, _old, _context: _validate_node(node),
)
