"""Minimal CRDs of the job kinds, for clusters without their operators: any field is accepted. Pure.

The real CRDs belong to the projects of the kinds. These are enough to try a kind on this machine.
"""

from __future__ import annotations

from typing import Any

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.framework.related import list_related
from multiqueue.jobs.setup import load_kind
from multiqueue.kube.resources import Resource, resource_of

_BUILT_IN = frozenset({"", "apps", "batch"})


def build_kind_crd(row: KnownKind) -> dict[str, Any] | None:
    """Return a CRD for a kind; None if every cluster serves the kind."""
    return _build_crd(resource_of(row.api_version, row.plural, row.kind))


def build_kind_crds(row: KnownKind) -> list[dict[str, Any]]:
    """Return the CRDs that a built-in kind needs: its own, and those of objects that it reads."""
    related = list_related(load_kind(row).integration)
    return [crd for crd in (build_kind_crd(row), *map(_build_crd, related)) if crd is not None]


def _build_crd(resource: Resource) -> dict[str, Any] | None:
    if resource.group in _BUILT_IN:
        return None
    open_field = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": open_field, "status": open_field}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
