"""An embedded cluster that is started again on what an earlier run has left."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from multiqueue.webhooks.registration import Address, build_configurations
from tests.integration.test_runtime_manager import embedded

GONE = "https://127.0.0.1:1"
"""Nobody listens there, as behind a manager that was killed."""


def initial(address: str) -> dict[str, Any]:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "worker", "namespace": "default"},
        "data": {"kubeconfig": base64.b64encode(address.encode()).decode()},
    }
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "team"},
        "spec": {"namespaceSelector": {}},
    }
    return {"objects": [queue], "secrets": [secret]}


async def test_a_restart_keeps_what_users_changed_and_outlives_stale_webhooks(
    tmp_path: Path,
) -> None:
    async with embedded(data_dir=tmp_path, **initial("first")) as (_, client):
        change = {"spec": {"cohortName": "mine"}}
        await client.patch(CLUSTER_QUEUES, "team", change)
        mutating, validating = build_configurations(Configuration(), Address(url=GONE), b"")
        await client.create(MUTATING_WEBHOOKS, mutating)
        await client.create(VALIDATING_WEBHOOKS, validating)

    async with embedded(data_dir=tmp_path, **initial("second")) as (_, client):
        queue = await client.get(CLUSTER_QUEUES, "team")
        secret = await client.get(SECRETS, "worker", namespace="default")
        await client.patch(CLUSTER_QUEUES, "team", {"spec": {"cohortName": "ours"}})
    assert queue["spec"]["cohortName"] == "mine"
    assert base64.b64decode(secret["data"]["kubeconfig"]) == b"second"
