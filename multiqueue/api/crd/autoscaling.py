"""The CustomResourceDefinition of ProvisioningRequest, for embedded clusters with an autoscaler.

In a real cluster, the operator of the autoscaler installs it; we never do.
"""

from __future__ import annotations

from typing import Any

from multiqueue.api.autoscaling import GROUP, VERSIONS, ProvisioningRequest
from multiqueue.api.conditions import ProvisioningCondition
from multiqueue.api.crd.kinds import AGE, Column, condition
from multiqueue.api.crd.schema import object_schema

PLURAL = "provisioningrequests"


def provisioning_request_crd() -> dict[str, Any]:
    """Return a new copy of the definition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": "ProvisioningRequest",
                "listKind": "ProvisioningRequestList",
                "plural": PLURAL,
                "singular": "provisioningrequest",
                "shortNames": ["provreq", "provreqs"],
            },
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "versions": [_version(name) for name in reversed(VERSIONS)],
        },
    }


def _version(name: str) -> dict[str, Any]:
    columns = [
        Column("Class", ".spec.provisioningClassName"),
        *(
            Column(str(type_), condition(type_))
            for type_ in (
                ProvisioningCondition.ACCEPTED,
                ProvisioningCondition.PROVISIONED,
                ProvisioningCondition.FAILED,
            )
        ),
        AGE,
    ]
    return {
        "name": name,
        "served": True,
        "storage": name == VERSIONS[0],
        "schema": {"openAPIV3Schema": object_schema(ProvisioningRequest)},
        "additionalPrinterColumns": [column.as_dict() for column in columns],
        "subresources": {"status": {}},
    }
