"""The demo as a user runs it: three clusters, a manager process, jobs that find their worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import JOBS, PODS
from multiqueue.runtime.demo.jobs import ONCE, DemoJob, build_job
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_runtime_manager import published
from tests.integration.waiting import is_true, until, until_one

# Several processes, on machines with few cores.
pytestmark = [pytest.mark.programs, pytest.mark.timeout(180)]

PROGRAM = ["-m", "multiqueue"]


async def start(
    *arguments: str, python: Path | str = sys.executable, **streams: Any
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(python, *PROGRAM, *arguments, **streams)


async def stop(process: asyncio.subprocess.Process) -> int:
    if process.returncode is None:
        process.terminate()
    return await asyncio.wait_for(process.wait(), 30)


async def test_twelve_jobs_end_as_they_should(tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    file = tmp_path / "demo.snapshot"
    process = await start(
        "demo", "--once", "--snapshot", str(file), "-o", "json", stdout=pipe, stderr=pipe
    )
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, errors.decode()
    assert "multiqueue run --config" in errors.decode()
    jobs = {job["name"]: job for job in orjson.loads(output)["jobs"]}
    assert list(jobs) == [job.name for job in ONCE]
    for planned in ONCE:
        job = jobs[planned.name]
        assert job["state"] == str(planned.end)
        assert job["worker"] in (planned.workers or (None,))
        assert (job["waitedSeconds"] is None) == (not planned.workers)
    assert "ExceedsMaxQuota" in jobs["too-wide"]["reason"]
    assert "quantities must match" in jobs["typo"]["reason"]
    assert jobs["vit-large"]["waitedSeconds"] > 3
    await _try_more_quota(file)


async def _try_more_quota(file: Path) -> None:
    """Ask the snapshot whom 16 GPUs for research would let start."""
    change = "quota cq/research nvidia.com/gpu=16"
    pipe = asyncio.subprocess.PIPE
    process = await start("replay", str(file), "--what-if", change, "-o", "json", stdout=pipe)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    got = orjson.loads(output)
    assert process.returncode == 0
    assert got["notes"] == []
    assert "from 3 to 12 in flavor a100" in got["changes"][0]
    assert "starts now" in {row["effect"] for row in got["workloads"]}
    assert {row["after"]["job"] for row in got["workloads"]} <= {f"Job/{job.name}" for job in ONCE}


async def test_a_job_of_every_kind_runs_on_a_worker() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await start(
        "demo", "--once", "--kinds", "all", "-o", "json", stdout=pipe, stderr=pipe
    )
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    jobs = orjson.loads(output)["jobs"]
    assert process.returncode == 0, (jobs, errors.decode())
    queued = {row.kind for row in JOB_KINDS if row.is_queued or row.template}
    assert "my-pod-group" in {job["name"] for job in jobs}
    assert queued - {job["kind"] for job in jobs} == {"SparkApplication"}  # it has no adapter
    for job in jobs:
        assert job["worker"]
        assert job["state"] in ("Succeeded", "Running")


async def test_a_gang_starts_by_its_promised_time_under_the_policy() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await start("demo", "--once", "--policy", "gentle", "-o", "json", stdout=pipe)
    output, _ = await asyncio.wait_for(process.communicate(), 180)
    gang = orjson.loads(output)
    assert process.returncode == 0, gang
    assert gang["gpus"] == 4
    assert gang["promisedSeconds"] is not None
    assert 10 <= gang["reservedSeconds"] <= gang["promisedSeconds"] + 1


class Served:
    """A demo that keeps running, with clients of its clusters."""

    def __init__(self, paths: dict[str, Any], clients: dict[str, KubeClient]) -> None:
        self.command: list[str] = paths["manager"]["command"]
        self.pid: int = paths["manager"]["pid"]
        self.manager = clients["manager"]
        self.workers = {name: each for name, each in clients.items() if name != "manager"}


@contextlib.asynccontextmanager
async def served(
    data: Path, *arguments: str, python: Path | str = sys.executable
) -> AsyncIterator[Served]:
    with (data / "stdout").open("wb") as output, (data / "stderr").open("wb") as errors:
        process = await start(
            *("demo", "--serve", "--data", str(data), "-o", "json", *arguments),
            python=python,
            stdout=output,
            stderr=errors,
        )
    try:
        async with contextlib.AsyncExitStack() as stack:
            paths = await _first_output(process, data / "stdout")
            clients = {}
            for name, path in paths["kubeconfigs"].items():
                client = KubeClient(await Credentials.from_kubeconfig_file(path))
                clients[name] = await stack.enter_async_context(client)
            yield Served(paths, clients)
    finally:
        assert await stop(process) == 0, (data / "stderr").read_text()


async def _first_output(process: asyncio.subprocess.Process, path: Path) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(orjson.JSONDecodeError):
                paths: dict[str, Any] = orjson.loads(await asyncio.to_thread(path.read_bytes))
                return paths
            assert process.returncode is None, (path.parent / "stderr").read_text()
            await asyncio.sleep(0.05)  # another process writes the file


async def test_a_job_that_is_applied_once_there_is_a_kubeconfig_is_dispatched(
    tmp_path: Path,
) -> None:
    file = tmp_path / "manager.kubeconfig"
    file.write_text("of a fleet that was killed")
    process = await start("demo", "--serve", "--data", str(tmp_path))
    try:
        async with asyncio.timeout(60):
            while True:
                if "clusters" in _read(file):
                    break
                await asyncio.sleep(0.05)  # another process writes the file
        async with KubeClient(await Credentials.from_kubeconfig_file(file)) as client:
            job = DemoJob(team="research", name="first", pods=1, gpus_each=1, run_seconds=1)
            created = await client.create(JOBS, build_job(job), namespace=job.team)
    finally:
        assert await stop(process) == 0
    assert created["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert _read(file) == ""


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def test_published_manifests_run_and_the_commands_tell_where_jobs_are(tmp_path: Path) -> None:
    async with served(tmp_path) as demo:
        job = DemoJob(team="research", name="wide", pods=2, gpus_each=4, run_seconds=60)
        await demo.manager.create(JOBS, build_job(job), namespace=job.team)
        await apply_all(demo.manager, published("v1beta1-gpu-teams.yaml"))
        await apply_all(demo.manager, published("v1beta2-batch-gpu.yaml"))
        await until_one(
            demo.manager,
            JOBS,
            "train-model",
            lambda job: is_true(job, "Complete"),
            namespace="training",
        )
        kubeconfig = str(tmp_path / "manager.kubeconfig")
        clusters = {c["name"]: c for c in await ask("clusters", "--kubeconfig", kubeconfig)}
        assert clusters["worker-a100"]["gpus"] == [
            {"flavor": "a100", "total": 8, "used": 8, "free": 0}
        ]
        assert clusters["worker-h100"]["running"] == []
        assert not clusters["worker-cluster-a100"]["connected"]
        shown = await ask("clusters", "show", "worker-a100", "--kubeconfig", kubeconfig)
        assert (shown["used"], shown["free"], shown["problems"]) == (8, 0, [])
        assert shown["health"] > 0
        assert "Job/wide" in [each["status"]["job"] for each in shown["jobs"]]
        top, *below = await ask("cohorts", "show", "gpu-pool", "--kubeconfig", kubeconfig)
        assert (top["name"], top["kind"], top["level"]) == ("gpu-pool", "Cohort", 0)
        members = [(each["name"], each["level"]) for each in below]
        assert members == [("inference", 1), ("research", 1), ("training", 1)]
        why = await ask("why", "wide", "-n", "research", "--kubeconfig", kubeconfig)
        assert (why["worker"], why["checks"][0]["state"]) == ("worker-a100", "Ready")
        roles = {worker["name"]: worker["role"] for worker in why["workers"]}
        assert roles == {"worker-a100": "runs here", "worker-h100": ""}
        where = ("-n", "research", "--kubeconfig", kubeconfig)
        decided = await ask("why", "wide", "--clusters", *where)
        best = decided["clusters"][0]
        assert (decided["dispatcher"], decided["nominated"]) == ("score", ["worker-a100"])
        assert (best["cluster"], best["tier"], best["start"]) == ("worker-a100", "Fit", "now")
        asked = DemoJob(team="research", name="asked", pods=1, gpus_each=1, run_seconds=60)
        manifest = tmp_path / "asked.json"
        manifest.write_bytes(orjson.dumps(build_job(asked)))
        (review,) = await ask("dispatch", "--dry-run", "-f", str(manifest), *where)
        assert review["clusterQueue"] == "research"
        assert review["decision"]["nominated"] == ["worker-h100"]

        for name, client in demo.workers.items():
            await apply_all(client, samples(f"samples-worker/{name}"))
        ours = samples("samples")
        ours[-1]["spec"]["template"]["metadata"]["annotations"][RUN_SECONDS] = "1"
        await apply_all(demo.manager, ours)
        sample = await until_one(
            demo.manager,
            JOBS,
            "train-sample",
            lambda job: is_true(job, "Complete"),
            namespace="training",
        )
        assert sample["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
        clusters = {c["name"]: c for c in await ask("clusters", "--kubeconfig", kubeconfig)}
        for name in demo.workers:
            assert (clusters[name]["connected"], clusters[name]["stopped"]) == (True, [])


def samples(name: str) -> list[dict[str, Any]]:
    """The manifests of a folder of the repository's samples, in the order of their names."""
    folder = Path(__file__).parents[2] / "config" / name
    paths = sorted(folder.glob("*.yaml"))
    return [each for path in paths for each in yaml.safe_load_all(path.read_text()) if each]


async def ask(*arguments: str) -> Any:
    process = await start(*arguments, "-o", "json", stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    return orjson.loads(output)


async def test_a_killed_manager_is_replaced_and_no_job_is_lost_or_run_twice(tmp_path: Path) -> None:
    jobs = [
        DemoJob(team="research", name=f"job-{n}", pods=2, gpus_each=2, run_seconds=2)
        for n in range(6)
    ]
    async with served(tmp_path) as demo:
        pods = [asyncio.create_task(_started_pods(worker)) for worker in demo.workers.values()]
        for job in jobs:
            await demo.manager.create(JOBS, build_job(job), namespace=job.team)
        await until(demo.manager, JOBS, lambda all_: any(_ready(job) for job in all_))
        os.kill(demo.pid, signal.SIGKILL)
        second = await asyncio.create_subprocess_exec(
            *demo.command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await until(
                demo.manager,
                JOBS,
                lambda all_: len(all_) == 6 and all(is_true(job, "Complete") for job in all_),
                seconds=90,
            )
        finally:
            assert await stop(second) == 0
        for task in pods:
            task.cancel()
        started = [name for task in pods for name in await task]
    told = (tmp_path / "stderr").read_text()
    assert "The manager ended (signal SIGKILL). The end of its log" in told
    assert (tmp_path / "manager.log").read_text().splitlines()[-1] in told
    assert f"start the manager again:\n  {shlex.join(demo.command)}" in told
    assert sorted(started) == sorted(job.name for job in jobs for _ in range(job.pods))


def _ready(job: dict[str, Any]) -> bool:
    return bool((job.get("status") or {}).get("ready"))


async def _started_pods(client: KubeClient) -> list[str]:
    """Return, when cancelled, the job of every pod that ever ran on a worker."""
    started: dict[str, str] = {}
    listed = await client.list(PODS)
    try:
        async with contextlib.aclosing(
            client.watch(PODS, resource_version=listed.resource_version)
        ) as events:
            async for event in events:
                pod = orjson.loads(event.raw)
                if (pod.get("status") or {}).get("phase") == "Running":
                    uid, labels = pod["metadata"]["uid"], pod["metadata"]["labels"]
                    started[uid] = labels["batch.kubernetes.io/job-name"]
    except asyncio.CancelledError:
        pass
    return list(started.values())
