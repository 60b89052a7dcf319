"""The commands against a cluster with a manager: what people and programs get to read."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
import yaml

from multiqueue.cli.main import main
from multiqueue.embedded.cluster.cluster import SimOptions
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, WORKLOADS
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_runtime_manager import embedded, make_config
from tests.integration.waiting import condition, until

QUEUE = "kueue.x-k8s.io/queue-name"
OBJECTS = """
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: a100}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: high}, value: 9}
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
"""


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    """The cluster of these tests runs in this process; its logs are not what commands print."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


class UserShell:
    """Runs commands as a user would, with the cluster's kubeconfig."""

    def __init__(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._kubeconfig = str(kubeconfig)
        self.capsys = capsys
        self.errors = ""

    async def run(self, *arguments: str, code: int = 0) -> str:
        """Return what a command prints; its exit code must be the given one."""
        self.capsys.readouterr()
        got = await asyncio.to_thread(main, [*arguments, "--kubeconfig", self._kubeconfig])
        output = self.capsys.readouterr()
        assert got == code, output
        assert "Traceback" not in output.err
        self.errors = output.err
        return output.out

    async def refusal(self, *arguments: str) -> str:
        """Return what a command that fails in namespace "team" says."""
        await self.run(*arguments, "-n", "team", code=1)
        return self.errors

    async def json(self, *arguments: str, code: int = 0) -> Any:
        return orjson.loads(await self.run(*arguments, "-o", "json", code=code))


@asynccontextmanager
async def queue_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[UserShell, Any]]:
    kubeconfig = tmp_path / "kubeconfig"
    simulation = SimOptions(pools=[parse_node_pool("a100/4")], speed=20)
    options: dict[str, Any] = {"kubeconfig": kubeconfig, "simulation": simulation}
    async with embedded(**options, manager=make_config()) as (_, client):
        await apply_all(client, yaml.safe_load_all(OBJECTS))
        yield UserShell(kubeconfig, capsys), client


def write_job(
    path: Path,
    name: str,
    *,
    gpus: int,
    seconds: str = "1",
    exit_code: int = 0,
    priority: str | None = None,
    queue: str | None = "jobs",
) -> str:
    labels = {QUEUE: queue} if queue else {}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    annotations = {
        "multiqueue.dev/sim-run-seconds": seconds,
        "multiqueue.dev/sim-exit-code": str(exit_code),
    }
    amount = {"nvidia.com/gpu": str(gpus)}
    resources = {"requests": amount, "limits": amount}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "resources": resources}],
                },
            },
        },
    }
    file = path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(job))
    return str(file)


def read(path: str) -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load(Path(path).read_text())
    return job


async def test_a_job_is_followed_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, "train", gpus=2)
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        text = await shell.run("submit", "-f", job, "-n", "team", "--wait")
        again = await shell.run("submit", "-f", job, "-n", "team")
    assert "job/train created" in text
    assert "in LocalQueue jobs" in text
    assert "job/train Succeeded" in text
    assert "job/train unchanged" in again


async def test_a_job_on_this_cluster_is_looked_at_by_the_rights_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        await shell.run("submit", "-f", write_job(tmp_path, "train", gpus=1), "-n", "team")
        log = await shell.run("logs", "-f", "train", "-n", "team")
        assert "train: finished" in shell.errors
        assert log.splitlines()[0] == 'simulated container "c" started, image i'
        assert log.splitlines()[-1] == "finished with exit code 0"
        header, pod = (await shell.run("pods", "train", "-n", "team")).splitlines()
        assert header.split()[-2:] == ["CLUSTER", "NODE"]
        assert pod.split()[2:4] + pod.split()[-2:] == ["Completed", "0", "-", "a100-0"]
        assert await shell.run("logs", "train", "-n", "team") == log
        found = await shell.json("events", "train", "-n", "team")
        told = {event["involvedObject"]["kind"] for event in found["items"]}
        assert told >= {"Job", "Workload"}
        large = write_job(tmp_path, "large", gpus=5)
        await shell.run("submit", "-f", large, "-n", "team")
        assert "has no pods now, waiting for quota: ExceedsMaxQuota" in await shell.refusal(
            "logs", "large"
        )


async def test_waiting_for_a_job_that_fails_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, "train", gpus=1, exit_code=1)
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        (result,) = await shell.json("submit", "-f", job, "-n", "team", "--wait", code=1)
    assert (result["outcome"], result["state"]) == ("created", "Failed")


async def test_the_manifests_of_a_directory_are_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name in ("second", "first"):
        write_job(folder, name, gpus=1)
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        submitted = await shell.json("submit", "-f", str(folder), "-n", "team")
        empty = await shell.run("submit", "-f", str(tmp_path), "-n", "team", code=2)
    assert [each["object"] for each in submitted] == ["job/first", "job/second"]
    assert empty == ""


async def test_queues_alone_lists_the_cluster_queues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        listed, same = await shell.run("queues"), await shell.run("list", "clusterqueue")
        (queue,) = (await shell.json("queues"))["items"]
    (*row, _), (*other, _) = (text.splitlines()[1].split() for text in (listed, same))  # no age
    assert listed.splitlines()[0] == same.splitlines()[0]
    assert row == other
    assert row[0] == "gpus"
    assert queue["metadata"]["name"] == "gpus"


async def test_a_refused_manifest_is_named_and_the_others_are_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_job(tmp_path, "good", gpus=1)
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {name: bad}\nspec: {}\n")
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: misspelt}\nspec:\n"
        "  replicas: 3\n  template:\n    spec:\n      restartPolicy: Never\n"
        "      containers: [{name: a, image: b}]\n"
    )
    files = ["-f", str(bad), "-f", str(misspelt), "-f", good]
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        results = await shell.json("submit", *files, "-n", "team", code=1)
    assert [result["outcome"] for result in results] == ["refused", "refused", "created"]
    assert "spec.template" in results[0]["message"]
    assert 'unknown field "spec.replicas"' in results[1]["message"]


async def check_list(shell: UserShell) -> None:
    """Check that `workloads list` shows one job that runs and two that wait."""
    listed = await shell.json("workloads", "list", "-A", "--waiting")
    assert [each["status"]["job"] for each in listed] == ["Job/first", "Job/second"]
    assert [each["status"]["position"] for each in listed] == [1, 2]
    assert await shell.json("workloads", "list", "-n", "team", "--parked") == []
    row = (await shell.run("workloads", "list", "-n", "team", "--phase", "running")).split()
    assert row[:5] == ["NAME", "JOB", "PHASE", "GPUS", "WHY"]
    assert row[6] == "Job/long"


async def test_who_waits_sees_position_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        for name, gpus, priority in (("long", 3, None), ("first", 2, "high"), ("second", 3, None)):
            job = write_job(tmp_path, name, gpus=gpus, seconds="forever", priority=priority)
            await shell.run("submit", "-f", job, "-n", "team")
        await until(client, WORKLOADS, lambda all_: sum(map(_waits, all_)) == 2)

        rows = await shell.json("queue", "jobs", "-n", "team")
        assert [(row["position"], row["job"]) for row in rows] == [
            (None, "Job/long"),
            (1, "Job/first"),
            (2, "Job/second"),
        ]
        assert "1 more needed" in rows[1]["why"]
        assert rows == await shell.json("queue", "--cluster-queue", "gpus")

        assert rows[0]["start"] is None
        assert {"at", "reason"} & set(rows[1]["start"])
        assert "START" in await shell.run("queue", "jobs", "-n", "team")

        await check_list(shell)

        top = await shell.json("top")
        assert [row["status"]["waiting"] for row in top["totals"]] == [2]
        assert "3/4" in await shell.run("top", "--once")

        answer = await client.request("GET", "/apis/fleet.multiqueue.dev/v1alpha1/lines/gpus")
        line = orjson.loads(answer.body)["items"]
        assert [each["parked"] for each in line] == [False, False], "they wait for others to end"

        (share,) = await shell.json("fairness")
        assert (share["clusterQueue"], share["waiting"]) == ("gpus", 2)
        assert (await shell.run("fairness")).splitlines()[1].startswith("gpus  ")
        assert await shell.run("fairness", "--starved") == "No queue is starved.\n"

        (node,) = await shell.json("cohorts")
        assert (node["name"], node["kind"], node["quotas"][0]["used"]) == (
            "gpus",
            "ClusterQueue",
            3,
        )
        row = (await shell.run("cohorts")).splitlines()[1].split()
        assert row == ["queue", "gpus", "a100", "nvidia.com/gpu", "4", "3", "0", "0"]
        await shell.run("cohorts", "show", "c", code=1)
        assert 'there is no Cohort "c"' in shell.errors

        (flavor,) = await shell.json("flavors")
        assert (flavor["name"], flavor["used"], flavor["clusterQueues"]) == ("a100", 3, ["gpus"])
        row = (await shell.run("flavors")).splitlines()[1].split()
        assert row == ["a100", "4", "3", "1"]
        assert shell.errors == ""

        (summary,) = await shell.json("queue", "-n", "team")
        assert (summary["pending"], summary["running"], summary["gpus"]) == (2, 1, 3)

        why = await shell.json("why", "second", "-n", "team")
        assert (why["state"], why["position"], why["waiting"]) == ("Queued", 2, 2)
        assert why["flavors"][0]["verdict"] == "2 more needed"
        text = await shell.run("why", "job/second", "-n", "team")
        assert "position 2 of 2" in text
        assert "2 more needed" in text

        await client.patch(CLUSTER_QUEUES, "gpus", {"spec": {"stopPolicy": "Hold"}})
        await until(client, CLUSTER_QUEUES, lambda all_: _is_stopped(all_[0]))
        told = await shell.json("changes", "--kind", "clusterqueue", "--since", "1h")
        assert [each["action"] for each in told] == ["changed", "created"]
        assert "stopPolicy" in await shell.run("changes")


async def test_waiting_for_a_job_that_cannot_run_ends_with_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = write_job(tmp_path, "wide", gpus=5)
    lost = write_job(tmp_path, "lost", gpus=1, queue="nowhere")
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        text = await shell.run("submit", "-f", wide, "-f", lost, "-n", "team", "--wait", code=1)
        queues = await shell.json("queue", "-A")
    assert "job/wide cannot run as things stand: ExceedsMaxQuota: " in text
    assert "job/lost cannot run as things stand: Misconfigured: LocalQueue nowhere" in text
    assert {queue["localQueue"] for queue in queues} == {"jobs", "nowhere"}


def _warns(event: dict[str, Any]) -> bool:
    return bool(event["type"] == "Warning")


def _is_stopped(queue: dict[str, Any]) -> bool:
    return condition(queue, "Active")["status"] == "False"


def _waits(workload: dict[str, Any]) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "False"


async def test_a_job_without_workload_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = read(write_job(tmp_path, "wrong-class", gpus=1, priority="nope"))
    free = read(write_job(tmp_path, "free", gpus=1, queue=None))
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        await client.create(JOBS, free, namespace="team")
        assert "has no label kueue.x-k8s.io/queue-name" in await shell.refusal("why", "free")
        await client.create(JOBS, wrong, namespace="team")
        await until(client, EVENTS, lambda all_: any(_warns(event) for event in all_))
        told = await shell.refusal("why", "job/wrong-class")
        assert "WorkloadPriorityClassNotFound: " in told
        nobody = await shell.refusal("why", "nobody")
        assert "-n names another namespace" in nobody


async def test_submit_says_why_a_job_is_not_queued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free = write_job(tmp_path, "free", gpus=1, queue=None)
    wrong = write_job(tmp_path, "wrong-class", gpus=1, priority="nope")
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        text = await shell.run("submit", "-f", free, "-f", wrong, "-n", "team")
        (told,) = await shell.json("submit", "-f", free, "-n", "team")
    assert "it is in no queue: it has no label kueue.x-k8s.io/queue-name" in text
    assert "--queue" in told["message"]
    assert "no Workload yet: WorkloadPriorityClassNotFound: " in text


async def test_what_does_not_exist_is_named_with_what_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        await shell.run("queue", "nope", "-n", "team", code=1)
        await shell.run("queue", "--cluster-queue", "nope", code=1)
        await shell.run("why", "nope", "-n", "team", code=1)
        assert await shell.run("clusters") == (
            "No MultiKueueClusters; jobs run on this cluster only.\n"
        )
