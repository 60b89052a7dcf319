"""Small manifests for the linter, and what it says about them."""

from __future__ import annotations

from typing import Any

from multiqueue.api.config import Configuration, load_configuration
from multiqueue.lint.catalogue import RULES
from multiqueue.lint.finding import Finding
from multiqueue.lint.run import lint
from multiqueue.lint.world import LintEntry, LintInput, LintSurroundings

Json = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"


def obj(kind: str, name: str, spec: Json | None = None, **rest: Any) -> Json:
    """One of our kinds; ``namespace`` and ``labels`` go to its metadata."""
    metadata = {"name": name}
    metadata.update({k: rest.pop(k) for k in ("namespace", "labels") if k in rest})
    version = rest.pop("version", KUEUE)
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": metadata,
        **({} if spec is None else {"spec": spec}),
        **rest,
    }


def quota(resource: str = "cpu", nominal: str = "8", **limits: str) -> Json:
    return {"name": resource, "nominalQuota": nominal, **limits}


def cluster_queue(name: str = "cq", *quotas: Json, flavor: str = "f", **spec: Any) -> Json:
    """A ClusterQueue with one flavor, open to all namespaces; 8 CPUs unless said otherwise."""
    listed = list(quotas) or [quota()]
    groups = [
        {
            "coveredResources": [q["name"] for q in listed],
            "flavors": [{"name": flavor, "resources": listed}],
        }
    ]
    return obj("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def local_queue(name: str = "q", *, to: str = "cq", namespace: str = "n", **spec: Any) -> Json:
    return obj("LocalQueue", name, {"clusterQueue": to, **spec}, namespace=namespace)


def flavor(name: str = "f", **spec: Any) -> Json:
    return obj("ResourceFlavor", name, spec)


def check(name: str, controller: str, config: str, kind: str = "MultiKueueConfig") -> Json:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": kind, "name": config}
    return obj("AdmissionCheck", name, {"controllerName": controller, "parameters": parameters})


def checked(*names: str, on_flavors: list[str] | None = None) -> Json:
    """The part of a ClusterQueue's spec that names its checks."""
    more = {"onFlavors": on_flavors} if on_flavors else {}
    return {"admissionChecks": [{"name": name, **more} for name in names]}


def node(name: str, *, labels: Json | None = None, cpu: str = "8", taints: Any = ()) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": cpu}},
    }


def namespace(name: str = "n", **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def priority(name: str, value: int) -> Json:
    return {**obj("WorkloadPriorityClass", name), "value": value}


def job(
    *,
    queue: str = "q",
    requests: Json | None = None,
    annotations: Json | None = None,
    labels: Json | None = None,
    spec: Json | None = None,
    pod: Json | None = None,
    container: Json | None = None,
) -> Json:
    """A Job "j" in namespace "n" that requests one CPU."""
    resources = {"requests": {"cpu": "1"} if requests is None else requests}
    containers = [{"name": "c", "image": "i", "resources": resources, **(container or {})}]
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}}
    template["spec"].update(pod or {})  # type: ignore[arg-type]
    queue_label = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "n",
            "labels": {**queue_label, **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {"template": template, **(spec or {})},
    }


def world(*objects: Json, config: str | None = None, **around: Any) -> LintInput:
    """A world from files; ``complete``: kinds of which these are all."""
    loaded: Configuration | None = load_configuration(config) if config is not None else None
    complete = frozenset(around.pop("complete", ()))
    surroundings = LintSurroundings(complete=complete, config=loaded, **around)
    return LintInput([LintEntry(o) for o in objects], surroundings)


def find(rule: str, *objects: Json, **around: Any) -> list[Finding]:
    """What one rule says."""
    return [f for f in lint(world(*objects, **around), RULES) if f.rule == rule]


def told(rule: str, *objects: Json, **around: Any) -> list[str]:
    """What one rule says, as ``path: what``."""
    return [f"{f.path}: {f.what}" if f.path else f.what for f in find(rule, *objects, **around)]
