"""Documents of the fleet API: discovery, from the table of resources, and lists. Pure."""

from __future__ import annotations

from typing import Any

from multiqueue.visibility.fleet.resources import API_VERSION, GROUP, RESOURCES, VERSION

Json = dict[str, Any]


def group() -> Json:
    """Return the entry of an APIGroupList, which is also the body of an APIGroup."""
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def resource_list() -> Json:
    """Return the APIResourceList, at /apis/GROUP/VERSION."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": each.plural,
                "singularName": each.singular,
                "namespaced": each.namespaced,
                "kind": each.kind,
                "verbs": list(each.verbs),
            }
            for each in RESOURCES
        ],
    }


def discovery() -> Json:
    """Return the entry of an APIGroupDiscoveryList."""
    resources = [
        {
            "resource": each.plural,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": each.kind},
            "scope": "Namespaced" if each.namespaced else "Cluster",
            "singularResource": each.singular,
            "verbs": list(each.verbs),
        }
        for each in RESOURCES
    ]
    version = {"version": VERSION, "resources": resources, "freshness": "Current"}
    return {"metadata": {"name": GROUP}, "versions": [version]}
