"""The commands that steer jobs, against a cluster with a manager."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from multiqueue.kube.resources import JOBS, WORKLOADS
from tests.integration.test_cli_commands import logs_are_not_output, queue_cluster, write_job
from tests.integration.waiting import is_true, until

__all__ = ["logs_are_not_output"]

NAMESPACE = ("-n", "team")


def _is_admitted(workloads: list[dict[str, Any]]) -> bool:
    return any(is_true(each, "Admitted") for each in workloads)


async def test_jobs_are_cancelled_with_what_they_lose_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):

        async def left() -> list[str]:
            return sorted(job["metadata"]["name"] for job in (await client.list(JOBS)).items)

        for name, gpus in (("train", 4), ("next", 2)):
            job = write_job(tmp_path, name, gpus=gpus, seconds="100000")
            await shell.run("submit", "-f", job, *NAMESPACE)
        await until(client, WORKLOADS, _is_admitted, namespace="team")
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        await shell.run("cancel", "train", *NAMESPACE, code=2)
        unasked, kept = shell.errors, await left()
        missing = await shell.refusal("cancel", "train", "nobody", "-y")
        tried = await shell.run("cancel", "--all", "--dry-run=server", *NAMESPACE)
        kept_too = await left()
        other = await shell.run("cancel", "-l", "team=none", "-y", *NAMESPACE)
        done = await shell.json("cancel", "train", "-y", "--wait", "--timeout", "60", *NAMESPACE)
        after = await left()
        selected = "kueue.x-k8s.io/queue-name=jobs"
        last = await shell.run("cancel", "-l", selected, "-y", *NAMESPACE)
        none = await left()
        await shell.run("cancel", *NAMESPACE, code=2)
    lost = "Now: 1 job with 1 pod on 4 devices is stopped"
    assert f'Job/train of namespace "team" is deleted. {lost}' in unasked
    assert "error: nothing was changed: without a terminal, -y has to be given" in unasked
    assert 'no Workload or job "nobody"' in missing
    assert kept == kept_too == ["next", "train"]
    assert tried.count("deleted (server dry run)") == 2
    assert other == "There is no such job.\n"
    assert [(each["job"], each["result"]) for each in done] == [("Job/train", "deleted")]
    assert after == ["next"]
    assert last.split() == ["JOB", "RESULT", "WORKER", "Job/next", "deleted", "-"]
    assert none == []


async def test_what_has_ended_is_not_cancelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        job = write_job(tmp_path, "short", gpus=1)
        await shell.run("submit", "-f", job, "--wait", *NAMESPACE)
        told = await shell.json("cancel", "short", *NAMESPACE)
        jobs = (await client.list(JOBS)).items
    assert [each["result"] for each in told] == ["has ended"]
    assert len(jobs) == 1


async def test_jobs_are_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "good": write_job(tmp_path, "good", gpus=1, seconds="10"),
        "bad": write_job(tmp_path, "bad", gpus=1, exit_code=1),
        "long": write_job(tmp_path, "long", gpus=4, seconds="100000"),
        "next": write_job(tmp_path, "next", gpus=4),
        "huge": write_job(tmp_path, "huge", gpus=5),
    }
    async with queue_cluster(tmp_path, capsys) as (shell, client):

        async def begin(name: str) -> None:
            await shell.run("submit", "-f", files[name], *NAMESPACE)

        await begin("good")
        running = await shell.run("wait", "good", "--for=running", *NAMESPACE)
        ended = await shell.json("wait", "good", *NAMESPACE)
        await begin("bad")
        failed = await shell.run("wait", "good", "bad", *NAMESPACE, code=1)
        await begin("long")
        admitted = await shell.json("wait", "long", "--for=condition=admitted", *NAMESPACE)
        await begin("next")
        late = await shell.run(
            "wait", "next", "--for=quota", "--timeout", "0.5", *NAMESPACE, code=1
        )
        too_late = shell.errors
        waiting = asyncio.create_task(
            shell.json("wait", "next", "--timeout", "60", *NAMESPACE, code=1)
        )
        await asyncio.sleep(0.5)
        await client.delete(JOBS, "next", namespace="team", propagation="Background")
        gone = await waiting
        await begin("huge")
        hopeless = await shell.json("wait", "huge", "--for=quota", *NAMESPACE, code=1)
        await shell.run("wait", "good", "--for=condition=Red", *NAMESPACE, code=2)
    assert running.splitlines()[-1] == "Job/good: running"
    assert [(each["outcome"], each["state"]) for each in ended] == [("reached", "Succeeded")]
    assert "Job/bad: failed" in failed
    assert [each["outcome"] for each in admitted] == ["reached"]
    assert "Job/next: waiting for quota (" in late
    assert "Job/next: it is not there after the timeout" in too_late
    assert [each["outcome"] for each in gone] == ["deleted"]
    assert [each["outcome"] for each in hopeless] == ["cannot run"]
    assert '"condition=Red" must be one of quota, running, finished or condition=C' in shell.errors
