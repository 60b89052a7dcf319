"""One good object of each of our kinds, in both versions, and how to spoil it."""

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

GROUP = "kueue.x-k8s.io"
OLD, NEW = "v1beta1", "v1beta2"
NAMESPACED = {"LocalQueue", "Workload", "Job"}
PLURALS = {"Topology": "topologies", "WorkloadPriorityClass": "workloadpriorityclasses"}
REMOVED = object()
"""In place of a value: the field is taken away."""

_QUOTA = {"name": "cpu", "nominalQuota": "5", "borrowingLimit": "3", "lendingLimit": "2"}
_GROUP = {
    "coveredResources": ["cpu"],
    "flavors": [{"name": "spot", "resources": [_QUOTA]}, {"name": "base", "resources": [_QUOTA]}],
}
_TEMPLATE = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}},
        ],
    }
}
SPECS: dict[str, dict[str, Any]] = {
    "AdmissionCheck": {
        "controllerName": "example.com/check",
        "parameters": {"apiGroup": "example.com", "kind": "Parameters", "name": "a"},
    },
    "ClusterQueue": {
        "cohortName": "all",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "resourceGroups": [_GROUP],
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Any",
            "withinClusterQueue": "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
        },
        "fairSharing": {"weight": "2"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["spot"]}]},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
    },
    "Cohort": {"parentName": "root", "resourceGroups": [_GROUP], "fairSharing": {"weight": "2"}},
    "LocalQueue": {"clusterQueue": "a", "stopPolicy": "None", "fairSharing": {"weight": "2"}},
    "MultiKueueCluster": {
        "clusterSource": {"kubeConfig": {"location": "secret", "locationType": "Secret"}}
    },
    "MultiKueueConfig": {"clusters": ["east", "west"]},
    "ProvisioningRequestConfig": {
        "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
        "managedResources": ["nvidia.com/gpu"],
        "parameters": {"a": "b"},
        "retryStrategy": {
            "backoffLimitCount": 3,
            "backoffBaseSeconds": 60,
            "backoffMaxSeconds": 1800,
        },
    },
    "ResourceFlavor": {
        "nodeLabels": {"gpu": "a100"},
        "nodeTaints": [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}],
        "tolerations": [{"key": "gpu", "operator": "Equal", "value": "a100"}],
        "topologyName": "dc",
    },
    "Topology": {"levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "example.com/host"}]},
    "Workload": {
        "active": True,
        "queueName": "a",
        "priority": 5,
        "priorityClassRef": {
            "group": "kueue.x-k8s.io",
            "kind": "WorkloadPriorityClass",
            "name": "high",
        },
        "maximumExecutionTimeSeconds": 60,
        "podSets": [
            {"name": "driver", "count": 1, "template": _TEMPLATE},
            {"name": "workers", "count": 3, "minCount": 2, "template": _TEMPLATE},
        ],
    },
}
OLD_NAMES: dict[str, dict[str, Any]] = {
    "ClusterQueue": {
        "spec.cohortName": REMOVED,
        "spec.cohort": "all",
        "spec.admissionChecksStrategy.admissionChecks": [{"name": "a", "onFlavors": ["spot"]}],
        "spec.flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    },
    "MultiKueueCluster": {
        "spec.clusterSource": REMOVED,
        "spec.kubeConfig": {"location": "secret", "locationType": "Secret"},
    },
    "Workload": {
        "spec.priorityClassRef": REMOVED,
        "spec.priorityClassName": "high",
        "spec.priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
    },
}


def valid(kind: str, version: str = NEW) -> dict[str, Any]:
    """A good object, called "a"."""
    if kind == "Job":
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "a", "labels": {f"{GROUP}/queue-name": "q"}},
            "spec": {"parallelism": 3, "completions": 3, "template": copy.deepcopy(_TEMPLATE)},
        }
    if kind == "DispatchProfile":
        return {
            "apiVersion": "multiqueue.dev/v1alpha1",
            "kind": "DispatchProfile",
            "metadata": {"name": "a"},
            "spec": {"dispatcher": "score", "scorers": [{"name": "price", "weight": 20}]},
        }
    if kind == "JobKind":
        return {
            "apiVersion": "multiqueue.dev/v1alpha1",
            "kind": "JobKind",
            "metadata": {"name": "a"},
            "spec": {
                "group": "gadgets.example.com",
                "version": "v1",
                "kind": "Gadget",
                "plural": "gadgets",
                "suspend": {"field": "spec.pause"},
                "podSets": [{"template": "spec.template", "count": "self.spec.size"}],
                "states": {
                    "active": "self.status.phase == 'Running'",
                    "succeeded": "self.status.phase == 'Done'",
                    "failed": "self.status.phase == 'Broken'",
                },
            },
        }
    if kind == "DisruptionPolicy":
        return {
            "apiVersion": "multiqueue.dev/v1alpha1",
            "kind": "DisruptionPolicy",
            "metadata": {"name": "a"},
            "spec": {"prefer": "LeastLostWork", "protection": {"minRun": {"queue": "10m"}}},
        }
    if kind == "QuotaPlan":
        return {
            "apiVersion": "multiqueue.dev/v1alpha1",
            "kind": "QuotaPlan",
            "metadata": {"name": "a"},
            "spec": {
                "cohort": "all",
                "resources": [{"flavor": "a100", "resource": "nvidia.com/gpu"}],
                "bounds": [{"clusterQueue": "serving", "min": 16, "max": "32"}],
            },
        }
    if kind == "UsageReport":
        row = {"day": "2026-01-01", "resource": "cpu", "holds": 1, "reservedSeconds": 60}
        return {
            "apiVersion": "multiqueue.dev/v1alpha1",
            "kind": "UsageReport",
            "metadata": {"name": "a"},
            "status": {"through": "2026-01-01T01:00:00Z", "rows": [row]},
        }
    obj: dict[str, Any] = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind,
        "metadata": {"name": "a"},
    }
    if kind == "WorkloadPriorityClass":
        return {**obj, "value": 100, "description": "text"}
    obj["spec"] = json.loads(json.dumps(SPECS[kind]))  # a deep copy would share what is shared
    return changed(obj, OLD_NAMES.get(kind, {})) if version == OLD else obj


def changed(obj: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The object with other values at some paths: ``spec.a[0].b``."""
    result = copy.deepcopy(dict(obj))
    for path, value in changes.items():
        keys = [int(key) if key.isdecimal() else key for key in re.findall(r"[^.\[\]]+", path)]
        where: Any = result
        for key in keys[:-1]:
            where = where[key] if isinstance(key, int) else where.setdefault(key, {})
        if value is REMOVED:
            del where[keys[-1]]
        else:
            where[keys[-1]] = copy.deepcopy(value)
    return result


def path_of(kind: str, namespace: str, version: str = NEW) -> str:
    """The collection of a kind."""
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    root = "/apis/batch/v1" if kind == "Job" else f"/apis/{GROUP}/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if kind in NAMESPACED else f"{root}/{plural}"
