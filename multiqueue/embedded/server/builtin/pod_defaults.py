"""Defaults of Pod specs and templates, as core/v1 applies them."""

from collections.abc import Iterator
from typing import Any

from multiqueue.embedded.server.kinds import JsonObject

DEFAULT_MODE = 0o644
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def child(obj: JsonObject, name: str) -> JsonObject:
    """A nested object, made if absent: what is not a pointer in Go always exists."""
    inner: JsonObject = obj.setdefault(name, {})
    return inner


def default_pod(pod: JsonObject) -> None:
    """A Pod: the spec's defaults, and requests taken from limits."""
    spec = child(pod, "spec")
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        requests_from_limits(container)
    child(pod, "status")


def requests_from_limits(container: JsonObject) -> None:
    """A limit without a request is the request too."""
    resources = child(container, "resources")
    for name, amount in resources.get("limits", {}).items():
        child(resources, "requests").setdefault(name, amount)


def default_template(template: JsonObject) -> None:
    """A Pod template of a Job, Deployment and so on."""
    child(template, "metadata")
    default_pod_spec(child(template, "spec"))


def default_pod_spec(spec: JsonObject) -> None:
    """Defaults of a Pod spec, in a Pod or a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for field in CONTAINER_LISTS:
        for container in spec.get(field, ()):
            _default_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def _default_container(container: JsonObject, *, host_network: bool) -> None:
    child(container, "resources")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env", ()):
        _default_field_ref(variable.get("valueFrom", {}))
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict):
            _default_http_get(hook)


def pull_policy(image: str) -> str:
    """Always for the tag ``latest`` or none, else IfNotPresent."""
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition(":")
    untagged = not colon or "/" in tag
    return "Always" if untagged or tag == "latest" else "IfNotPresent"


def _default_probe(probe: JsonObject) -> None:
    for name, value in _PROBE_DEFAULTS.items():
        probe.setdefault(name, value)
    _default_http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(handler: JsonObject) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _default_field_ref(source: JsonObject) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")


def _default_volume(volume: JsonObject) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", DEFAULT_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in _downward_items(volume):
        _default_field_ref(item)
    for source in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if "ephemeral" in volume:
        claim = child(child(volume["ephemeral"], "volumeClaimTemplate"), "spec")
        claim.setdefault("volumeMode", "Filesystem")


def _downward_items(volume: JsonObject) -> Iterator[Any]:
    yield from volume.get("downwardAPI", {}).get("items", ())
    for source in volume.get("projected", {}).get("sources", ()):
        yield from source.get("downwardAPI", {}).get("items", ())
