"""``multiqueue import`` beside a manager with webhooks: running pods and Jobs get quota."""

from __future__ import annotations

import asyncio
import io
import re
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from multiqueue.api import names
from multiqueue.api.workload_state import is_finished
from multiqueue.cli.importing.decide import ImportSettings
from multiqueue.cli.importing.mapping import build_label_rules
from multiqueue.cli.importing.run import JobImport
from multiqueue.cli.importing.tally import ImportTally
from multiqueue.cli.importing.world import read_world
from multiqueue.embedded.cluster.cluster import SimOptions
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS
from multiqueue.kube.sender import SendOutcome
from multiqueue.runtime.manifests import apply_all
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue
from tests.integration.test_cli_commands import UserShell
from tests.integration.test_runtime_manager import embedded, make_config
from tests.integration.waiting import is_true, until
from tests.pod_objects import PODS_ENABLED, make_pod
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import virtual_time

IMPORTED_AT = "multiqueue.dev/imported-at"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
QUEUE = "kueue.x-k8s.io/queue-name"
WITH_PODS = {"integrations": {"frameworks": ["batch/job", "pod"]}}
OBJECTS = """
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: a100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: team}
spec: {clusterQueue: gpus}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs-low, namespace: team}
spec: {clusterQueue: gpus}
"""
MAPPED = ("--queue-label", "src.lbl", "--queue-mapping", "a=jobs", "-n", "team")


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


@asynccontextmanager
async def cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[UserShell, KubeClient]]:
    """A cluster with 8 GPUs, and a manager that queues pods and Jobs."""
    simulation = SimOptions(pools=[parse_node_pool("a100/8")], speed=20)
    path = tmp_path / "kubeconfig"
    config = make_config(**WITH_PODS)
    async with embedded(kubeconfig=path, simulation=simulation, manager=config) as (_, client):
        await apply_all(client, yaml.safe_load_all(OBJECTS))
        await until(client, CLUSTER_QUEUES, lambda found: is_true(found[0], "Active"))
        yield UserShell(path, capsys), client


def pod_of(name: str, *, seconds: str = "3600", label: str = "a", gpus: str = "1") -> Any:
    resources = {"requests": {"nvidia.com/gpu": gpus}, "limits": {"nvidia.com/gpu": gpus}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"src.lbl": label},
            "annotations": {"multiqueue.dev/sim-run-seconds": seconds},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }


def job_of(name: str, *, parallelism: int = 2, seconds: str = "3600") -> Any:
    pod = pod_of(name, seconds=seconds)
    template = {
        "metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")},
        "spec": pod["spec"],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"parallelism": parallelism, "completions": parallelism, "template": template},
    }


def runs(count: int) -> Any:
    return lambda pods: sum(pod["status"].get("phase") == "Running" for pod in pods) == count


async def until_usage(client: KubeClient, amount: str) -> None:
    def holds(queues: Any) -> bool:
        return bool(queues[0]["status"]["flavorsUsage"][0]["resources"][0]["total"] == amount)

    await until(client, CLUSTER_QUEUES, holds)


async def test_running_pods_and_jobs_get_quota_and_give_it_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cluster(tmp_path, capsys) as (shell, client):
        await client.create(PODS, pod_of("solo", seconds="80"))
        await client.create(JOBS, job_of("train", seconds="80"))
        before = await until(client, PODS, runs(3), namespace="team")
        checked = await shell.run("import", *MAPPED)
        assert "4 found, 2 can be imported, 0 failed" in checked
        assert "2 skipped: its Job is imported as a whole" in checked
        assert not (await client.list(WORKLOADS)).items

        await shell.run("import", *MAPPED, "--add-labels", "team=red", "--dry-run=false")
        await until_usage(client, "3")
        for workload in (await client.list(WORKLOADS, namespace="team")).items:
            assert is_true(workload, "Admitted")
            reasons = {c["type"]: c["reason"] for c in workload["status"]["conditions"]}
            assert reasons["QuotaReserved"] == reasons["Admitted"] == "Imported"
            assert workload["metadata"]["labels"]["team"] == "red"
            assert GATED_BY not in workload["metadata"].get("annotations", {})
        pods = (await client.list(PODS, namespace="team")).items
        assert {p["metadata"]["uid"] for p in pods} == {p["metadata"]["uid"] for p in before}
        solo = next(p for p in pods if p["metadata"]["name"] == "solo")
        assert solo["metadata"]["labels"][QUEUE] == "jobs"

        await until_usage(client, "0")  # they have ended
        for workload in (await client.list(WORKLOADS, namespace="team")).items:
            assert is_true(workload, "Finished")


async def test_nothing_is_changed_if_two_rules_disagree_about_one_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "mapping.yaml"
    rules.write_text(
        "- {match: {labels: {src.lbl: a}}, toLocalQueue: jobs}\n"
        "- {match: {namespace: team, labels: {team: red}}, toLocalQueue: other}\n"
    )
    async with cluster(tmp_path, capsys) as (shell, client):
        for name, labels in (("good", {}), ("p1", {"team": "red"}), ("p2", {"team": "red"})):
            pod = pod_of(name)
            pod["metadata"]["labels"] |= labels
            await client.create(PODS, pod)
        await until(client, PODS, runs(3), namespace="team")
        arguments = ("import", "-n", "team", "--mapping-file", str(rules), "--dry-run=false")
        told = await shell.run(*arguments, code=1)
        assert (
            'problem of 2, such as pod team/p1: two rules give it different queues: "jobs"' in told
        )
        assert '"other"' in told
        assert "rule 2" in told
        assert "Nothing was changed" in shell.errors
        assert not (await client.list(WORKLOADS)).items
        await shell.run("import", "-n", "team", "--queue-label", "x", code=2)
        await shell.run("import", "-n", "nowhere", "--namespace-mapping", "team=jobs", code=1)
        assert 'namespaces "nowhere" not found' in shell.errors


async def test_the_commands_of_the_page_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "import.md").read_text()
    (rules,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    *checks, imports = [shlex.split(line) for block in blocks for line in block.splitlines()]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mapping.yaml").write_text(rules)
    async with cluster(tmp_path, capsys) as (shell, client):
        await client.create(PODS, pod_of("p1"))
        watcher = pod_of("watcher", label="a")
        watcher["metadata"]["labels"]["app"] = "monitoring"
        await client.create(PODS, watcher)
        await until(client, PODS, runs(2), namespace="team")
        for _, *arguments in checks:
            assert "0 failed" in await shell.run(*arguments)
        told = await shell.run(*imports[1:])
        assert "1 skipped: a rule skips it" in told
        (workload,) = (await client.list(WORKLOADS)).items
        assert workload["metadata"]["labels"]["imported"] == "yes"


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
@virtual_time
async def test_an_import_that_was_stopped_goes_on(writes: int) -> None:
    """It is cancelled after so many writes; what is left of it is completed by another one."""
    async with queue_cluster(config=PODS_ENABLED) as world:
        await create_queue(world)
        pod = make_pod("p0", labels={"src": "a"})
        del pod["metadata"]["labels"][names.QUEUE_NAME]
        await world.create(PODS, pod)
        status = {"status": {"phase": "Running"}}
        await world.patch(PODS, "p0", status, namespace=NAMESPACE, subresource="status")
        with pytest.raises(asyncio.CancelledError):
            await import_once(world, cancel_after=writes)
        tally = await import_once(world)
        assert not tally.problems
        (workload,) = (await world.client.list(WORKLOADS, namespace=NAMESPACE)).items
        assert is_true(workload, "Admitted")
        assert GATED_BY not in workload["metadata"].get("annotations", {})
        labelled = await world.client.get(PODS, "p0", namespace=NAMESPACE)
        assert labelled["metadata"]["labels"][QUEUE] == "lq"
        async with world.manager(PODS_ENABLED):
            await world.patch(
                PODS,
                "p0",
                {"status": {"phase": "Succeeded"}},
                namespace=NAMESPACE,
                subresource="status",
            )
            known = world.informers.workloads.store
            await world.changes.until(lambda: is_finished(known.list()[0].status), "its end")


async def import_once(world: QueueCluster, *, cancel_after: int = 0) -> ImportTally:
    """Import what runs; with ``cancel_after``, stop after so many writes."""
    done, task = 0, asyncio.current_task()
    assert task is not None

    def count(outcome: SendOutcome) -> None:
        nonlocal done
        done += outcome.method != "GET"
        if outcome.method != "GET" and done == cancel_after:
            task.cancel()

    credentials = await Credentials.from_kubeconfig_dict(world.server.kubeconfig())
    async with KubeClient(credentials, on_outcome=count) as client:
        settings = ImportSettings(rules=build_label_rules("src", {"a": "lq"}))
        read = await read_world(client, [NAMESPACE], world.config)
        job_import = JobImport(client, [NAMESPACE], settings, read, parallel=2)
        return await job_import.run(lambda _: None)
