"""The simulated cluster behind a real API server: Jobs run, fail, stop and are tidied up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.embedded.cluster.lifecycle import EXIT_CODE, RUN_SECONDS
from multiqueue.embedded.cluster.node_agent import DOWN
from multiqueue.embedded.cluster.pod_collector import QUARANTINE_SECONDS
from multiqueue.embedded.server.server import ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import JOBS, NODES, PODS, PRIORITY_CLASSES
from tests.integration.waiting import api_client, condition, is_true, simulation, until, until_one
from tests.virtual_time import LoopClock, virtual_time

NAMESPACE = "default"


@asynccontextmanager
async def sim_cluster(*pools: str) -> AsyncIterator[KubeClient]:
    clock = LoopClock()
    async with (
        api_client(ServerOptions(tls=False, clock=clock)) as client,
        simulation(client, *pools, clock=clock),
    ):
        yield client


async def create_job(
    client: KubeClient,
    name: str,
    *,
    gpus: int = 1,
    annotations: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
    **spec: Any,
) -> None:
    resources = {"requests": {"nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}}
    template = {
        "metadata": {"annotations": dict(annotations or {})},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            **(pod or {}),
        },
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }
    await client.create(JOBS, job, namespace=NAMESPACE)


async def until_job(client: KubeClient, name: str, condition: str) -> dict[str, Any]:
    return await until_one(client, JOBS, name, lambda job: is_true(job, condition), seconds=600)


def phases(pods: list[dict[str, Any]]) -> list[str]:
    return sorted(pod["status"].get("phase", "") for pod in pods)


@virtual_time
async def test_nodes_are_ready_with_labels_and_gpus() -> None:
    async with sim_cluster("2xa100/8") as client:
        nodes = await until(client, NODES, lambda nodes: len(nodes) == 2)
    assert all(is_true(node, "Ready") for node in nodes)
    assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert nodes[0]["metadata"]["labels"]["cloud.provider.com/accelerator"] == "a100"


@virtual_time
async def test_a_job_runs_to_its_end() -> None:
    async with sim_cluster("a100/8") as client:
        await create_job(client, "train", parallelism=2, completions=3)
        job = await until_job(client, "train", "Complete")
        pods = (await client.list(PODS)).items
    assert job["status"]["succeeded"] == 3
    assert job["status"]["completionTime"]
    assert is_true(job, "SuccessCriteriaMet")
    assert phases(pods) == ["Succeeded"] * 3
    assert {pod["spec"]["nodeName"] for pod in pods} == {"a100-0"}


@virtual_time
async def test_indexed_jobs_give_every_pod_its_index() -> None:
    async with sim_cluster("a100/8") as client:
        await create_job(client, "train", parallelism=3, completions=3, completionMode="Indexed")
        job = await until_job(client, "train", "Complete")
        pods = (await client.list(PODS)).items
    assert job["status"]["completedIndexes"] == "0-2"
    label = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod["metadata"]["labels"][label] for pod in pods) == ["0", "1", "2"]


@virtual_time
async def test_a_failing_job_fails_and_stops_its_other_pods() -> None:
    async with sim_cluster("a100/8") as client:
        await create_job(
            client, "train", parallelism=2, backoffLimit=0, annotations={EXIT_CODE: "3"}
        )
        job = await until_job(client, "train", "Failed")
    assert job["status"]["failed"] >= 1
    assert not job["status"].get("active")


@virtual_time
async def test_gpus_are_given_away_once_and_again_when_free() -> None:
    async with sim_cluster("a100/8") as client:
        await create_job(client, "long", gpus=8, annotations={RUN_SECONDS: "20"})
        await until(client, PODS, lambda pods: phases(pods) == ["Running"])
        await create_job(client, "next", gpus=8)
        waiting = await until(client, PODS, lambda pods: any(map(is_unschedulable, pods)))
        assert phases(waiting) == ["Pending", "Running"]
        await until_job(client, "next", "Complete")
        long = await client.get(JOBS, "long", namespace=NAMESPACE)
    assert is_true(long, "Complete")


def is_unschedulable(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c.get("reason") == "Unschedulable" for c in conditions)


@virtual_time
async def test_gated_pods_wait_for_their_gates() -> None:
    gates = {"schedulingGates": [{"name": "example.com/gate"}]}
    async with sim_cluster("a100/8") as client:
        await create_job(client, "gated", pod=gates)
        await create_job(client, "free")
        await until_job(client, "free", "Complete")
        pods = [p for p in (await client.list(PODS)).items if p["spec"].get("schedulingGates")]
        assert [pod["spec"].get("nodeName") for pod in pods] == [None]
        name = pods[0]["metadata"]["name"]
        patch = {"spec": {"schedulingGates": None}}
        await client.patch(PODS, name, patch, namespace=NAMESPACE)
        await until_job(client, "gated", "Complete")


@virtual_time
async def test_a_suspended_job_stops_and_runs_again_when_resumed() -> None:
    async with sim_cluster("a100/8") as client:
        await create_job(client, "train", annotations={RUN_SECONDS: "30"})
        await until(client, PODS, lambda pods: phases(pods) == ["Running"])
        await client.patch(JOBS, "train", {"spec": {"suspend": True}}, namespace=NAMESPACE)
        await until_job(client, "train", "Suspended")
        await until(client, PODS, lambda pods: not pods)
        await client.patch(JOBS, "train", {"spec": {"suspend": False}}, namespace=NAMESPACE)
        job = await until_job(client, "train", "Complete")
    assert not job["status"].get("failed")


@virtual_time
async def test_jobs_of_another_controller_are_left_alone() -> None:
    """M-137."""
    async with sim_cluster("a100/8") as client:
        await create_job(client, "elsewhere", managedBy="kueue.x-k8s.io/multikueue")
        await create_job(client, "here")
        await until_job(client, "here", "Complete")
        elsewhere = await client.get(JOBS, "elsewhere", namespace=NAMESPACE)
    assert not elsewhere.get("status")


@virtual_time
async def test_a_finished_job_goes_after_its_ttl_with_its_pods() -> None:
    async with sim_cluster("a100/8") as client:
        await create_job(client, "train", ttlSecondsAfterFinished=1)
        await until_job(client, "train", "Complete")
        await until(client, JOBS, lambda jobs: not jobs)
        await until(client, PODS, lambda pods: not pods)


@virtual_time
async def test_a_new_simulation_goes_on_where_the_old_one_stopped() -> None:
    clock = LoopClock()
    async with api_client(ServerOptions(tls=False, clock=clock)) as client:
        async with simulation(client, "a100/8", clock=clock):
            await create_job(client, "train", annotations={RUN_SECONDS: "30"}, completions=1)
            await until(client, PODS, lambda pods: phases(pods) == ["Running"])
        async with simulation(client, "a100/8", clock=clock):
            job = await until_job(client, "train", "Complete")
            pods = (await client.list(PODS)).items
    assert (job["status"]["succeeded"], len(pods)) == (1, 1)


@virtual_time
async def test_a_node_that_is_cut_off_is_not_ready_and_comes_back() -> None:
    async with sim_cluster("cpu", "2xa100/4") as client:
        await create_job(client, "job", gpus=1)
        (pod,) = await until(
            client, PODS, lambda pods: phases(pods) == ["Running"], namespace=NAMESPACE
        )
        node = pod["spec"]["nodeName"]
        await set_down(client, node, "true")
        lost = await until_one(client, NODES, node, lambda node: not is_true(node, "Ready"))
        assert condition(lost, "Ready")["status"] == "Unknown"
        # The other one still takes pods; what is on this one neither ends nor goes.
        await create_job(client, "other", gpus=1)
        await until_job(client, "other", "Complete")
        assert (await client.get(PODS, pod["metadata"]["name"], namespace=NAMESPACE))["status"][
            "phase"
        ] == "Running"
        await set_down(client, node, None)
        await until_one(client, NODES, node, lambda node: is_true(node, "Ready"))
        await until_job(client, "job", "Complete")


@virtual_time
async def test_a_deleted_node_stays_away() -> None:
    async with sim_cluster("2xcpu") as client:
        await client.delete(NODES, "cpu-0")
        await create_job(client, "job", gpus=0)
        await until_job(client, "job", "Complete")
        assert [node["metadata"]["name"] for node in (await client.list(NODES)).items] == ["cpu-1"]


@virtual_time
async def test_pods_of_a_deleted_node_fail_and_run_elsewhere() -> None:
    async with sim_cluster("2xcpu") as client:
        await create_job(client, "job", gpus=0, annotations={RUN_SECONDS: "forever"})
        [pod] = await until(client, PODS, lambda pods: phases(pods) == ["Running"])
        node, started = pod["spec"]["nodeName"], asyncio.get_running_loop().time()
        await client.delete(NODES, node)
        job = await until_one(
            client, JOBS, "job", lambda job: job["status"].get("failed") == 1, seconds=120
        )
        assert asyncio.get_running_loop().time() - started >= QUARANTINE_SECONDS
        assert not is_true(job, "Failed")
        [again] = await until(client, PODS, lambda pods: phases(pods) == ["Running"], seconds=120)
        assert again["spec"]["nodeName"] != node


@virtual_time
async def test_pods_that_the_api_server_refuses_are_tried_again() -> None:
    async with sim_cluster("cpu") as client:
        await create_job(client, "job", gpus=0, pod={"priority": 7})
        job = await until_one(client, JOBS, "job", lambda job: "startTime" in job["status"])
        assert job["status"]["active"] == 0
        await client.create(
            PRIORITY_CLASSES,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "usual"},
                "globalDefault": True,
                "value": 7,
            },
        )
        await until_job(client, "job", "Complete")


async def set_down(client: KubeClient, node: str, value: str | None) -> None:
    await client.patch(NODES, node, {"metadata": {"annotations": {DOWN: value}}})
