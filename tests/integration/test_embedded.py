"""Clusters and managers that are started again on what an earlier run has left."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.jobs.setup import build_registry
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from multiqueue.runtime.manager import Manager
from multiqueue.webhooks.registration import Address, build_configurations
from tests.integration.test_runtime_manager import credentials, embedded, make_config, running

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


async def leave_webhooks(client: KubeClient) -> None:
    mutating, validating = build_configurations(
        Configuration(), build_registry(Configuration()), Address(url=GONE), b""
    )
    await client.create(MUTATING_WEBHOOKS, mutating)
    await client.create(VALIDATING_WEBHOOKS, validating)


async def test_a_restart_keeps_what_users_changed_and_outlives_stale_webhooks(
    tmp_path: Path,
) -> None:
    async with embedded(data_dir=tmp_path, **initial("first")) as (_, client):
        change = {"spec": {"cohortName": "mine"}}
        await client.patch(CLUSTER_QUEUES, "team", change)
        await leave_webhooks(client)

    async with embedded(data_dir=tmp_path, **initial("second")) as (_, client):
        queue = await client.get(CLUSTER_QUEUES, "team")
        secret = await client.get(SECRETS, "worker", namespace="default")
        await client.patch(CLUSTER_QUEUES, "team", {"spec": {"cohortName": "ours"}})
    assert queue["spec"]["cohortName"] == "mine"
    assert base64.b64decode(secret["data"]["kubeconfig"]) == b"second"


async def test_a_manager_without_certificate_does_not_let_stale_webhooks_block_the_cluster(
    tmp_path: Path,
) -> None:
    config = make_config(
        webhook={"host": "127.0.0.1", "port": 0, "certDir": str(tmp_path)},
        internalCertManagement={"enable": False},
    )
    queue = initial("any")["objects"][0]
    async with embedded() as (cluster, client):
        await leave_webhooks(client)
        manager = Manager(config, await credentials(cluster))
        async with running(manager):
            await manager.leading.wait()
            await client.create(CLUSTER_QUEUES, queue)


async def test_a_leader_works_only_once_its_webhooks_are_those_that_are_asked() -> None:
    async with embedded() as (cluster, client):
        await leave_webhooks(client)
        manager = Manager(make_config(), await credentials(cluster))
        async with running(manager):
            await manager.leading.wait()
            found = await client.list(MUTATING_WEBHOOKS)
    urls = [hook["clientConfig"]["url"] for hook in found.items[0]["webhooks"]]
    assert not [url for url in urls if url.startswith(f"{GONE}/")]
