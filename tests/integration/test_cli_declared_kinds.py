"""The commands about jobs of declared kinds: they read the JobKinds of the cluster once."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from multiqueue.cli.main import main
from multiqueue.embedded.cluster.cluster import SimOptions
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.jobs.rights import build_declared_roles
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import CRDS, JOB_KINDS, PODS, WORKLOADS
from multiqueue.runtime.manifests import apply_all
from tests.builders.job_kinds import GADGET, make_gadget, make_job_kind
from tests.integration.test_cli_commands import OBJECTS, UserShell
from tests.integration.test_cli_why import kubeconfig_of_user, let
from tests.integration.test_declared_kinds import CRD, GADGETS
from tests.integration.test_runtime_manager import embedded, make_config
from tests.integration.waiting import condition, until, until_one
from tests.least_privilege import documents


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    """The cluster of these tests runs in this process; its logs are not what commands print."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


def team_gadget(name: str = "train", *, queue: str | None = "jobs", **spec: Any) -> dict[str, Any]:
    """A Gadget in namespace "team"."""
    made = make_gadget(name, **spec)
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    metadata = {"name": name, "namespace": "team", "labels": labels}
    template = made["spec"]["template"]
    (container,) = template["spec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return {**made, "metadata": metadata}


@asynccontextmanager
async def gadget_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[UserShell, KubeClient, Any]]:
    """A cluster with a manager that queues Gadgets."""
    kubeconfig = tmp_path / "kubeconfig"
    simulation = SimOptions(pools=[parse_node_pool("a100/4")], speed=20)
    options: dict[str, Any] = {"kubeconfig": kubeconfig, "simulation": simulation}
    async with embedded(**options, manager=make_config()) as (running, client):
        await apply_all(client, yaml.safe_load_all(OBJECTS))
        assert CRD is not None
        await client.create(CRDS, CRD)
        await client.create(JOB_KINDS, make_job_kind(podSelector="'gadget=' + self.metadata.name"))
        await apply_all(client, build_declared_roles(GADGET))
        await until_one(
            client,
            JOB_KINDS,
            "gadgets",
            lambda kind: condition(kind, "Active").get("status") == "True",
        )
        yield UserShell(kubeconfig, capsys), client, running


async def test_a_job_of_a_declared_kind_is_submitted_listed_and_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with gadget_cluster(tmp_path, capsys) as (shell, client, running):
        manifest = tmp_path / "gadget.yaml"
        manifest.write_text(yaml.safe_dump(team_gadget(queue=None, size=2)))
        told = await shell.run("submit", "-f", str(manifest), "--queue", "jobs", "-n", "team")
        assert told.startswith("gadget/train created\n  Workload team/gadget-train-")
        running_now = {"status": {"phase": "Running"}}
        await client.patch(GADGETS, "train", running_now, namespace="team", subresource="status")
        rows = await shell.json("queue", "jobs", "-n", "team")
        assert [(row["job"], row["state"]) for row in rows] == [("Gadget/train", "Running")]
        why = await shell.json("why", "gadget/train", "-n", "team")
        assert why["job"] == "Gadget/train"
        await client.create(GADGETS, team_gadget("bad", size="many"))
        told = await shell.refusal("why", "gadget/bad")
        assert 'Gadget "team/bad" has no Workload: ' in told
        assert "spec.podSets[0].count: must give a value of type int" in told

        found = await client.get(GADGETS, "train", namespace="team")
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "train-0",
                "namespace": "team",
                "labels": {"gadget": "train"},
                "ownerReferences": [
                    {
                        "apiVersion": GADGET.api_version,
                        "kind": "Gadget",
                        "name": "train",
                        "uid": found["metadata"]["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        await client.create(PODS, pod)
        pods = await shell.run("pods", "gadget/train", "-n", "team", "-o", "name")
        assert pods == "pod/train-0\n"
        assert "CreatedWorkload" in await shell.run("events", "gadget/train", "-n", "team")

        restricted = await kubeconfig_of_user(client, running, tmp_path)
        await apply_all(client, documents("rbac/kind_roles.yaml"))
        await let(client, "kueue-localqueue-viewer-role", "kueue-workload-viewer-role")
        limited = UserShell(restricted, capsys)
        await limited.run("queue", "jobs", "-n", "team")
        assert limited.errors.count("you may not list JobKinds") == 1


async def test_a_job_whose_kind_is_not_queued_now_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with gadget_cluster(tmp_path, capsys) as (shell, client, _):
        await client.create(
            JOB_KINDS,
            make_job_kind("toys", group="toys.example.com", kind="Toy", plural="toys"),
        )
        await until_one(
            client, JOB_KINDS, "toys", lambda kind: condition(kind, "Active").get("message")
        )
        toy = {**team_gadget("bear"), "apiVersion": "toys.example.com/v1", "kind": "Toy"}
        manifest = tmp_path / "toy.yaml"
        manifest.write_text(yaml.safe_dump(toy))
        told = await shell.run("submit", "-f", str(manifest), "-n", "team", code=1)
        assert told.startswith(
            'toy/bear refused: Toys are not queued now: JobKind "toys" is not Active: '
        )
        assert "install its CRD" in told


async def test_the_linter_checks_jobs_of_declared_kinds_in_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with gadget_cluster(tmp_path, capsys) as (shell, client, _):
        await client.create(GADGETS, team_gadget("lost", queue="nowhere"))
        await until(client, WORKLOADS, lambda all_: len(all_) == 1)
        told = await shell.json("lint", "--cluster", code=1)
        found = [(f["kind"], f["name"], f["rule"]) for f in told["findings"]]
        assert ("Gadget", "lost", "job-queue-missing") in found


def test_the_linter_checks_jobs_of_kinds_that_are_declared_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    wrong = make_job_kind("toys", group="toys.example.com", kind="Toy", plural="toys", podSets=[])
    queues = [obj for obj in yaml.safe_load_all(OBJECTS) if obj["kind"] != "Namespace"]
    large = team_gadget("large", size=9)
    objects = [*queues, make_job_kind(), wrong, large, team_gadget("lost", queue="nowhere")]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    assert main(["lint", str(folder), "-o", "json"]) == 1
    told = yaml.safe_load(capsys.readouterr().out)
    found = {(f["kind"], f["name"], f["rule"]) for f in told["findings"]}
    assert {
        ("Gadget", "large", "job-too-large"),
        ("Gadget", "lost", "job-queue-missing"),
        ("JobKind", "toys", "job-kind-refused"),
    } <= found
    assert [name for kind, name, _ in found if kind == "JobKind"] == ["toys"]
    assert told["skipped"] == []
