"""Why Workloads are where they are, and where manifests would go, asked through the API server."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from multiqueue.api.names import ALTERNATIVES, DEFAULT_QUEUE, RUNTIME
from multiqueue.cli.decisions import fetch_decision
from multiqueue.cli.errors import CliError
from multiqueue.cli.main import main
from multiqueue.dispatch.execute.worker_writes import RemoteWriter
from multiqueue.kube import resources
from multiqueue.kube.errors import ServerError
from multiqueue.kube.events import EventRecorder
from multiqueue.kube.retries import RetryPolicy
from multiqueue.plugins import ClusterClaim, Forecast, Prospect, StoppedWorkload
from multiqueue.plugins.recording import Decision, dump, read_recording
from multiqueue.plugins.testing import make_cluster, make_view
from multiqueue.visibility.decisions import for_namespace
from multiqueue.workers.connections.worker_health import WorkerHealth
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_local_queue
from tests.builders.workloads import NAMESPACE, T0
from tests.integration.test_multikueue_ownership import put_foreign_job
from tests.remote_world import REMOTE, ManagerShell, RemoteWorld, remote_world


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    """The manager of these tests runs in this process; its logs are not what commands print."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


@pytest.fixture
async def remote() -> AsyncIterator[RemoteWorld]:
    async with remote_world() as remote:
        yield remote


async def test_a_decision_is_told_recorded_and_replayed(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    workload = await remote.place()
    told = json.loads(await shell.read("why", "train", "--clusters", "-o", "json"))
    assert told["workload"] == f"{NAMESPACE}/{workload}"
    assert sorted(told["nominated"]) == ["worker1", "worker2"]
    lines = (await shell.read("why", "train", "--clusters")).splitlines()
    assert lines[0].startswith("Offered to worker1, worker2 by ")
    assert lines[2].split() == ["CLUSTER", "OFFERED", "TIER", "SCORE", "START", "WHY"]

    (listed,) = json.loads(await shell.read("decisions", "-o", "json", namespaced=False))
    assert listed["workload"] == told["workload"]
    worker = listed["nominated"][0]
    table = await shell.read("decisions", "--worker", worker, namespaced=False)
    assert table.splitlines()[0].split() == ["AGE", "WORKLOAD", "OFFERED", "TO", "WHY"]
    assert f"{NAMESPACE}/{workload}" in table
    wide = await shell.read("decisions", "-o", "wide", namespaced=False)
    assert "DISPATCHER" in wide.splitlines()[0]
    none = await shell.read("decisions", "--profile", "other", namespaced=False)
    assert none.startswith("No such decision")

    recording = await shell.read("dispatcher", "record", namespaced=False)
    (decision,) = read_recording(recording.encode().splitlines())
    assert decision.view.workload.key == told["workload"]
    path = tmp_path / "decisions.jsonl"
    path.write_text(recording)
    replay = ["dispatcher", "replay", str(path), "--dispatcher", "score"]
    assert await asyncio.to_thread(main, replay) == 0
    assert "1 decisions, 1 differ, 0 failed" in shell.out.getvalue()


async def test_kubectl_lists_decisions_as_objects_and_as_a_table(remote: RemoteWorld) -> None:
    workload = await remote.place()

    async def get(accept: str) -> Any:
        path = f"{REMOTE}/dispatchdecisions"
        return json.loads((await remote.hub.client.request("GET", path, accept=accept)).body)

    listed = await get("application/json")
    assert [item["metadata"]["name"] for item in listed["items"]] == [workload]
    table = await get("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    assert [row["cells"][:2] for row in table["rows"]] == [[workload, NAMESPACE]]


async def test_a_manifest_is_tried_before_it_is_submitted(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(make_gpu_job("wanted")))
    command = ("dispatch", "--dry-run", "-f", str(path))
    told = json.loads(await shell.read(*command, "-o", "json"))
    assert told[0]["clusterQueue"]
    assert sorted(told[0]["decision"]["nominated"]) == ["worker1", "worker2"]
    assert remote.world.workload("wanted") is None

    assert await shell.run("dispatch", "-f", str(path)) == 2
    assert "add --dry-run, or submit" in shell.err.getvalue()
    job = make_gpu_job("wanted")
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nowhere"
    path.write_text(yaml.safe_dump(job))
    assert await shell.run(*command) == 1
    path.write_text(yaml.safe_dump({**make_gpu_job("odd"), "spec": {"template": "odd"}}))
    assert await shell.run(*command) == 1
    assert "is not what its kind looks like" in shell.err.getvalue()
    assert f'LocalQueue "{NAMESPACE}/nowhere" not found' in shell.err.getvalue()


def knows_queue(remote: RemoteWorld, name: str) -> bool:
    """Whether the manager and its connections to both workers know a LocalQueue."""
    key = f"{NAMESPACE}/{name}"
    fleet = remote.world.multikueue.fleet
    sessions = [fleet.find_session(worker) for worker in remote.world.workers]
    stores = [session.informers.local_queues.store for session in sessions]
    return all(store.get(key) for store in (remote.hub.informers.local_queues.store, *stores))


async def test_a_manifest_is_completed_and_refused_as_its_webhooks_would(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cluster in (*remote.world.workers.values(), remote.hub):
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue(DEFAULT_QUEUE))
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    path = tmp_path / "job.yaml"
    job = make_gpu_job("wanted")
    del job["metadata"]["labels"]
    path.write_text(yaml.safe_dump(job))
    command = ("dispatch", "--dry-run", "-f", str(path), "-o", "json")
    await remote.world.until(lambda: knows_queue(remote, DEFAULT_QUEUE), "the default queue")
    (told,) = json.loads(await shell.read(*command))
    assert (told["clusterQueue"], sorted(told["decision"]["nominated"])) == (
        "cq",
        ["worker1", "worker2"],
    )

    job["spec"] |= {"parallelism": 3}
    job["metadata"]["annotations"] = {ALTERNATIVES: "h100=7"}
    path.write_text(yaml.safe_dump(job))
    assert await shell.run(*command) == 1
    assert f"metadata.annotations[{ALTERNATIVES}]" in shell.err.getvalue()


async def test_with_how_many_pods_a_job_runs_is_told(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_gpu_job("train", parallelism=2, completions=2)
    job["metadata"]["annotations"] = {ALTERNATIVES: "h100=1"}
    await remote.hub.create(resources.JOBS, job)
    await remote.world.until(remote.world.workload, "its Workload")
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    assert "  Pods:   2, or 1 on h100" in (await shell.read("why", "train")).splitlines()
    assert json.loads(await shell.read("why", "train", "-o", "json"))["pods"] == "2, or 1 on h100"


async def test_what_a_manifest_would_meet_on_the_workers_is_told_and_what_is_ignored_of_it(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_foreign_job(remote.world, "worker1", "wanted")
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    path = tmp_path / "job.yaml"
    job = make_gpu_job("wanted")
    job["metadata"]["annotations"] = {RUNTIME: "long"}
    path.write_text(yaml.safe_dump(job))
    command = ("dispatch", "--dry-run", "-f", str(path))
    (told,) = json.loads(await shell.read(*command, "-o", "json"))
    assert told["decision"]["nominated"] == ["worker2"]
    (_, refused) = told["decision"]["clusters"]
    assert refused["why"] == (
        f'has a Job "{NAMESPACE}/wanted" that belongs to somebody else; '
        "delete it there, or submit under another name"
    )
    (notice,) = told["notices"]
    assert notice.startswith(f"metadata.annotations[{RUNTIME}] is malformed and ignored")
    assert f"note: {notice}" in (await shell.read(*command)).splitlines()


async def test_a_worker_that_does_not_answer_holds_up_no_dry_run(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ServerError("no answer")

    monkeypatch.setattr(RemoteWriter, "find_stranger", fail)
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(make_gpu_job("wanted")))
    (told,) = json.loads(await shell.read("dispatch", "--dry-run", "-f", str(path), "-o", "json"))
    assert sorted(told["decision"]["nominated"]) == ["worker1", "worker2"]


async def test_a_manifest_that_is_tried_takes_no_place_and_is_told_to_nobody(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    told: list[str] = []
    refuse, event = WorkerHealth.refuse, EventRecorder.event

    def ask(self: WorkerHealth, key: str, *, has_copy: bool, only_asks: bool = False) -> str:
        kept.append(not only_asks)
        return refuse(self, key, has_copy=has_copy, only_asks=only_asks)

    def tell(self: EventRecorder, *args: Any) -> None:
        told.append(args[2])
        event(self, *args)

    monkeypatch.setattr(WorkerHealth, "refuse", ask)
    monkeypatch.setattr(EventRecorder, "event", tell)
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    path = tmp_path / "job.yaml"
    job = make_gpu_job("wanted")
    job["metadata"]["annotations"] = {RUNTIME: "long"}
    path.write_text(yaml.safe_dump(job))
    await shell.read("dispatch", "--dry-run", "-f", str(path))
    assert kept == [False, False]
    assert told == []


async def test_who_does_not_lead_says_so_and_what_was_never_decided_is_told(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    job = make_gpu_job("elsewhere")
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nowhere"
    await remote.hub.create(resources.JOBS, job)
    await remote.world.until(lambda: remote.world.workload("elsewhere"), "a Workload")
    assert await shell.run("why", "elsewhere", "--clusters") == 1
    assert "nothing was decided about Workload" in shell.err.getvalue()
    remote.leading.clear()
    at_once = RetryPolicy(first=0.0, attempts=3)
    with pytest.raises(CliError, match="this manager does not lead"):
        await fetch_decision(remote.hub.client, NAMESPACE, "elsewhere", retries=at_once)


async def test_who_may_not_ask_is_refused(remote: RemoteWorld) -> None:
    workload = await remote.place()
    path = f"{REMOTE}/namespaces/{NAMESPACE}/workloads/{workload}/dispatch"
    assert (await remote.get(path))[0] == 200
    everybodys = f"{REMOTE}/namespaces/{NAMESPACE}/dispatchdecisions"
    assert (await remote.get(everybodys))[0] == 404, "rights in a namespace do not do"
    for forbidden in (path, f"{REMOTE}/dispatchdecisions"):
        assert (await remote.get(forbidden, user="stranger"))[0] == 403


def test_workloads_in_other_namespaces_have_no_names() -> None:
    forecast = Forecast(
        prospect=Prospect.PREEMPTS,
        victims=(
            StoppedWorkload(key="team-a/mine", priority=1),
            StoppedWorkload(key="team-b/theirs", priority=2),
        ),
    )
    claims = tuple(ClusterClaim(key=f"team-{team}/waits", turn=T0) for team in "ab")
    view = make_view(clusters=[replace(make_cluster("a"), forecast=forecast, claims=claims)])
    shown = dump(for_namespace(Decision(dispatcher="x", view=view), "team-a"))
    victims = shown["view"]["clusters"][0]["forecast"]["victims"]
    assert [(v["key"], v["priority"]) for v in victims] == [("team-a/mine", 1), ("", 2)]
    keys = [claim["key"] for claim in shown["view"]["clusters"][0]["claims"]]
    assert keys == ["team-a/waits", ""]
