"""Snapshot, replay, what-if and rehearsal against a manager: what they say is what it then does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from multiqueue.cli.main import main
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_cli_commands import UserShell, logs_are_not_output
from tests.integration.test_cli_why import FAIR, SLICES, full_cluster, kubeconfig_of_user
from tests.integration.test_runtime_manager import embedded, make_config
from tests.integration.waiting import condition, until

__all__ = ["logs_are_not_output"]

API = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
GPU = "nvidia.com/gpu"
TEAMS = {"research": 4, "training": 4}


def make_objects() -> list[dict[str, Any]]:
    """Two teams of one cohort with 4 GPUs each; the lender takes its GPUs back by priority."""
    objects: list[dict[str, Any]] = [
        {**API, "kind": "ResourceFlavor", "metadata": {"name": "a100"}, "spec": {}},
        {**API, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 100},
    ]
    for team, gpus in TEAMS.items():
        flavor = {"name": "a100", "resources": [{"name": GPU, "nominalQuota": str(gpus)}]}
        spec = {
            "cohortName": "all",
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}],
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "LowerPriority",
            },
        }
        local = {"name": "jobs", "namespace": team}
        objects += [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
            {**API, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": spec},
            {**API, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": team}},
        ]
    return objects


def make_job(team: str, name: str, gpus: int, *, priority: str = "") -> dict[str, Any]:
    resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    secret = [{"name": "TOKEN", "value": "s3cr3t"}]
    container = {"name": "c", "image": "i", "env": secret, "resources": resources}
    labels = {"kueue.x-k8s.io/queue-name": "jobs"}
    labels |= {"kueue.x-k8s.io/priority-class": priority} if priority else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": team, "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


CROWD = {"a": ("training", 6), "b": ("research", 1), "c": ("research", 4), "d": ("training", 3)}
CROWD |= {"e": ("research", 1), "f": ("research", 6), "g": ("training", 9)}


class Fleet:
    """A manager and a user."""

    def __init__(self, client: KubeClient, shell: UserShell, file: str) -> None:
        self.client, self.shell, self.file = client, shell, file

    async def submit(self, job: dict[str, Any]) -> None:
        """Submit a job, and wait until all jobs are judged."""
        await self.client.create(JOBS, job)
        jobs = len((await self.client.list(JOBS)).items)
        await until(self.client, WORKLOADS, lambda all_: sum(map(is_judged, all_)) == jobs)

    async def holders(self) -> set[str]:
        listed = await self.client.list(WORKLOADS)
        return {job_of(each) for each in listed.items if has_quota(each)}

    async def replay(self, *changes: str, code: int = 0) -> Any:
        """Take a snapshot and replay it."""
        await self.shell.run("snapshot", "-o", self.file)
        options = [word for change in changes for word in ("--what-if", change)]
        return await self.offline("replay", self.file, *options, code=code)

    async def offline(self, *arguments: str, code: int = 0) -> Any:
        self.shell.capsys.readouterr()
        got = await asyncio.to_thread(main, [*arguments, "-o", "json"])
        output = self.shell.capsys.readouterr()
        assert got == code, output
        return orjson.loads(output.out)


@asynccontextmanager
async def fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Fleet]:
    kubeconfig = tmp_path / "kubeconfig"
    async with embedded(kubeconfig=kubeconfig, manager=make_config()) as (_, client):
        await apply_all(client, make_objects())
        await until(client, CLUSTER_QUEUES, lambda all_: all(map(is_active, all_)))
        await until(client, LOCAL_QUEUES, lambda all_: all(map(is_active, all_)))
        yield Fleet(client, UserShell(kubeconfig, capsys), str(tmp_path / "fleet.snapshot"))


def is_active(queue: dict[str, Any]) -> bool:
    return condition(queue, "Active").get("status") == "True"


def is_judged(workload: dict[str, Any]) -> bool:
    found = condition(workload, "QuotaReserved")
    return found.get("status") == "True" or found.get("reason", "Pending") != "Pending"


def has_quota(workload: dict[str, Any]) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "True"


def job_of(workload: dict[str, Any]) -> str:
    return str(workload["metadata"]["ownerReferences"][0]["name"])


def name_of(row: dict[str, Any]) -> str:
    return str(row["job"]).removeprefix("Job/")


async def list_specs(world: Fleet) -> list[tuple[str, int]]:
    """Each Workload with the number of changes of its spec."""
    listed = (await world.client.list(WORKLOADS)).items
    return [(each["metadata"]["uid"], each["metadata"]["generation"]) for each in listed]


async def test_a_replay_holds_what_the_manager_holds_and_says_what_why_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with fleet(tmp_path, capsys) as world:
        for name, (team, gpus) in CROWD.items():
            await world.submit(make_job(team, name, gpus))
        before = await list_specs(world)
        got = await world.replay()
        holders = await world.holders()
        waiting = {name_of(row): row for row in got["workloads"] if row["fate"] == "waits"}
        told = {name: await world.shell.json("why", name, "-n", CROWD[name][0]) for name in waiting}
        after = await list_specs(world)

    keeps = {name_of(row) for row in got["workloads"] if row["fate"] == "keeps"}
    assert keeps == holders
    assert keeps | set(waiting) == set(CROWD)
    assert {name: f"{row['reason']}: {row['why']}" for name, row in waiting.items()} == {
        name: why["why"] for name, why in told.items()
    }
    assert after == before  # the manager may write a status meanwhile
    assert b"s3cr3t" not in (tmp_path / "fleet.snapshot").read_bytes()


async def test_a_changed_quota_starts_whom_the_what_if_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with fleet(tmp_path, capsys) as world:
        for name, (team, gpus) in CROWD.items():
            await world.submit(make_job(team, name, gpus))
        before = await world.holders()
        got = await world.replay(f"quota cq/research {GPU}=9")
        starts = {name_of(r["after"]) for r in got["workloads"] if r["effect"] == "starts now"}
        queue = await world.client.get(CLUSTER_QUEUES, "research")
        (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
        flavor["resources"][0]["nominalQuota"] = "9"
        await world.client.patch(CLUSTER_QUEUES, "research", {"spec": queue["spec"]})
        want = len(before | starts)
        await until(world.client, WORKLOADS, lambda all_: sum(map(has_quota, all_)) == want)
        assert starts
        assert await world.holders() == before | starts


async def test_a_rehearsal_names_whom_the_job_then_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urgent = make_job("research", "urgent", 3, priority="urgent")
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(urgent))
    async with fleet(tmp_path, capsys) as world:
        await world.submit(make_job("training", "lent", 5))
        await world.submit(make_job("training", "more", 2))
        rehearsal = ("preempt", "--dry-run", "-f", str(manifest))
        got = await world.shell.json(*rehearsal)
        text = await world.shell.run(*rehearsal)
        assert await world.holders() == {"lent", "more"}
        await world.client.create(JOBS, urgent)
        await until(
            world.client,
            WORKLOADS,
            lambda all_: any(has_quota(each) and job_of(each) == "urgent" for each in all_),
        )
        holders = await world.holders()

    (row,) = got["jobs"]
    assert (row["fate"], row["flavors"]) == ("starts", ["a100"])
    stopped = {name_of(each) for each in got["stopped"]}
    assert stopped == {"lent", "more"} - holders
    (victim,) = got["stopped"]
    assert victim["stoppedBy"]["reason"] == "InCohortReclamation"
    assert victim["graceSeconds"] == 30
    assert victim["clusterQueue"] == "training"
    assert victim["released"][0]["flavor"] == "a100"
    assert "would start once 1 job has stopped, flavor a100" in text
    assert "reclamation within the cohort" in text


async def test_a_job_for_which_nobody_leaves_would_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(make_job("research", "meek", 6)))
    async with fleet(tmp_path, capsys) as world:
        await world.submit(make_job("training", "runs", 4))
        text = await world.shell.run("preempt", "--dry-run", "-f", str(manifest), code=1)
    assert "would wait, place 1" in text
    assert "2 more needed" in text


async def test_a_user_without_the_rights_is_told_what_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.snapshot"
    async with full_cluster(tmp_path, capsys) as (_, client, running):
        user = UserShell(await kubeconfig_of_user(client, running, tmp_path), capsys)
        await user.run("snapshot", "-o", str(file), code=1)
    assert "a snapshot needs all " in user.errors
    assert "you may not list them" in user.errors
    assert not file.exists()


async def test_the_managers_configuration_decides_how_requests_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, file = tmp_path / "config.yaml", str(tmp_path / "fleet.snapshot")
    config.write_text(
        yaml.safe_dump({"fairSharing": FAIR, "resources": {"transformations": [SLICES]}})
    )
    async with full_cluster(tmp_path, capsys) as (shell, client, _):
        world = Fleet(client, shell, file)
        await shell.run("snapshot", "-o", file)
        assert "the defaults are assumed; name a file with --config" in shell.errors
        await shell.run("snapshot", "-o", file, "--config", str(config))
        assert "--config" not in shell.errors
        got = await world.offline("replay", file)
    assert {name_of(row): row["fate"] for row in got["workloads"]} == {
        "runs": "keeps",
        "also": "waits",
        "waits": "waits",
    }
    assert all("3 more needed" in row["why"] for row in got["workloads"] if row["why"])
