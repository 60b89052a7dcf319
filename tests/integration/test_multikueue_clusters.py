"""MultiKueueClusters and their checks: what is refused, why, and how it is mended (T-1 to T-14)."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import CREDENTIALS_EXPIRING, find_condition
from multiqueue.api.workload_state import is_finished
from multiqueue.embedded.server.server import ApiServer
from multiqueue.kube import resources
from multiqueue.kube.certificates import AUTHORITY_LIFETIME, KeyPair, create_authority
from multiqueue.kube.resources import ADMISSION_CHECKS, JOBS, MULTIKUEUE_CLUSTERS, SECRETS
from tests.builders.jobs import make_gpu_job
from tests.metric_values import read_value
from tests.multikueue_world import CHECK, MultiKueueWorld, multikueue_world
from tests.queue_manager import CONFIG
from tests.virtual_time import loop_clock, virtual_time


def make_token(expires_at: int) -> str:
    parts = ({"alg": "none"}, {"exp": expires_at})
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, "sig"])


async def test_a_check_says_step_by_step_what_is_missing():
    """M-30, M-60, M-61."""
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        assert world.check_condition()[:2] == ("True", "Active")
        await world.set_clusters("worker1", "other")
        await world.changes.until(
            lambda: world.check_condition()[1] == "SomeActiveClusters", "other is missing"
        )
        assert "missing clusters: other" in world.check_condition()[2]
        await world.set_clusters("other")
        await world.changes.until(
            lambda: world.check_condition()[:2] == ("False", "NoUsableClusters"), "none is left"
        )
        await world.hub.client.delete(resources.MULTIKUEUE_CONFIGS, "fleet")
        await world.changes.until(
            lambda: world.check_condition()[:2] == ("False", "BadConfig"), "no configuration"
        )
        assert '"fleet" not found' in world.check_condition()[2]


async def test_a_check_without_parameters_is_bad():
    """M-18."""
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.hub.patch(ADMISSION_CHECKS, CHECK, {"spec": {"parameters": None}})
        await world.changes.until(lambda: world.check_condition()[1] == "BadConfig", "BadConfig")
        assert "spec.parameters is not set" in world.check_condition()[2]


async def test_a_secret_that_comes_late_connects_the_worker():
    """M-12, M-36, M-41."""
    async with multikueue_world("worker1") as world:
        await world.hub.client.delete(SECRETS, "worker1", namespace=CONFIG.namespace)
        async with world.manager():
            message = await world.until_cluster("worker1", reason="BadKubeConfig")
            assert 'Secret "kueue-system/worker1" not found' in message
            await world.changes.until(
                lambda: world.check_condition()[1] == "NoUsableClusters", "check inactive"
            )
            await world.put_secret("worker1", world.kubeconfig("worker1"))
            await world.until_connected()


BAD = {
    "empty": ("", "BadKubeConfig", 'key "kubeconfig" is empty'),
    "no yaml": ("{", "InsecureKubeConfig", "not valid YAML"),
    "no context": ({}, "BadKubeConfig", "no current-context"),
}


@pytest.mark.parametrize("case", sorted(BAD))
async def test_a_broken_kubeconfig_is_named(case):
    content, reason, words = BAD[case]
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.put_secret("worker1", content)
        assert words in await world.until_cluster("worker1", reason=reason)


USERS = {
    "token file": ({"tokenFile": "/etc/passwd"}, "InsecureKubeConfig", "uses a token file"),
    "program": ({"exec": {"command": "id"}}, "InsecureKubeConfig", "uses a program (exec)"),
    "password": (
        {"username": "robert", "password": "hunter2"},
        "InsecureKubeConfig",
        "uses a password",
    ),
    "expired": ({"token": make_token(1_000_000_000)}, "BadKubeConfig", "expired at 2001-09-09"),
    "wrong token": ({"token": "wrong"}, "ClientConnectionFailed", "401"),
}


@pytest.mark.parametrize("case", sorted(USERS))
async def test_a_user_that_cannot_be_used_is_named_and_no_secret_is_repeated(case):
    user, reason, words = USERS[case]
    async with multikueue_world("worker1") as world:
        await world.put_secret("worker1", world.kubeconfig("worker1", **user))
        async with world.manager():
            message = await world.until_cluster("worker1", reason=reason)
            assert words in message
            assert not any(str(value) in message for value in user.values())


async def test_a_broken_worker_is_left_out_and_the_healthy_one_is_used():
    """T-6, M-60."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.until_connected()
        broken = world.kubeconfig("worker1")
        broken["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
        await world.put_secret("worker1", broken)
        message = await world.until_cluster("worker1", reason="InsecureKubeConfig")
        assert "does not verify TLS" in message
        await world.hub.create(JOBS, make_gpu_job())
        await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")
        assert world.workload().status.nominated_cluster_names == ("worker2",)
        assert 'is offered to "worker2"; worker1 is not connected' in world.check()[1]


async def test_a_worker_without_our_api_is_named():
    bare = ApiServer()
    async with multikueue_world("worker1") as world, bare:
        await world.put_secret("worker1", bare.kubeconfig())
        async with world.manager():
            message = await world.until_cluster("worker1", reason="ClientConnectionFailed")
            assert "does not serve kueue.x-k8s.io/v1beta2" in message
            assert "connection attempts: 1, next at" in message


async def test_a_wrong_certificate_is_named():
    """M-50, M-222."""
    one, other = ApiServer(), ApiServer()
    async with multikueue_world("worker1") as world, one, other:
        config = one.kubeconfig()
        ca = other.kubeconfig()["clusters"][0]["cluster"]["certificate-authority-data"]
        config["clusters"][0]["cluster"]["certificate-authority-data"] = ca
        await world.put_secret("worker1", config)
        async with world.manager():
            message = await world.until_cluster("worker1", reason="ClientConnectionFailed")
            assert "certificate" in message.lower()


async def test_a_garbled_ca_is_named_and_mended():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        config = world.kubeconfig("worker1")
        config["clusters"][0]["cluster"]["certificate-authority-data"] = "!!!"
        await world.put_secret("worker1", config)
        message = await world.until_cluster("worker1", reason="BadKubeConfig")
        assert "certificate-authority-data is not base64" in message
        await world.put_secret("worker1", world.kubeconfig("worker1"))
        await world.until_connected()


async def test_a_cluster_profile_needs_its_gate():
    async with multikueue_world("worker1") as world, world.manager():
        await world.hub.create(
            MULTIKUEUE_CLUSTERS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "MultiKueueCluster",
                "metadata": {"name": "profiled"},
                "spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}},
            },
        )
        message = await world.until_cluster(
            "profiled", reason="MultiKueueClusterProfileFeatureDisabled"
        )
        assert "MultiKueueClusterProfile" in message


@virtual_time
async def test_credentials_that_end_are_told_of_beforehand():
    """By a condition, a Warning and figures, a week before; new ones end it all."""
    now = loop_clock().now()
    issued_at = now + timedelta(days=7, minutes=1) - AUTHORITY_LIFETIME
    ending, good = (create_authority("workers", at) for at in (issued_at, now))
    async with multikueue_world("worker1") as world, world.manager() as manager:
        await world.until_connected()
        await world.put_secret("worker1", showing(world, "worker1", ending))
        await until_expiring(world, "worker1", "False")
        await asyncio.sleep(65.0)
        await until_expiring(world, "worker1", "True")
        figures = manager.metrics
        assert read_value(figures.worker_credentials_expiring.child("worker1")) == 1
        left = figures.worker_credentials_expire_seconds.child("worker1")
        assert timedelta(days=6) < timedelta(seconds=read_value(left)) < timedelta(days=7)
        await world.hub.until_event("MultiKueueCluster", "worker1", CREDENTIALS_EXPIRING)
        await world.put_secret("worker1", showing(world, "worker1", good))
        await until_expiring(world, "worker1", "False")
        assert read_value(figures.worker_credentials_expiring.child("worker1")) == 0


def showing(world: MultiKueueWorld, name: str, pair: KeyPair) -> dict[str, Any]:
    """The kubeconfig of a worker with this client certificate; nobody asks for it here."""
    certificate, key = (base64.b64encode(data).decode() for data in (pair.certificate, pair.key))
    shown = {"client-certificate-data": certificate, "client-key-data": key}
    return world.kubeconfig(name, **shown)


async def until_expiring(world: MultiKueueWorld, name: str, status: str) -> None:
    def found() -> str:
        cluster = world.hub.informers.multikueue_clusters.store.get(name)
        condition = find_condition(cluster.status.conditions, CREDENTIALS_EXPIRING)
        return condition.status if condition is not None else "False"

    await world.changes.until(lambda: found() == status, f"{CREDENTIALS_EXPIRING} {status}")


async def use_file(world: MultiKueueWorld, path: Path) -> None:
    source = {"kubeConfig": {"location": str(path), "locationType": "Path"}}
    await world.hub.patch(MULTIKUEUE_CLUSTERS, "worker1", {"spec": {"clusterSource": source}})


async def test_a_kubeconfig_file_may_only_be_below_its_place(tmp_path):
    async with multikueue_world("worker1") as world, world.manager(kubeconfigs=tmp_path / "k"):
        outside = tmp_path / "elsewhere"
        outside.write_text(json.dumps(world.kubeconfig("worker1")))
        (tmp_path / "k").mkdir()
        await use_file(world, outside)
        message = await world.until_cluster("worker1", reason="BadKubeConfig")
        assert "is not below" in message
        inside = tmp_path / "k" / "worker1"
        inside.write_text(json.dumps(world.kubeconfig("worker1")))
        await use_file(world, inside)
        await world.until_connected()


OTHER = "worker1-other"
"""Sorts behind the first: both may be created within one second."""


async def test_another_address_of_a_worker_is_refused_and_its_jobs_keep_running():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.hub.create(JOBS, make_gpu_job())
        await world.admit("worker1")
        await world.until_ready()
        uid = world.copy("worker1").metadata.uid
        await world.add_worker(OTHER, kubeconfig=world.other_kubeconfig("worker1"))
        await world.set_clusters(OTHER, "worker1")
        message = await world.until_cluster(OTHER, reason="BadKubeConfig")
        assert 'leads to the same API server as MultiKueueCluster "worker1"' in message
        assert world.cluster_condition("worker1")[0] == "True"
        await world.finish_copy("worker1")
        await world.until(
            lambda: is_finished(world.workload().status), "the job ends as if nothing happened"
        )
        assert world.workload().status.scheduling_stats is None
        assert world.copy("worker1") is None or world.copy("worker1").metadata.uid == uid


async def test_after_a_restart_the_older_name_keeps_the_worker_and_its_jobs():
    async with multikueue_world("worker1") as world:
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job())
            await world.admit("worker1")
            await world.until_ready()
            uid = world.workers["worker1"].job("train")["metadata"]["uid"]
        await world.add_worker(OTHER, kubeconfig=world.other_kubeconfig("worker1"))
        await world.set_clusters(OTHER, "worker1")
        async with world.manager():
            await world.until_cluster(OTHER, reason="BadKubeConfig")
            await world.run_job("worker1")
            await world.until(
                lambda: world.hub.job("train").get("status", {}).get("active"), "status comes"
            )
            assert world.workers["worker1"].job("train")["metadata"]["uid"] == uid
            assert world.workload().status.scheduling_stats is None


async def test_another_address_is_used_once_the_first_is_gone():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.add_worker(OTHER, kubeconfig=world.other_kubeconfig("worker1"))
        await world.until_cluster(OTHER, reason="BadKubeConfig")
        await world.hub.client.delete(MULTIKUEUE_CLUSTERS, "worker1")
        await world.until_cluster(OTHER, reason="Active")


async def test_a_second_name_for_a_worker_is_refused_until_the_first_is_gone():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.add_worker("worker1-again", kubeconfig=world.kubeconfig("worker1"))
        message = await world.until_cluster("worker1-again", reason="BadKubeConfig")
        assert 'leads to the same API server as MultiKueueCluster "worker1"' in message
        assert world.check_condition()[:2] == ("True", "Active")
        await world.hub.client.delete(MULTIKUEUE_CLUSTERS, "worker1")
        await world.until_cluster("worker1-again", reason="Active")
