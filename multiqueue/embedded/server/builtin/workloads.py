"""apps/v1, core/v1 Service and others: stored, defaulted and checked; no controller acts on
them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.embedded.server.builtin.pod_defaults import child, default_template
from multiqueue.embedded.server.builtin.pod_validation import validate_template
from multiqueue.embedded.server.causes import FieldCause, invalid, not_supported, required
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext

Json = Mapping[str, Any]


def _default_deployment(obj: JsonObject) -> None:
    spec = child(obj, "spec")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = child(spec, "strategy")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = child(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _template_and_status(obj)


def _default_replica_set(obj: JsonObject) -> None:
    child(obj, "spec").setdefault("replicas", 1)
    _template_and_status(obj)
    child(obj, "status").setdefault("replicas", 0)


def _default_stateful_set(obj: JsonObject) -> None:
    spec = child(obj, "spec")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = child(spec, "updateStrategy")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        child(strategy, "rollingUpdate").setdefault("partition", 0)
    policy = child(spec, "persistentVolumeClaimRetentionPolicy")
    policy.setdefault("whenDeleted", "Retain")
    policy.setdefault("whenScaled", "Retain")
    _template_and_status(obj)
    status = child(obj, "status")
    status.setdefault("replicas", 0)
    status.setdefault("availableReplicas", 0)


def _template_and_status(obj: JsonObject) -> None:
    default_template(child(obj["spec"], "template"))
    child(obj, "status")


def _validate(obj: JsonObject) -> list[FieldCause]:
    spec = obj["spec"]
    causes = []
    if spec.get("replicas", 0) < 0:
        text = "must be greater than or equal to 0"
        causes.append(invalid("spec.replicas", spec["replicas"], text))
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels", {})
    if not selector:
        causes.append(required("spec.selector"))
    elif any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        text = "`selector` does not match template `labels`"
        causes.append(invalid("spec.template.metadata.labels", labels, text))
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy != "Always":
        causes.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes + validate_template(spec["template"], "spec.template")


def _validate_update(new: JsonObject, old: Json, _context: RequestContext) -> list[FieldCause]:
    causes = _validate(new)
    if new["spec"].get("selector") != old["spec"].get("selector"):
        causes.append(invalid("spec.selector", new["spec"].get("selector"), "field is immutable"))
    return causes


def _hooks(default: Callable[[JsonObject], None]) -> Hooks:
    def prepare_create(obj: JsonObject, _context: RequestContext) -> None:
        obj["status"] = {}
        default(obj)

    return Hooks(
        default=default,
        prepare_create=prepare_create,
        validate_create=lambda obj, _context: _validate(obj),
        validate_update=_validate_update,
    )


DEPLOYMENT_HOOKS = _hooks(_default_deployment)
REPLICA_SET_HOOKS = _hooks(_default_replica_set)
STATEFUL_SET_HOOKS = _hooks(_default_stateful_set)


def _default_service(service: JsonObject) -> None:
    spec = child(service, "spec")
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])
    child(child(service, "status"), "loadBalancer")


def _prepare_service(service: JsonObject, _context: RequestContext) -> None:
    """No addresses are handed out here; a headless service is the honest form."""
    service["status"] = {"loadBalancer": {}}
    if service["spec"]["type"] != "ExternalName":
        service["spec"].setdefault("clusterIP", "None")


SERVICE_HOOKS = Hooks(default=_default_service, prepare_create=_prepare_service)


def _default_pod_template(obj: JsonObject) -> None:
    default_template(child(obj, "template"))


POD_TEMPLATE_HOOKS = Hooks(default=_default_pod_template)


LEASE_HOOKS = Hooks(default=lambda lease: lease.setdefault("spec", {}) and None)
