"""The CustomResourceDefinition of DispatchProfile, a kind that upstream does not have."""

from __future__ import annotations

from typing import Any

from multiqueue.api.crd.kinds import Column
from multiqueue.api.crd.schema import object_schema
from multiqueue.api.names import OWN_GROUP, V1ALPHA1
from multiqueue.api.v1alpha1 import DispatchProfile

PLURAL = "dispatchprofiles"
COLUMNS = (
    Column(name="Dispatcher", path=".spec.dispatcher"),
    Column(name="Active", path='.status.conditions[?(@.type=="Active")].status'),
    Column(
        name="Healthy",
        path='.status.conditions[?(@.type=="Healthy")].status',
        description="Whether its dispatcher answers, and keeps its promises",
    ),
    Column(
        name="Decisions",
        path=".status.decisions",
        type="integer",
        description="Questions that were answered",
    ),
    Column(
        name="Failures",
        path=".status.failures",
        type="integer",
        description="Questions that its dispatcher had no answer to",
    ),
    Column(
        name="Differences",
        path=".status.shadow.differences",
        type="integer",
        description="Answers of the shadow that name other clusters",
    ),
    Column(name="Canary", path=".status.canary.state", description="Running, Returned or Broken"),
    Column(name="Age", path=".metadata.creationTimestamp", type="date"),
)


def dispatch_profile_crd() -> dict[str, Any]:
    """Return a new copy of the definition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{OWN_GROUP}",
            "labels": {"app.kubernetes.io/name": "multiqueue"},
        },
        "spec": {
            "group": OWN_GROUP,
            "names": {
                "kind": "DispatchProfile",
                "listKind": "DispatchProfileList",
                "plural": PLURAL,
                "singular": "dispatchprofile",
                "shortNames": ["dprof"],
            },
            "scope": "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": V1ALPHA1.rpartition("/")[2],
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": object_schema(DispatchProfile)},
                    "additionalPrinterColumns": [column.as_dict() for column in COLUMNS],
                    "subresources": {"status": {}},
                }
            ],
        },
    }
