"""What stands in the way is named: by `why`, by `queues show --diagnose`, for each reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from multiqueue.api.names import PRIORITY_CLASS
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_cli_commands import UserShell, logs_are_not_output
from tests.integration.test_cli_why import cluster, kubeconfig_of_user, let, make_mig_job
from tests.integration.test_runtime_manager import make_config
from tests.integration.waiting import condition, until, until_one
from tests.least_privilege import documents

__all__ = ["logs_are_not_output"]

OBJECTS = """
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: rivals}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: a100}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: high}, value: 9}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: strict}
spec:
  namespaceSelector: {}
  queueingStrategy: StrictFIFO
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: team}
spec: {clusterQueue: strict}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: rivals}
spec: {clusterQueue: strict}
"""


def make_gpu_job(name: str, gpus: int, *, namespace: str = "team") -> dict[str, Any]:
    job = make_mig_job(name, gpus)
    amount = {"nvidia.com/gpu": str(gpus)}
    resources = {"requests": amount, "limits": amount}
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    job["metadata"]["namespace"] = namespace
    return job


@asynccontextmanager
async def strict_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[UserShell, KubeClient, Any]]:
    """Quota 4; "runs" has 2, "rivals/large" asks for 4, and "small" behind it for 2."""
    async with cluster(tmp_path, capsys, manager=make_config()) as (shell, client, running):
        await apply_all(client, yaml.safe_load_all(OBJECTS))
        await client.create(JOBS, make_gpu_job("runs", 2))
        await until(client, WORKLOADS, lambda all_: _with(all_, "True") == 1)
        large = make_gpu_job("large", 4, namespace="rivals")
        large["metadata"]["labels"][PRIORITY_CLASS] = "high"
        await client.create(JOBS, large)
        await until(client, WORKLOADS, lambda all_: _with(all_, "False") == 1)
        await client.create(JOBS, make_gpu_job("small", 2))
        await until_one(
            client, CLUSTER_QUEUES, "strict", lambda q: q["status"].get("pendingWorkloads") == 2
        )
        yield shell, client, running


def _with(workloads: list[dict[str, Any]], status: str) -> int:
    return sum(condition(each, "QuotaReserved").get("status") == status for each in workloads)


async def ask_api(client: KubeClient, name: str) -> dict[str, Any]:
    listed = await client.list(WORKLOADS, namespace="team")
    names = [workload["metadata"]["name"] for workload in listed.items]
    (key,) = [each for each in names if each.startswith(f"job-{name}-")]
    path = f"/apis/remote.multiqueue.dev/v1alpha1/namespaces/team/workloads/{key}/explanation"
    status: dict[str, Any] = orjson.loads((await client.request("GET", path)).body)["status"]
    return status


async def test_the_head_of_a_strict_queue_is_named_with_what_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with strict_queue(tmp_path, capsys) as (shell, client, _):
        why = await shell.json("why", "small", "-n", "team")
        text = await shell.run("why", "small", "-n", "team")
        api = await ask_api(client, "small")
        diagnosis = await shell.json("queues", "show", "jobs", "-n", "team", "--diagnose")
        shown = await shell.run("queues", "show", "cq/strict", "--diagnose")

    blocker = api["blockedBy"]["workload"]
    assert blocker.startswith("rivals/job-large-")
    told = (
        f"ClusterQueue strict is StrictFIFO, so it waits behind {blocker} (4 GPUs, priority 9), "
        "which starts first. That one waits: nvidia.com/gpu in flavor a100: 2 more needed"
    )
    assert api["why"] == told
    assert why["why"].partition(": ")[2] == told
    assert [row["verdict"] for row in why["flavors"]] == ["fits"]
    assert told in text
    assert "pending evaluation" not in text
    (finding,) = diagnosis["findings"]
    assert finding["cause"] == "blocked head"
    assert told in finding["what"]
    assert diagnosis["quota"] == [
        {
            "flavor": "a100",
            "resource": "nvidia.com/gpu",
            "nominal": "4",
            "used": "2",
            "borrowed": "0",
        }
    ]
    assert "blocked head: team/job-small-" in shown
    assert "quota too low: rivals/job-large-" in shown


async def test_a_reader_of_one_namespace_sees_its_queues_in_full_and_no_other_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with strict_queue(tmp_path, capsys) as (_, client, running):
        await apply_all(client, documents("rbac/kind_roles.yaml"))
        await let(client, "kueue-batch-user-role", "view")
        user = UserShell(await kubeconfig_of_user(client, running, tmp_path), capsys)
        outputs, notes = [], []
        for arguments in (
            ("queue", "-A"),
            ("queue", "--cluster-queue", "strict"),
            ("queue", "jobs"),
            ("why", "small"),
            ("queues", "show", "jobs", "--diagnose"),
            ("top", "--once"),
        ):
            outputs.append(await user.run(*arguments, "-n", "team"))
            notes.append(user.errors)
        rows = await user.json("queue", "--cluster-queue", "strict", "-n", "team")
        await user.run("queue", "-n", "rivals", code=1)

    assert 'you may not list LocalQueues in namespace "rivals"' in user.errors
    summaries, of_cluster_queue, _, why, diagnosis, top = outputs
    assert "team/small" in top
    assert "note: quotas cannot be read: you may not ask the manager" in top
    assert "team" in summaries
    assert "jobs" in summaries
    assert 'in namespace "team" only' in notes[0]
    assert "team/job-small-" in of_cluster_queue
    assert [row["position"] for row in rows if row["position"]] == [2]
    assert "waits behind a Workload of another namespace (4 GPUs, priority 9)" in why
    assert "blocked head" in diagnosis
    assert not [text for text in (*outputs, *notes) if "rivals" in text or "large" in text]


async def test_a_healthy_manager_is_not_blamed_for_a_kind_that_it_does_not_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = make_config(integrations={"frameworks": ["pod"]})
    async with cluster(tmp_path, capsys, manager=manager) as (shell, client, _):
        await apply_all(client, yaml.safe_load_all(OBJECTS))
        await until_one(
            client, CLUSTER_QUEUES, "strict", lambda q: bool(q["status"].get("conditions"))
        )
        await client.create(JOBS, make_gpu_job("unseen", 2))
        told = await shell.refusal("why", "unseen")
    assert "a manager runs and has not queued it" in told
    assert "integrations.frameworks" in told
