"""``multiqueue clusters sync`` with two workers, through the real command line."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from multiqueue.api.names import PROJECTED_FROM
from multiqueue.cli.main import main
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
)
from multiqueue.runtime.manifests import apply_all
from tests.integration.projection_fleet import NOWHERE, SYSTEM, Fleet, fleet_file, running_fleet
from tests.unit.lint.objects import flavor, priority


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


async def registered(fleet: Fleet) -> tuple[str, ...]:
    """Both workers are known to the manager; returns the start of a command line."""
    for name in fleet.workers:
        await fleet.register(name)
    return "clusters", "sync", "-f", fleet.file, *fleet.ways()


def lead_nowhere(kubeconfig: Path) -> None:
    text = kubeconfig.read_text()
    server = text.partition("server: ")[2].split()[0]
    kubeconfig.write_text(text.replace(server, "https://127.0.0.1:9"))


async def names_of(client: KubeClient, *resources: Any) -> list[str]:
    found = [item for each in resources for item in (await client.list(each)).items]
    return sorted(f"{item['kind']} {item['metadata']['name']}" for item in found)


async def test_workers_get_what_is_declared_and_then_nothing_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys) as fleet:
        sync = await registered(fleet)
        first = await fleet.shell.run(*sync)
        for line in (
            "namespace/n created",
            "resourceflavor/f created",
            "workloadpriorityclass/high created",
            "clusterqueue/all created",
            "localqueue/n/q created",
        ):
            assert first.count(line) == 2
        for name, quota in (("a", 8), ("b", 4)):
            queue = await fleet.workers[name].get(CLUSTER_QUEUES, "all")
            (resource,) = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
            assert resource["nominalQuota"] == quota
            owners = {entry["manager"] for entry in queue["metadata"]["managedFields"]}
            assert "multiqueue-projection" in owners
        assert await fleet.shell.run(*sync) == "a:\n  5 in step\nb:\n  5 in step\n"
        assert await fleet.shell.run(*sync, "--diff") == ""


async def test_diff_and_dry_run_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        sync = await registered(fleet)
        diff = await fleet.shell.run(*sync, "--diff", code=1)
        assert '--- a ClusterQueue "all" (there)' in diff
        assert "+      - name: cpu" in diff
        assert "+        nominalQuota: 8" in diff
        assert "clusterqueue/all created (dry run)" in await fleet.shell.run(*sync, "--dry-run")
        kinds = (CLUSTER_QUEUES, RESOURCE_FLAVORS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES)
        assert await names_of(fleet.workers["a"], *kinds) == []


async def test_what_is_not_ours_is_left_alone_until_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        sync = await registered(fleet)
        worker = fleet.workers["a"]
        await apply_all(worker, [flavor(nodeLabels={"gpu": "h100"})])
        held = await fleet.shell.run(*sync, code=1)
        assert "resourceflavor/f held back: it was not made by sync" in held
        assert (await worker.get(RESOURCE_FLAVORS, "f"))["spec"]["nodeLabels"] == {"gpu": "h100"}
        assert "resourceflavor/f configured" in await fleet.shell.run(*sync, "--force")
        taken = await worker.get(RESOURCE_FLAVORS, "f")
        assert taken["spec"]["nodeLabels"] == {"gpu": "a100"}
        origin = (await fleet.manager.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        assert taken["metadata"]["labels"] == {PROJECTED_FROM: origin}


async def test_a_field_that_somebody_else_took_is_a_conflict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        sync = await registered(fleet)
        await fleet.shell.run(*sync)
        worker = fleet.workers["a"]
        await worker.patch(
            WORKLOAD_PRIORITY_CLASSES, "high", {"value": 7}, field_manager="kubectl-edit"
        )
        for more in ((), ("--dry-run",)):
            told = await fleet.shell.run(*sync, *more, code=1)
            assert "workloadpriorityclass/high conflict: Apply failed with 1 conflict" in told
            assert "kubectl-edit" in told
        await fleet.shell.run(*sync, "--force")
        assert (await worker.get(WORKLOAD_PRIORITY_CLASSES, "high"))["value"] == 100


async def test_prune_takes_what_is_declared_no_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        more = "  topologies: [{name: t, spec: {levels: [{nodeLabel: rack}]}}]\n"
        fleet.folder.joinpath("fleet.yaml").write_text(fleet_file("a", more=more))
        sync = await registered(fleet)
        await fleet.shell.run(*sync)
        worker = fleet.workers["a"]
        await apply_all(worker, [flavor("theirs"), priority("theirs", 1)])
        await fleet.manager.delete(WORKLOAD_PRIORITY_CLASSES, "high")
        fleet.folder.joinpath("fleet.yaml").write_text(fleet_file("a"))
        left = await fleet.shell.run(*sync, code=1)
        assert "topology/t was projected and is not declared any more" in left
        told = await fleet.shell.run(*sync, "--prune")
        assert "workloadpriorityclass/high deleted" in told
        assert "topology/t deleted" in told
        kinds = (RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES)
        assert await names_of(worker, *kinds) == [
            "ResourceFlavor f",
            "ResourceFlavor theirs",
            "WorkloadPriorityClass theirs",
        ]


async def test_the_fleet_may_be_kept_on_the_manager(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys) as fleet:
        await registered(fleet)
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "multiqueue-fleet", "namespace": SYSTEM},
            "data": {"fleet.yaml": fleet_file("a", "b")},
        }
        await fleet.manager.create(CONFIG_MAPS, config_map, namespace=SYSTEM)
        both = os.pathsep.join([fleet.kubeconfig("manager"), fleet.kubeconfig("b")])
        way = ("--worker-kubeconfig", f"b={both}", "--worker-context", "b=b")
        (got,) = await fleet.shell.json("clusters", "sync", "b", *way)
        assert fleet.shell.errors == ""
        assert [change["object"] for change in got["changes"]] == [
            "namespace/n",
            "resourceflavor/f",
            "workloadpriorityclass/high",
            "clusterqueue/all",
            "localqueue/n/q",
        ]
        assert {change["result"] for change in got["changes"]} == {"created"}
        assert got["after"]["state"] == "InStep"


async def test_a_worker_of_the_file_that_nobody_knows_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        sync = await registered(fleet)
        fleet.folder.joinpath("fleet.yaml").write_text(fleet_file("a", "b"))
        await fleet.shell.run(*sync, "--diff", code=1)
        assert 'names worker "b", which is no MultiKueueCluster' in fleet.shell.errors


async def test_one_worker_that_is_gone_holds_up_none_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys) as fleet:
        sync = await registered(fleet)
        lead_nowhere(fleet.folder / "a")
        got = await fleet.shell.run(*sync, code=1)
        assert "a:\n  failed: " in got
        assert "localqueue/n/q created" in got.partition("b:")[2]


async def test_credentials_of_another_cluster_are_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys) as fleet:
        await registered(fleet)
        wrong = ("--worker-kubeconfig", f"a={fleet.kubeconfig('b')}")
        got = await fleet.shell.run("clusters", "sync", "a", "-f", fleet.file, *wrong, code=1)
        assert "lead to another cluster than the manager's own" in got
        assert await names_of(fleet.workers["b"], CLUSTER_QUEUES) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--diff", "--dry-run"], "take one of them"),
        (["--worker-context", "x"], "write NAME=CONTEXT"),
        (["--worker-context", "x=y", "--worker-context", "x=z"], 'worker "x" is named twice'),
        (["-f", "/does/not/exist"], 'cannot read "/does/not/exist"'),
    ],
)
def test_what_cannot_be_meant_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    assert main(["clusters", "sync", *arguments, "--kubeconfig", str(kubeconfig)]) == 2
    assert message in capsys.readouterr().err


async def test_what_does_not_go_with_the_fleet_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=()) as fleet:
        for arguments, code, message in (
            (["x"], 2, 'no MultiKueueCluster "x" on the manager (there are none)'),
            (["--prune"], 2, "--prune needs the fleet file"),
            (["--worker-kubeconfig", "x=y"], 2, 'credentials were named for "x"'),
        ):
            await fleet.shell.run("clusters", "sync", *arguments, code=code)
            assert message in fleet.shell.errors
