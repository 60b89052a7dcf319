"""``multiqueue clusters bootstrap`` and ``verify`` through the real command line."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
import yaml

from multiqueue.api.job_kinds import JOB_KINDS, KnownKind
from multiqueue.cli.main import main
from multiqueue.cli.projection.observe import ask_rights, right_on
from multiqueue.embedded.cluster.kind_crds import build_kind_crd
from multiqueue.embedded.server.server import ApiServer
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import Forbidden, Unauthorized
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    CRDS,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    RESOURCE_FLAVORS,
    SECRETS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
    resource_of,
)
from multiqueue.kube.retries import RIGHTS
from multiqueue.runtime.manifests import apply_all, create_missing
from tests.builders.job_kinds import GADGET, make_job_kind
from tests.integration.projection_fleet import NOWHERE, SYSTEM, Fleet, running_fleet
from tests.integration.test_runtime_manager import make_config
from tests.least_privilege import documents
from tests.unit.lint.objects import job


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


PATIENT = make_config(leaderElection={})  # nothing ends on a busy machine
CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
)


def runnable() -> dict[str, Any]:
    """A Job that an API server takes."""
    made = job()
    made["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return made


async def rules_of(worker: KubeClient) -> list[dict[str, Any]]:
    role = await worker.get(CLUSTER_ROLES, "multikueue-manager-role")
    return list(role["rules"])


async def bootstrap(fleet: Fleet, *arguments: str, worker: str = "a", code: int = 0) -> str:
    way = ("--worker-kubeconfig", fleet.kubeconfig(worker))
    return await fleet.shell.run("clusters", "bootstrap", worker, *way, *arguments, code=code)


async def stored_kubeconfig(fleet: Fleet, name: str = "a") -> dict[str, Any]:
    secret = await fleet.manager.get(SECRETS, f"{name}-kubeconfig", namespace=SYSTEM)
    found: dict[str, Any] = orjson.loads(base64.b64decode(secret["data"]["kubeconfig"]))
    return found


def token_of(kubeconfig: dict[str, Any]) -> str:
    return str(kubeconfig["users"][0]["user"]["token"])


async def anchors(fleet: Fleet, name: str = "a") -> list[str]:
    listed = await fleet.workers[name].list(SECRETS, namespace=SYSTEM)
    return sorted(item["metadata"]["name"] for item in listed.items)


@pytest.mark.timeout(120)
async def test_from_nothing_to_a_worker_in_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"], manager=PATIENT) as fleet:
        told = await bootstrap(fleet)
        assert "manager: secret/a-kubeconfig created" in told
        assert "manager: multikueuecluster/a created" in told
        assert told.rstrip().endswith("a: Active")
        assert "nobody seems to run Kueue there" in fleet.shell.errors
        kubeconfig = await stored_kubeconfig(fleet)
        assert token_of(kubeconfig) not in told + fleet.shell.errors
        await assert_rights_are_few(kubeconfig)

        verify = ("clusters", "verify", "-f", fleet.file)
        missing = await fleet.shell.json(*verify, code=1)
        assert [(d["reason"], d["kind"], d["name"]) for d in missing[0]["drift"]] == [
            ("Missing", "ResourceFlavor", "f"),
            ("Missing", "WorkloadPriorityClass", "high"),
            ("Missing", "ClusterQueue", "all"),
            ("Missing", "LocalQueue", "q"),
        ]
        # What a manager may do there is not enough to change anything.
        sync = ("clusters", "sync", "-f", fleet.file)
        refused = await fleet.shell.run(*sync, code=1)
        assert "these credentials may not do it (write clusterqueues, localqueues, " in refused
        assert "--worker-context" in refused
        await fleet.shell.run(*sync, *fleet.ways())
        assert "a: in step, credentials end " in await fleet.shell.run(*verify)
        assert await fleet.shell.run(*verify, *fleet.ways()) != ""


async def assert_rights_are_few(kubeconfig: dict[str, Any]) -> None:
    credentials = await Credentials.from_kubeconfig_dict(kubeconfig)
    async with KubeClient(credentials) as client:
        await client.list(WORKLOADS)
        with pytest.raises(Forbidden):
            await client.list(SECRETS)
        with pytest.raises(Forbidden):
            await client.delete(CLUSTER_QUEUES, "all")


async def test_again_keeps_the_token_and_rotate_gives_a_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        no_wait = ("--timeout", "0")
        await bootstrap(fleet, *no_wait)
        first = await stored_kubeconfig(fleet)
        again = await bootstrap(fleet, *no_wait)
        assert "manager: the token in secret/a-kubeconfig works and is kept" in again
        assert "clusterrole/multikueue-manager-role unchanged" in again
        assert await stored_kubeconfig(fleet) == first

        rotated = await bootstrap(fleet, *no_wait, "--rotate")
        second = await stored_kubeconfig(fleet)
        assert token_of(second) != token_of(first)
        assert "the former token is good until the next rotation" in rotated
        await assert_works(first)  # a manager may be amid a request with it
        assert len(await anchors(fleet)) == 2

        await bootstrap(fleet, *no_wait, "--rotate")
        assert len(await anchors(fleet)) == 2
        with pytest.raises(Unauthorized):
            await assert_works(first)
        await assert_works(second)

        wide = yaml.safe_load(await asyncio.to_thread(Path(fleet.kubeconfig("a")).read_text))
        data = {"kubeconfig": base64.b64encode(json.dumps(wide).encode()).decode()}
        await fleet.manager.patch(SECRETS, "a-kubeconfig", {"data": data}, namespace=SYSTEM)
        narrowed = await bootstrap(fleet, *no_wait, "--rotate")
        assert "a: the former credentials could do everything there" in narrowed
        assert "may not list pods, watch pods, get pods/log, list events" in narrowed
        assert "apply config/worker-role-pods on the worker" in narrowed
        assert "warning" not in rotated


async def assert_works(kubeconfig: dict[str, Any]) -> None:
    async with KubeClient(await Credentials.from_kubeconfig_dict(kubeconfig)) as client:
        await client.list(WORKLOADS)


async def test_dry_run_shows_everything_but_secrets_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        told = await bootstrap(fleet, "--dry-run")
        for kind in ("ServiceAccount", "ClusterRole", "Secret", "MultiKueueCluster"):
            assert f"kind: {kind}\n" in told
        assert "kubeconfig: '***'" in told
        assert (await fleet.manager.list(MULTIKUEUE_CLUSTERS)).items == []
        assert await anchors(fleet) == []


RAY_AND_GADGETS = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [batch/job, ray.io/rayjob]}
multiKueue: {externalFrameworks: [{name: Toy.v1.toys.example.com}]}
"""
TOY = replace(GADGET, kind="Toy", plural="toys", group="toys.example.com")


async def test_a_worker_gets_rights_for_the_kinds_that_are_sent_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        worker = fleet.workers["a"]
        (ray,) = (row for row in JOB_KINDS if row.framework == "ray.io/rayjob")
        for row in (GADGET, TOY, ray):
            await create_missing(worker, [build_kind_crd(row)])
        data = {"controller_manager_config.yaml": RAY_AND_GADGETS}
        config = {"metadata": {"name": "kueue-manager-config", "namespace": SYSTEM}, "data": data}
        await fleet.manager.create(CONFIG_MAPS, config)
        here_only = make_job_kind("here", group="a.example.com", plural="toys", kind="Toy")
        del here_only["spec"]["multiKueue"]
        await create_missing(fleet.manager, [build_kind_crd(TOY), make_job_kind(), here_only])
        told = await bootstrap(fleet, "--timeout", "0")
        assert "clusterrole/multikueue-manager-job-kinds-role created" in told
        assert "clusterrole/multiqueue-remote-jobs-gadgets.gadgets.example.com created" in told
        again = await bootstrap(fleet, "--timeout", "0")
        roles = [line for line in again.splitlines() if " clusterrole" in line]
        assert len(roles) == 8
        assert all(line.endswith("unchanged") for line in roles), roles

        credentials = await Credentials.from_kubeconfig_dict(await stored_kubeconfig(fleet))
        async with KubeClient(credentials) as manager:
            for row in (GADGET, TOY, ray):
                await RIGHTS.run(partial(may_list, manager, row), until=bool)
            for row in JOB_KINDS:
                if row.framework not in {"batch/job", "ray.io/rayjob"}:
                    assert not await may_list(manager, row), row

        await fleet.shell.run("clusters", "sync", "-f", fleet.file, *fleet.ways())
        verify = ("clusters", "verify", "-f", fleet.file)
        assert (await fleet.shell.json(*verify))[0]["drift"] == []
        name = "multiqueue-remote-jobs-gadgets.gadgets.example.com"
        await worker.patch(CLUSTER_ROLES, name, {"rules": []})
        await worker.delete(CRDS, "toys.toys.example.com")
        await RIGHTS.run(partial(lacks_gadgets, fleet), until=bool)
        (report,) = await fleet.shell.json(*verify, code=1)
        assert {d["reason"] for d in report["drift"]} == {"RightMissing"}
        assert "list gadgets.gadgets.example.com" in {d["name"] for d in report["drift"]}
        assert any("does not serve toys.toys.example.com" in text for text in report["warnings"])


async def may_list(client: KubeClient, row: KnownKind) -> bool:
    wanted = right_on(resource_of(row.api_version, row.plural, row.kind), "list")
    return (await ask_rights(client, [wanted]))[wanted]


async def lacks_gadgets(fleet: Fleet) -> bool:
    credentials = await Credentials.from_kubeconfig_dict(await stored_kubeconfig(fleet))
    async with KubeClient(credentials) as manager:
        return not await may_list(manager, GADGET)


async def test_one_cluster_is_one_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys) as fleet:
        await bootstrap(fleet, "--timeout", "0")
        way = ("--worker-kubeconfig", fleet.kubeconfig("a"))
        await fleet.shell.run("clusters", "bootstrap", "second", *way, code=1)
        assert 'registered as MultiKueueCluster "a" already' in fleet.shell.errors
        await fleet.shell.run(
            "clusters", "bootstrap", "a", "--worker-kubeconfig", fleet.kubeconfig("b"), code=1
        )
        assert 'MultiKueueCluster "a" leads to another cluster' in fleet.shell.errors
        itself = ("--worker-kubeconfig", fleet.kubeconfig("manager"))
        await fleet.shell.run("clusters", "bootstrap", "self", *itself, code=1)
        assert "it is the manager's own cluster" in fleet.shell.errors

        await fleet.register("b", await stored_kubeconfig(fleet))
        got = await fleet.shell.json("clusters", "verify", "-f", fleet.file, code=1)
        same = [d["message"] for r in got for d in r["drift"] if d["reason"] == "SameServer"]
        assert len(same) == 2
        assert 'it is the same cluster as "b"' in same[0]


async def test_without_a_manager_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        told = await bootstrap(fleet, "--timeout", "0.2", code=1)
        assert "a: not Active: no manager has looked at it; does one run here?" in told


async def test_with_the_wider_role_the_manager_does_it_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        await bootstrap(fleet, "--timeout", "0")
        await apply_all(fleet.workers["a"], documents("worker-projection-role/role.yaml"))
        sync = ("clusters", "sync", "-f", fleet.file, "--prune")
        assert "localqueue/n/q created" in await fleet.shell.run(*sync)
        await fleet.manager.delete(WORKLOAD_PRIORITY_CLASSES, "high")
        assert "workloadpriorityclass/high deleted" in await fleet.shell.run(*sync)


async def test_a_cluster_without_kueue_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=()) as fleet, ApiServer() as bare:
        (tmp_path / "bare").write_text(json.dumps(bare.kubeconfig()))
        way = ("--worker-kubeconfig", fleet.kubeconfig("bare"))
        await fleet.shell.run("clusters", "bootstrap", "w", *way, code=1)
        assert '"w" cannot be a worker: the worker does not serve workloads' in fleet.shell.errors
        assert (await fleet.manager.list(MULTIKUEUE_CLUSTERS)).items == []


async def test_what_verify_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        await bootstrap(fleet, "--timeout", "0", "--token-duration", "24h")
        worker = fleet.workers["a"]
        await fleet.shell.run("clusters", "sync", "-f", fleet.file, *fleet.ways())
        await worker.patch(WORKLOAD_PRIORITY_CLASSES, "high", {"value": 7})
        labels = {"gpu": "h100"}
        await worker.patch(RESOURCE_FLAVORS, "f", {"spec": {"nodeLabels": labels}})
        await worker.delete(LOCAL_QUEUES, "q", namespace="n")
        for client in (worker, fleet.manager):
            await client.create(JOBS, runnable(), namespace="n")
        role = {
            "rules": [rule for rule in await rules_of(worker) if rule["apiGroups"] != ["batch"]]
        }
        await worker.patch(CLUSTER_ROLES, "multikueue-manager-role", role)
        got = await fleet.shell.json("clusters", "verify", "-f", fleet.file, code=1)
        found = {(d["reason"], d["kind"], d["name"], d["field"]) for d in got[0]["drift"]}
        assert found == {
            ("CredentialsExpire", "", "", ""),
            ("Differs", "WorkloadPriorityClass", "high", "value"),
            ("Differs", "ResourceFlavor", "f", "spec.nodeLabels"),
            ("Missing", "LocalQueue", "q", ""),
            *(
                ("RightMissing", "", f"{verb} jobs.batch", "")
                for verb in ("create", "delete", "get", "list", "patch", "watch")
            ),
        }
        await bootstrap(fleet, "--timeout", "0", "--force")
        got = await fleet.shell.json("clusters", "verify", "-f", fleet.file, code=1)
        assert ("NameTaken", "Job", "j") in {
            (d["reason"], d["kind"], d["name"]) for d in got[0]["drift"]
        }


async def test_a_worker_that_cannot_be_asked_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        await bootstrap(fleet, "--timeout", "0")
        for anchor in await anchors(fleet):
            await fleet.workers["a"].delete(SECRETS, anchor, namespace=SYSTEM)
        verify = ("clusters", "verify", "-f", fleet.file)
        (got,) = await fleet.shell.json(*verify, code=2)
        assert got["state"] == "Unknown"
        assert "401 Unauthorized" in got["unknown"][0]
        # Bootstrapping once more repairs it.
        await bootstrap(fleet, "--timeout", "0")
        await fleet.shell.json(*verify, code=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A_B"], 'NAME "A_B": a lowercase RFC 1123 subdomain'),
        (["w"], "which cluster shall be the worker?"),
        (["w", "--worker-kubeconfig", "/none"], 'kubeconfig "/none": no such file'),
        (["w", "--worker-kubeconfig", "FILE", "--token-duration", "1m"], "is less than 600 s"),
        (["w", "--worker-kubeconfig", "FILE", "--token-duration", "x"], "'--token-duration': "),
        (["w", "--worker-kubeconfig", "FILE", "--server", "http://x"], "is not https"),
        (
            ["w", "--worker-kubeconfig", "FILE", "--certificate-authority", "/none"],
            'cannot read the CA "/none"',
        ),
    ],
)
def test_what_cannot_be_meant_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    given = [str(kubeconfig) if each == "FILE" else each for each in arguments]
    assert main(["clusters", "bootstrap", *given]) == 2
    assert message in capsys.readouterr().err
