"""Upstream's admission and conversion webhooks, registered at a manager outside of the cluster.

Its Service becomes a name for this machine: the API server dials what an ExternalName says, at the
port of the registration, and goes on asking for a certificate of the Service.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.controlplane import binaries
from tests.controlplane.plane import RealControlPlane

NAMESPACE, PREFIX = "kueue-system", "kueue-"
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")


def register_webhooks(plane: RealControlPlane, port: int) -> None:
    """Register what its module ships, at a port of this machine; it puts its authority in."""
    sources = binaries.module_folder("kueue", "sigs.k8s.io/kueue")
    shipped = plane.kubectl("kustomize", str(sources / "config" / "components" / "webhook"))
    for obj in yaml.safe_load_all(shipped):
        name = f"{PREFIX}{obj['metadata']['name']}"
        obj["metadata"] = {"name": name}
        if obj["kind"] == "Service":
            obj["metadata"]["namespace"] = NAMESPACE
            obj["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        for webhook in obj.get("webhooks", ()):
            webhook["clientConfig"]["service"] |= _service(port)
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=_text(obj))
    client = {"service": {"path": "/convert", **_service(port)}}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    conversion = {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
    names = [f"{name}.kueue.x-k8s.io" for name in CONVERTED]
    plane.kubectl("patch", "crd", *names, "--type=merge", f"--patch={_text(conversion)}")


def _service(port: int) -> dict[str, Any]:
    return {"name": f"{PREFIX}webhook-service", "namespace": NAMESPACE, "port": port}


def _text(obj: dict[str, Any]) -> str:
    return json.dumps(obj)
