"""What an API server was asked, by whom, and what it answered: its own audit log, complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.fleet_under_test import Cluster

AUDIT_LOG = "audit.jsonl"
POD_AND_JOB = [
    {"group": "", "resources": ["pods"]},
    {"group": "batch", "resources": ["jobs"]},
]


def audit_arguments(folder: Path, groups: Iterable[str] = ()) -> list[str]:
    """Flags of kube-apiserver that have it write down every request in this folder.

    Args:
        folder: Where it writes.
        groups: API groups whose created objects are written down, as those of pods and Jobs are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps(build_policy(groups)))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={folder / AUDIT_LOG}"]


def build_policy(groups: Iterable[str] = ()) -> dict[str, Any]:
    """The audit policy: all requests, and the bodies of what is created of pods and jobs."""
    resources = [*POD_AND_JOB, *({"group": group} for group in sorted(groups))]
    creations = {"level": "RequestResponse", "verbs": ["create"], "resources": resources}
    rules = {"omitStages": ["RequestReceived"], "rules": [creations, {"level": "Metadata"}]}
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **rules}


def requests(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Every request that was answered so far (audit.k8s.io/v1 Event)."""
    for line in cluster.read_audit_log().splitlines(keepends=True):
        if not line.endswith("\n"):
            return  # it is being written
        event = json.loads(line)
        if event["stage"] == "ResponseComplete":
            yield event


def created(cluster: Cluster, resource: str, namespace: str) -> list[dict[str, Any]]:
    """Each object that ever came to be: "jobs", "pods" or others of a group that is audited."""
    return [
        event["responseObject"]
        for event in requests(cluster)
        if event["verb"] == "create"
        and event["responseStatus"]["code"] == 201
        and "dryRun" not in event["requestURI"]
        and event["objectRef"].get("namespace") == namespace
        and event["objectRef"]["resource"] == resource
        and "subresource" not in event["objectRef"]
    ]


def refused(cluster: Cluster, user: str) -> list[str]:
    """What this user asked a server that was ready for, and may not have."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in requests(cluster)
        if event["user"]["username"] == user
        and event["responseStatus"]["code"] in {401, 403}
        and not any(
            began < datetime.fromisoformat(event["requestReceivedTimestamp"]) < ended
            for began, ended in cluster.outages
        )
    ]
