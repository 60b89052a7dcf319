"""Defaults of Pod specs and templates, as core/v1 applies them.

Not of what only a container would find: variables, probes, volumes.
"""

from multiqueue.embedded.server.kinds import JsonObject

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


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
            _default_container(container)


def _default_container(container: JsonObject) -> None:
    child(container, "resources")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")  # a part of the key by which ports are merged


def pull_policy(image: str) -> str:
    """Always for the tag ``latest`` or none, else IfNotPresent."""
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition(":")
    untagged = not colon or "/" in tag
    return "Always" if untagged or tag == "latest" else "IfNotPresent"
