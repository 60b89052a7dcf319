"""Workers that are known by a ClusterProfile (T-9 to T-14, T-217 to T-222)."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from multiqueue.api.config import Configuration
from multiqueue.api.config.gates import Gate
from multiqueue.api.config.types import AccessProvider, ClusterProfile, ExecConfig
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.kube.errors import CredentialsError
from multiqueue.kube.resources import CLUSTER_PROFILES, CRDS, JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS
from multiqueue.runtime.multikueue import build_multikueue
from multiqueue.workers.kubeconfigs.worker_clients import WorkerAccess
from tests.builders.jobs import make_gpu_job
from tests.least_privilege import REMOTE_TOKEN
from tests.multikueue_world import BUILT_IN, MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import CONFIG

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterprofiles.multicluster.x-k8s.io"},
    "spec": {
        "group": "multicluster.x-k8s.io",
        "names": {"kind": "ClusterProfile", "plural": "clusterprofiles"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
PLUGIN = """
import json, os, sys
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
open(sys.argv[2], "a").write(told["spec"]["cluster"]["server"] + "\\n")
status = {"token": os.environ["PLUGIN_TOKEN"], "expirationTimestamp": sys.argv[1]}
print(json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def profile_config(tmp_path: Path, *, lives: timedelta = timedelta(hours=1)) -> Configuration:
    """The gate on, and one provider whose program notes each time that it runs."""
    script = tmp_path / "plugin.py"
    script.write_text(PLUGIN)
    ends = (datetime.now(UTC) + lives).strftime("%Y-%m-%dT%H:%M:%SZ")
    provider = AccessProvider(
        name="fleet",
        exec_config=ExecConfig(
            command=sys.executable,
            args=(str(script), ends, str(tmp_path / "runs")),
            env=({"name": "PLUGIN_TOKEN", "value": REMOTE_TOKEN},),
            api_version="client.authentication.k8s.io/v1",
            provide_cluster_info=True,
            interactive_mode="Never",
        ),
    )
    config = make_config(cluster_profile=ClusterProfile(access_providers=(provider,)))
    gates = {**config.feature_gates, Gate.MULTIKUEUE_CLUSTER_PROFILE.value: True}
    return msgspec.structs.replace(config, feature_gates=gates)


def make_profile(world: MultiKueueWorld, name: str = "p1", **cluster: Any) -> dict[str, Any]:
    address = {**world.gates["worker1"].cluster, **cluster}
    return {
        "apiVersion": CLUSTER_PROFILES.api_version,
        "kind": "ClusterProfile",
        "metadata": {"name": name, "namespace": CONFIG.namespace},
        "status": {"accessProviders": [{"name": "fleet", "cluster": address}]},
    }


async def refer(world: MultiKueueWorld, name: str = "p1") -> None:
    """Let worker1 be known by a profile."""
    source = {"kubeConfig": None, "clusterProfileRef": {"name": name}}
    await world.hub.patch(MULTIKUEUE_CLUSTERS, "worker1", {"spec": {"clusterSource": source}})


async def until_message(world: MultiKueueWorld, words: str) -> None:
    await world.changes.until(lambda: words in world.cluster_condition("worker1")[2], words)


async def test_a_worker_is_connected_by_the_profile_and_the_program_of_its_provider(tmp_path):
    """M-216."""
    async with multikueue_world("worker1") as world:
        await world.hub.create(CRDS, DEFINITION)
        await refer(world)
        async with world.manager(profile_config(tmp_path)):
            message = await world.until_cluster("worker1", reason="BadClusterProfile")
            assert 'ClusterProfile "kueue-system/p1" not found' in message
            await world.hub.create(CLUSTER_PROFILES, make_profile(world))
            await world.until_connected()
            assert (tmp_path / "runs").read_text() == world.gates["worker1"].url + "\n"
            await world.hub.create(JOBS, make_gpu_job())
            await world.admit("worker1")
            await world.until_ready()
            await world.hub.client.delete(CLUSTER_PROFILES, "p1", namespace=CONFIG.namespace)
            await world.until_cluster("worker1", reason="BadClusterProfile")


async def test_a_manager_that_does_not_lead_reads_there_too(tmp_path: Path) -> None:
    async with multikueue_world("worker1") as world:
        await world.hub.create(CRDS, DEFINITION)
        await refer(world)
        async with world.manager(profile_config(tmp_path)) as context:
            # Of parts that do not run: what a replica has that waits for its turn.
            parts = build_multikueue(context, build_engine(CONFIG), Dispatchers(BUILT_IN))
            access = WorkerAccess(context, parts.fleet)
            await world.until_cluster("worker1", reason="BadClusterProfile")
            with pytest.raises(
                CredentialsError, match='ClusterProfile "kueue-system/p1" not found'
            ):
                async with access.open("worker1"):
                    pass
            await world.hub.create(CLUSTER_PROFILES, make_profile(world))
            await world.until_connected()
            for _ in range(2):
                async with access.open("worker1") as worker:
                    assert (await worker.list(WORKLOADS)).items == []
            assert (tmp_path / "runs").read_text().count(world.gates["worker1"].url) == 2


async def test_what_is_wrong_with_a_profile_is_named(tmp_path):
    """M-33."""
    async with multikueue_world("worker1") as world:
        await world.hub.create(CRDS, DEFINITION)
        unsafe = make_profile(world, "unsafe", **{"insecure-skip-tls-verify": True})
        other = make_profile(world, "other")
        other["status"]["accessProviders"][0]["name"] = "gke"
        for profile in (unsafe, other):
            await world.hub.create(CLUSTER_PROFILES, profile)
        await refer(world, "unsafe")
        async with world.manager(profile_config(tmp_path)):
            message = await world.until_cluster("worker1", reason="BadRestConfig")
            assert "does not verify TLS" in message
            await refer(world, "other")
            await until_message(world, "offers access by gke")
            assert world.cluster_condition("worker1")[1] == "BadClusterProfile"


async def test_without_the_kind_a_profile_is_not_found_and_nothing_else_fails(tmp_path):
    """M-216, M-217."""
    async with multikueue_world("worker1", "worker2") as world:
        await refer(world)
        async with world.manager(profile_config(tmp_path)):
            await world.until_connected("worker2")
            await world.until_cluster("worker1", reason="BadClusterProfile")


async def test_a_program_that_fails_is_named_and_tried_again(tmp_path):
    async with multikueue_world("worker1") as world:
        await world.hub.create(CRDS, DEFINITION)
        await world.hub.create(CLUSTER_PROFILES, make_profile(world))
        await refer(world)
        config = profile_config(tmp_path)
        (tmp_path / "plugin.py").write_text("raise SystemExit(3)")
        async with world.manager(config):
            message = await world.until_cluster("worker1", reason="ClientConnectionFailed")
            assert "failed with exit status 3; connection attempts: 1, next at" in message


async def test_without_the_gate_profiles_are_not_looked_at():
    async with multikueue_world("worker1") as world, world.manager():
        await refer(world)
        await world.until_cluster("worker1", reason="MultiKueueClusterProfileFeatureDisabled")
        assert world.check_condition()[0] != "True"
