"""``multiqueue pods|logs|events`` for jobs on workers, which move, and workers that go away."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
import yaml

from multiqueue.kube.resources import API_SERVICES, EVENTS
from tests.integration.test_remote_access import ROLES, make_event
from tests.integration.waiting import until
from tests.multikueue_world import make_config
from tests.remote_world import ManagerShell, RemoteWorld, remote_world

LINES = 'simulated container "c" started, image i\ncommand: of the image; nothing is executed\n'


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    """The manager of these tests runs in this process; its logs are not what commands print."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


@pytest.fixture
async def remote() -> AsyncIterator[RemoteWorld]:
    config = make_config(worker_lost_timeout=timedelta(minutes=5))
    async with remote_world(config=config) as remote:
        yield remote


async def test_a_job_on_a_worker_is_looked_at_from_the_manager(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remote.place()
    await remote.run_pod(name="train-a")
    await remote.run_pod(name="train-b")
    job = remote.world.workers["worker1"].job("train")
    assert job is not None
    told = make_event(job["metadata"]["uid"], "SuccessfulCreate", kind="Job", name="train")
    await remote.world.workers["worker1"].create(EVENTS, told)
    shell = ManagerShell(remote, tmp_path, monkeypatch)

    header, first, second = (await shell.read("pods", "train")).splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "CLUSTER", "NODE"]
    assert first.split()[:4] == ["train-a", "1/1", "Running", "0"]
    assert (first.split()[5:], second.split()[0]) == (["worker1", "n1"], "train-b")
    pods = yaml.safe_load(await shell.read("pods", "job/train", "-o", "yaml"))
    assert [pod["metadata"]["name"] for pod in pods["items"]] == ["train-a", "train-b"]
    assert await shell.read("pods", "train", "-o", "name") == "pod/train-a\npod/train-b\n"

    assert await shell.read("logs", "train") == LINES
    assert "2 pods, this is train-a; --all-pods shows all" in shell.err.getvalue()
    assert await shell.read("logs", "train", "--pod", "train-b", "--tail", "1") == (
        "command: of the image; nothing is executed\n"
    )
    assert (await shell.read("logs", "train", "--all-pods", "--timestamps")).splitlines()[2] == (
        '[worker1/train-b] 2026-01-01T00:00:00.000000000Z simulated container "c" started, image i'
    )
    assert await shell.run("logs", "train", "--pod", "nope") == 1
    assert 'train has no pod "nope"; there are: train-a, train-b' in shell.err.getvalue()

    events = (await shell.read("events", "train")).splitlines()
    rows = [(row.split()[1], row.split()[3]) for row in events[1:] if "(x" not in row]
    assert ("worker1", "SuccessfulCreate") in rows
    assert ("-", "MultiKueue") in rows

    await remote.world.workers["worker1"].client.request(
        "DELETE", f"/apis/{ROLES}/clusterrolebindings/multikueue-manager-pods-rolebinding"
    )
    assert "MultiKueue" in await shell.read("events", "train")
    assert "only events of this cluster" in shell.err.getvalue()
    assert "apply config/worker-role-pods there" in shell.err.getvalue()


async def test_a_followed_log_goes_along_with_its_job(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remote.place("worker1")
    await remote.run_pod("worker1", "train-a")
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    follows = asyncio.create_task(shell.run("logs", "train", "-f", "--all-pods"))
    await shell.out.until("[worker1/train-a] command")

    await remote.world.evict("worker1")
    await shell.err.until("train: moving from worker1")
    await remote.end_pod("worker1", "train-a")
    await remote.place("worker2")
    await remote.run_pod("worker2", "train-b")
    await shell.out.until("[worker2/train-b] command")
    await remote.end_pod("worker2", "train-b")
    await shell.out.until("[worker2/train-b] finished")
    await remote.world.finish_job("worker2")
    await remote.world.finish_copy("worker2")
    assert await follows == 0

    assert shell.out.getvalue().splitlines() == [
        '[worker1/train-a] simulated container "c" started, image i',
        "[worker1/train-a] command: of the image; nothing is executed",
        "[worker1/train-a] finished with exit code 0",
        '[worker2/train-b] simulated container "c" started, image i',
        "[worker2/train-b] command: of the image; nothing is executed",
        "[worker2/train-b] finished with exit code 0",
    ]
    moved = 'The workload was admitted on "worker2", moved from "worker1"'
    events = await until(
        remote.hub.client,
        EVENTS,
        lambda events: sum(event["message"] == moved for event in events) >= 2,
    )
    kinds = sorted(e["involvedObject"]["kind"] for e in events if e["message"] == moved)
    assert kinds == ["Job", "Workload"]
    assert "train: admitted on worker2\n" in shell.err.getvalue()
    assert "train: finished on worker2\n" in shell.err.getvalue()


async def test_a_worker_that_is_out_of_reach_is_waited_for_and_nothing_is_printed_twice(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remote.place()
    await remote.run_pod()
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    follows = asyncio.create_task(shell.run("logs", "train", "-f"))
    await shell.out.until("command")
    gate = remote.world.gates["worker1"]
    gate.cut()
    await shell.err.until("the log of train-a was cut, waiting for worker1")
    gate.heal()
    await remote.end_pod()
    await shell.out.until("finished with exit code 0")
    await remote.world.until_connected()
    await remote.world.finish_job("worker1")
    await remote.world.finish_copy("worker1")
    assert await follows == 0
    assert shell.out.getvalue() == LINES + "finished with exit code 0\n"


async def test_pods_and_events_can_be_watched(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remote.place()
    await remote.run_pod()
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    pods = asyncio.create_task(shell.run("pods", "train", "-w"))
    events = asyncio.create_task(shell.run("events", "train", "-w"))
    await shell.out.until("Running")
    await shell.out.until("MultiKueue")
    await remote.end_pod()
    await shell.out.until("Completed")
    await remote.world.finish_job("worker1")
    await remote.world.finish_copy("worker1")
    assert (await pods, await events) == (0, 0)
    cluster = remote.world.workers["worker1"]
    await remote.world.until(lambda: cluster.job("train") is None, "clean-up", on="worker1")
    assert await shell.run("logs", "train") == 1
    assert "has finished on worker1: its pods and their logs went" in shell.err.getvalue()
    rows = [line.split() for line in shell.out.getvalue().splitlines()]
    assert [row[1:3] for row in rows if row[0] == "train-a"] == [
        ["1/1", "Running"],
        ["0/1", "Completed"],
    ]


async def test_what_has_no_pods_says_where_it_stands_and_administrators_need_no_manager(
    remote: RemoteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = ManagerShell(remote, tmp_path, monkeypatch)
    await remote.place()
    await remote.run_pod()
    await remote.hub.client.delete(API_SERVICES, "v1alpha1.remote.multiqueue.dev")
    assert await shell.read("logs", "train") == LINES
    assert "worker1" in await shell.read("pods", "train")
    await remote.world.evict("worker1")
    await remote.world.until(lambda: remote.world.check()[0] != "Ready", "sent round again")
    assert await shell.run("pods", "train") == 1
    assert "has no pods now, " in shell.err.getvalue()
    assert "moving from worker1" in shell.err.getvalue()
