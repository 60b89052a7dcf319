"""Discovery of the API for pods, logs and events of jobs on workers. Pure and constant."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

GROUP = "remote.multiqueue.dev"
VERSION = "v1alpha1"
WORKLOADS = "workloads"
PODS, LOG, EVENTS, DISPATCH = "pods", "log", "events", "dispatch"
EXPLANATION, EXPLANATION_KIND = "explanation", "WorkloadExplanation"
REVIEWS, DECISIONS = "dispatchreviews", "dispatchdecisions"
KINDS = {
    PODS: ("", "v1", "PodList"),
    LOG: ("", "v1", "Pod"),
    EVENTS: ("", "v1", "EventList"),
    DISPATCH: (GROUP, VERSION, "DispatchDecision"),
    EXPLANATION: (GROUP, VERSION, EXPLANATION_KIND),
}
"""Group, version and kind that each subresource of a Workload returns.

``log`` returns plain text, as the log of a pod does.
"""
OTHERS = (
    (REVIEWS, "dispatchreview", "DispatchReview", True, ["create"]),
    (DECISIONS, "dispatchdecision", "DispatchDecision", False, ["list"]),
)
"""Name, singular, kind, whether it is namespaced, and verbs of the resources of their own."""


def group() -> Json:
    """Return the entry of an APIGroupList, which is also the body of an APIGroup."""
    version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def resource_list() -> Json:
    """Return the APIResourceList, at /apis/GROUP/VERSION.

    Workloads have no verbs, because only their subresources are served here.
    """
    parent = {"name": WORKLOADS, "singularName": "workload", "kind": "Workload", "verbs": []}
    resources: list[Json] = [{**parent, "namespaced": True}]
    for name, (group_, version, kind) in KINDS.items():
        resources.append(
            {
                "name": f"{WORKLOADS}/{name}",
                "singularName": "",
                "namespaced": True,
                "kind": kind,
                "verbs": ["get"],
                **({"group": group_, "version": version} if group_ else {}),
            }
        )
    for name, singular, kind, namespaced, verbs in OTHERS:
        resources.append(
            {
                "name": name,
                "singularName": singular,
                "namespaced": namespaced,
                "kind": kind,
                "verbs": verbs,
            }
        )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{VERSION}",
        "resources": resources,
    }


def discovery() -> Json:
    """Return the entry of an APIGroupDiscoveryList."""
    resource = {
        "resource": WORKLOADS,
        "responseKind": {"group": GROUP, "version": VERSION, "kind": "Workload"},
        "scope": "Namespaced",
        "singularResource": "workload",
        "verbs": [],
        "subresources": [
            {
                "subresource": name,
                "responseKind": {"group": group_, "version": version, "kind": kind},
                "verbs": ["get"],
            }
            for name, (group_, version, kind) in KINDS.items()
        ],
    }
    others = [
        {
            "resource": name,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": singular,
            "verbs": verbs,
        }
        for name, singular, kind, namespaced, verbs in OTHERS
    ]
    resources = [resource, *others]
    version = {"version": VERSION, "resources": resources, "freshness": "Current"}
    return {"metadata": {"name": GROUP}, "versions": [version]}
