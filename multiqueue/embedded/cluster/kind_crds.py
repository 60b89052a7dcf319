"""Minimal CRDs of the job kinds, for clusters without their operators: any field is accepted. Pure.

The real CRDs belong to the projects of the kinds. These are enough to try a kind on this machine.
"""

from __future__ import annotations

from typing import Any

from multiqueue.api.job_kinds import KnownKind

_BUILT_IN = frozenset({"", "apps", "batch"})


def build_kind_crd(row: KnownKind) -> dict[str, Any] | None:
    """Return a CRD for a kind; None if every cluster serves the kind."""
    if row.group in _BUILT_IN:
        return None
    open_field = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": open_field, "status": open_field}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{row.plural}.{row.group}"},
        "spec": {
            "group": row.group,
            "scope": "Namespaced",
            "names": {
                "kind": row.kind,
                "listKind": f"{row.kind}List",
                "plural": row.plural,
                "singular": row.kind.lower(),
            },
            "versions": [
                {
                    "name": row.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
