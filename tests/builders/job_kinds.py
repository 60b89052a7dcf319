"""A kind that is declared in tests: a Gadget has a template, a size, and a phase."""

from __future__ import annotations

from typing import Any

from multiqueue.api.job_kinds import KnownKind
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE

GADGET = KnownKind(
    framework="gadgets.example.com/gadget",
    kind="Gadget",
    group="gadgets.example.com",
    version="v1",
    plural="gadgets",
)
ACTIVE = "has(self.status.phase) && self.status.phase == 'Running'"
SUCCEEDED = "has(self.status.phase) && self.status.phase == 'Done'"
FAILED = "has(self.status.phase) && self.status.phase == 'Broken'"


def make_job_kind(name: str = "gadgets", **spec: Any) -> dict[str, Any]:
    """A JobKind for Gadgets; ``spec`` are fields that differ."""
    return {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "JobKind",
        "metadata": {"name": name},
        "spec": {
            "group": GADGET.group,
            "version": GADGET.version,
            "kind": GADGET.kind,
            "plural": GADGET.plural,
            "suspend": {"field": "spec.pause"},
            "podSets": [{"template": "spec.template", "count": "self.spec.size"}],
            "states": {
                "active": ACTIVE,
                "succeeded": SUCCEEDED,
                "failed": FAILED,
                "message": "self.status.?reason.orValue('')",
            },
            "multiKueue": {"managedByField": "spec.controller"},
            **spec,
        },
    }


def make_gadget(name: str = "train", *, size: int = 1, **spec: Any) -> dict[str, Any]:
    """A Gadget that waits in the LocalQueue ``lq``; ``spec`` are more fields."""
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
    return {
        "apiVersion": GADGET.api_version,
        "kind": GADGET.kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
        },
        "spec": {
            "pause": True,
            "size": size,
            "template": {"spec": {"containers": [container]}},
            **spec,
        },
    }
