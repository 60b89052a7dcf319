"""kueuectl's commands: each line of the page about them, and what they print."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
import yaml

from multiqueue.cli import completion
from multiqueue.cli.main import main
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    WORKLOADS,
)
from tests.integration.test_cli_commands import UserShell, queue_cluster, write_job
from tests.integration.waiting import is_true, until

PAGE = Path(__file__).parents[2] / "docs" / "kueuectl.md"
NAMESPACE = ("-n", "team")


def lines_of(section: str) -> list[str]:
    """The commands in the second column of the table of a section."""
    text = PAGE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `[^`]+` \| `multiqueue ([^`]+)` \|", text, re.MULTILINE)


CHANGES = lines_of("Create, list, stop, delete")
HANDED_OVER = lines_of("Handed over to kubectl")


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    """The cluster of these tests runs in this process; its logs are not what commands print."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


def _runs(workloads: list[dict[str, Any]]) -> bool:
    return any(is_true(each, "PodsReady") for each in workloads)


async def submit(shell: UserShell, client: KubeClient, folder: Path) -> str:
    """Run the job "train" with the whole quota, and let "next" wait; return its Workload."""
    first = write_job(folder, "train", gpus=4, seconds="100000")
    await shell.run("submit", "-f", first, *NAMESPACE)
    await until(client, WORKLOADS, _runs, namespace="team")
    await shell.run("submit", "-f", write_job(folder, "next", gpus=2), *NAMESPACE)
    listed = await client.list(WORKLOADS, namespace="team")
    (name,) = (each["metadata"]["name"] for each in listed.items if "next" in str(each["metadata"]))
    return str(name)


async def test_each_line_of_the_page_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        waiting = await submit(shell, client, tmp_path)
        said = {}
        for line in CHANGES:
            arguments = [waiting if part == "waiting" else part for part in shlex.split(line)]
            said[line] = await shell.run(*arguments, *NAMESPACE)
        research = await client.get(CLUSTER_QUEUES, "research")
        jobs = [job["metadata"]["name"] for job in (await client.list(JOBS)).items]
    assert len(CHANGES) == 20
    assert research["spec"]["stopPolicy"] == "None"
    assert jobs == ["train"]
    assert [line for line, text in said.items() if not text] == ["list rf -l team=vision"]


@pytest.mark.parametrize("line", HANDED_OVER)
def test_what_is_kubectls_is_handed_over(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    got: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: got.append(arguments))
    verb, word, *rest = shlex.split(line)
    assert main([verb, word, *rest, "--kubeconfig", "k"]) == 0
    plurals = {"clusterqueue": "clusterqueues", "cq": "clusterqueues", "lq": "localqueues"}
    plural = plurals.get(word, "resourceflavors")
    assert got == [[str(kubectl), verb, f"{plural}.kueue.x-k8s.io", *rest, "--kubeconfig", "k"]]


def test_without_kubectl_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["describe", "cq", "research"]) == 2
    assert "there is no kubectl on the PATH; install it" in capsys.readouterr().err


async def test_messages_are_those_of_kubectl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = "kueue.x-k8s.io"
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        made = await shell.run("create", "cq", "a")
        checked = await shell.run("create", "cq", "b", "--dry-run=server")
        planned = await shell.run("create", "rf", "b", "--dry-run")
        stopped = await shell.run("stop", "lq", "jobs", *NAMESPACE)
        kept = (await client.get(LOCAL_QUEUES, "jobs", namespace="team"))["spec"]["stopPolicy"]
        await shell.run("create", "cq", "a", code=1)
        twice = shell.errors
        await shell.run("create", "lq", "x", "-c", "nowhere", *NAMESPACE, code=1)
        nowhere = shell.errors
        named = await shell.run("list", "cq", "-o", "name")
    assert made == f"clusterqueue.{group}/a created\n"
    assert checked == f"clusterqueue.{group}/b created (server dry run)\n"
    assert planned == f"resourceflavor.{group}/b created (client dry run)\n"
    assert (stopped, kept) == (f"localqueue.{group}/jobs\n", "HoldAndDrain")
    assert 'clusterqueues.kueue.x-k8s.io "a" already exists' in twice
    assert 'clusterqueues.kueue.x-k8s.io "nowhere" not found' in nowhere
    assert named == f"clusterqueue.{group}/a\nclusterqueue.{group}/gpus\n"


async def test_workloads_are_listed_with_kueuectls_titles_and_filters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        waiting = await submit(shell, client, tmp_path)
        listing = ["list", "workload", *NAMESPACE]
        header, *rows = (await shell.run(*listing)).splitlines()
        pending = await shell.run(*listing, "--status", "Pending", "-c", "gpus", "-o", "name")
        wide = await shell.run("list", "kwl", "-A", "--for", "jobs.batch/train", "-o", "wide")
        as_json = await shell.json(*listing, "--for", "job/next")
        nothing = await shell.run(*listing, "--for", "job/missing")
        told = shell.errors
        await shell.run(*listing, "--for", "toaster/x", code=2)
        unknown = shell.errors
        pods = await shell.run("list", "pods", "--for", "job/train", "-o", "name", *NAMESPACE)
        none = ["--field-selector", "status.phase!=Running,spec.nodeName=", "-l", "a=b"]
        await shell.run("list", "po", "--for", "job/train", *none, *NAMESPACE)
        no_pods = shell.errors
    titles = "NAME JOB TYPE JOB NAME LOCALQUEUE CLUSTERQUEUE STATUS POSITION IN QUEUE EXEC TIME AGE"
    assert header.split() == titles.split()
    cells = {row.split()[2]: row.split()[1:] for row in rows}
    assert cells["train"][:5] == ["job.batch", "train", "jobs", "gpus", "ADMITTED"]
    assert cells["next"][:7] == ["job.batch", "next", "jobs", "gpus", "PENDING", "0", "-"]
    assert pending == f"workload.kueue.x-k8s.io/{waiting}\n"
    assert wide.splitlines()[0].split()[0] == "NAMESPACE"
    assert "running" in wide.splitlines()[1]
    assert [each["metadata"]["name"] for each in as_json["items"]] == [waiting]
    assert (nothing, told) == ("", "No resources found in team namespace.\n")
    assert "no kind of jobs is called toaster; known: " in unknown
    assert len(pods.splitlines()) == 1
    assert no_pods == "No resources found in team namespace.\n"


class Watching:
    """A command that goes on until it is killed, as a process; reads what it prints by lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, *words: str) -> str:
        """Return the next line that has all of these words."""
        assert self._process.stdout is not None
        while line := (await self._process.stdout.readline()).decode():
            if all(word in line for word in words):
                return line
        raise AssertionError(f"it has ended without {words}")


@asynccontextmanager
async def watching(folder: Path, *arguments: str) -> AsyncIterator[Watching]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "multiqueue", *arguments, "-w"),
        *("--kubeconfig", str(folder / "kubeconfig")),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Watching(process)
    finally:
        process.kill()
        await process.wait()


async def test_a_list_is_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with (
        queue_cluster(tmp_path, capsys) as (shell, client),
        watching(tmp_path, "list", "cq", "-o", "jsonpath={.metadata.name} {.spec}\n") as queues,
        watching(tmp_path, "list", "kwl", "-A", "-o", "wide") as workloads,
        watching(tmp_path, "list", "lq", "-n", "team", "-o", "name") as names,
    ):
        await queues.line("gpus")
        await names.line("localqueue.kueue.x-k8s.io/jobs")
        waiting = await submit(shell, client, tmp_path)
        assert (await workloads.line("NAMESPACE")).split()[:2] == ["NAMESPACE", "NAME"]
        assert "running" in await workloads.line("team", "train", "ADMITTED", "running")
        row = (await workloads.line(waiting, "PENDING", "waiting for quota")).split()
        assert row[6:8] == ["PENDING", "0"]
        await shell.run("stop", "lq", "jobs", *NAMESPACE)
        await names.line("localqueue.kueue.x-k8s.io/jobs")
        await shell.run("create", "cq", "later")
        await queues.line("later", "preemption")


async def test_pods_of_a_job_are_watched_until_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, _):
        await shell.run(
            "submit", "-f", write_job(tmp_path, "short", gpus=1, seconds="5"), *NAMESPACE
        )
        pods = ["list", "pods", "--for", "job/short", *NAMESPACE, "-w"]
        told = await shell.run(*pods)
        await shell.run(*pods, "-o", "json", code=2)
        refused = shell.errors
    assert told.splitlines()[0].split()[:3] == ["NAME", "READY", "STATUS"]
    assert "Succeeded" in told or "Completed" in told
    assert "--watch prints lines; choose -o human, wide or name" in refused


async def test_jobs_are_deleted_only_if_their_owner_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        waiting = await submit(shell, client, tmp_path)
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        refused = await shell.run("delete", "workload", waiting, *NAMESPACE)
        kept = len((await client.list(JOBS)).items)
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        deleted = await shell.run("delete", "workload", waiting, "gone", *NAMESPACE)
        missing = shell.errors
        await until(client, WORKLOADS, lambda found: len(found) == 1, namespace="team")
    question = (
        "This operation will also delete:\n"
        f"  - job.batch/next associated with the team/{waiting} workload\n"
        "Do you want to proceed (y/n)? "
    )
    assert (refused, kept) == (f"{question}Deletion is canceled\n", 2)
    assert deleted == f"{question}job.batch/next deleted\n"
    assert 'workloads.kueue.x-k8s.io "gone" not found' in missing


async def test_names_are_completed_from_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with queue_cluster(tmp_path, capsys) as (shell, client):
        await submit(shell, client, tmp_path)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setenv("MULTIQUEUE_COMPLETION_SECONDS", "10")

        async def complete(*words: str) -> list[str]:
            monkeypatch.setattr("sys.argv", ["kubectl_complete-multiqueue", *words])
            capsys.readouterr()
            assert await asyncio.to_thread(completion.main) == 0
            return capsys.readouterr().out.splitlines()

        assert await complete("stop", "clusterqueue", "g") == ["gpus", ":4"]
        assert await complete("why", "-n", "team", "") == ["next", "train", ":4"]
        assert await complete("queue", "-n", "team", "") == ["jobs", ":4"]
        commands = [line.split("\t")[0] for line in await complete("li")]
        assert commands == ["lint", "list", ":4"]
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    assert await complete("stop", "clusterqueue", "") == [":4"]


def test_a_dry_run_on_the_client_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    quota = "alpha:cpu=9;memory=36Gi;nvidia.com/gpu=10,beta:cpu=18;memory=72Gi;nvidia.com/gpu=20"
    arguments = ["create", "cq", "research", "--nominal-quota", quota, "--dry-run", "client"]
    assert main([*arguments, "-o", "yaml", "--namespace-selector", "a=b,c=d"]) == 0
    made = yaml.safe_load(capsys.readouterr().out)
    (group,) = made["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory", "nvidia.com/gpu"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["alpha", "beta"]
    assert group["flavors"][1]["resources"][1] == {"name": "memory", "nominalQuota": "72Gi"}
    assert made["spec"]["namespaceSelector"] == {"matchLabels": {"a": "b", "c": "d"}}
    assert orjson.dumps(made["spec"]["preemption"]) == (
        b'{"reclaimWithinCohort":"Never","withinClusterQueue":"Never"}'
    )
