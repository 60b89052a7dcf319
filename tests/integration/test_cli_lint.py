"""``multiqueue lint --cluster``, and the same rules as warnings of kubectl."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import CLUSTER_QUEUES, CONFIG_MAPS, NAMESPACES, SECRETS
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_cli_commands import UserShell
from tests.integration.test_runtime_manager import embedded, make_config
from tests.integration.waiting import until
from tests.unit.lint.objects import (
    MULTIKUEUE,
    check,
    checked,
    cluster_queue,
    flavor,
    job,
    local_queue,
    namespace,
    obj,
    quota,
)

CONFIG = Path(__file__).parents[2] / "config"
SYSTEM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
WORKER = obj(
    "MultiKueueCluster",
    "w",
    {"clusterSource": {"kubeConfig": {"location": "w-kubeconfig", "locationType": "Secret"}}},
)
MANAGER = [
    SYSTEM,
    namespace("n"),
    flavor(),
    check("mk", MULTIKUEUE, "workers"),
    obj("MultiKueueConfig", "workers", {"clusters": ["w"]}),
    WORKER,
    cluster_queue(admissionChecksStrategy=checked("mk")),
    local_queue(),
]


@pytest.fixture(autouse=True)
def logs_are_not_output() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    yield
    structlog.reset_defaults()


async def put_kubeconfig(client: KubeClient, kubeconfig: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "w-kubeconfig", "namespace": "kueue-system"},
        "stringData": {"kubeconfig": kubeconfig},
    }
    await client.create(SECRETS, secret, namespace="kueue-system")


def rules(output: str) -> list[tuple[str, str, str]]:
    return [(f["cluster"], f["rule"], f["what"]) for f in json.loads(output)["findings"]]


async def test_a_cluster_is_compared_with_its_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "manager", tmp_path / "worker"
    async with embedded(kubeconfig=here) as (_, manager), embedded(kubeconfig=there) as (_, worker):
        await apply_all(manager, MANAGER)
        shell = UserShell(here, capsys)
        (refused,) = rules(await shell.run("lint", "--cluster", "-o", "json", code=1))
        assert refused[1] == "worker-kubeconfig"
        assert 'Secret "kueue-system/w-kubeconfig" not found' in refused[2]

        await put_kubeconfig(manager, there.read_text())
        (missing,) = rules(await shell.run("lint", "--cluster", "-o", "json", code=1))
        assert missing == ("", "worker-queue-missing", 'worker "w" has no namespace "n"')

        await apply_all(worker, [namespace("n"), local_queue(), cluster_queue("cq", quota("gpu"))])
        got = rules(await shell.run("lint", "--cluster", "-o", "json", code=1))
        assert got == [
            ("w", "flavor-missing", 'ResourceFlavor "f" does not exist'),
            ("", "worker-quota-differs", 'worker "w": ClusterQueue "cq" does not cover cpu'),
        ]
        named = ("lint", "--cluster", "--worker", f"w={there}", "--severity", "error")
        assert "1 error, 0 warning" in await shell.run(*named, code=1)


@pytest.mark.parametrize("name", ["kueue-manager-config", "kueue-manager-config-h456mf8552"])
async def test_the_configuration_of_a_cluster_is_found(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Helm names it so; kustomize adds a hash, and the Deployment says which."""
    async with embedded(kubeconfig=tmp_path / "kubeconfig") as (_, client):
        await apply_all(client, [*MANAGER, deployment_with(name)])
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "kueue-system"},
            "data": {"controller_manager_config.yaml": "waitForPodsReady: {blockAdmission: true}"},
        }
        await client.create(CONFIG_MAPS, config_map, namespace="kueue-system")
        shell = UserShell(tmp_path / "kubeconfig", capsys)
        only = ("lint", "--cluster", "--rule", "multikueue-block-admission", "-o", "json")
        ((_, rule, _),) = rules(await shell.run(*only))
        assert rule == "multikueue-block-admission"


def deployment_with(config_map: str) -> dict[str, Any]:
    """The manager's Deployment, as config/manager has it, with this ConfigMap."""
    text = (CONFIG / "manager" / "manager.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(text.replace("kueue-manager-config", config_map))
    return found


async def test_what_the_worker_of_a_bad_address_has_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "manager"
    async with embedded(kubeconfig=here) as (_, client):
        await apply_all(client, MANAGER)
        config = yaml.safe_load(here.read_text())
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        await put_kubeconfig(client, yaml.safe_dump(config))
        output = await UserShell(here, capsys).run("lint", "--cluster", "-o", "json")
        ((cluster, rule, what),) = rules(output)
        assert (cluster, rule) == ("", "worker-kubeconfig")
        assert what.startswith("its cluster was not looked at: ")


async def kubectl(kubeconfig: Path, manifest: dict[str, Any]) -> tuple[str, str]:
    """Apply with a real kubectl; returns what it prints, and what it warns of."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl in PATH")
    process = await asyncio.create_subprocess_exec(
        program,
        "apply",
        "-f",
        "-",
        env={"KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent), **os.environ},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(json.dumps(manifest).encode()), 60)
    return out.decode(), err.decode()


@pytest.mark.kubectl
async def test_kubectl_shows_the_warnings(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with embedded(kubeconfig=kubeconfig, manager=make_config()) as (_, client):
        queue = cluster_queue("cq", quota(nominal="1"))
        out, err = await kubectl(kubeconfig, queue)
        assert out == "clusterqueue.kueue.x-k8s.io/cq created\n"
        assert err == (
            "Warning: [flavor-missing] spec.resourceGroups[0].flavors[0].name: "
            'ResourceFlavor "f" does not exist; create it, or correct the name\n'
        )
        await apply_all(client, [namespace("n"), flavor(), local_queue()])
        await until(client, CLUSTER_QUEUES, is_active)
        large = job(requests={"cpu": "2"}, pod={"restartPolicy": "Never"})
        out, err = await kubectl(kubeconfig, large)
        assert out == "job.batch/j created\n"
        assert err.startswith("Warning: [job-too-large] spec.template.spec.containers: needs 2 cpu")


def is_active(queues: list[dict[str, Any]]) -> bool:
    """The manager has seen the flavor."""
    conditions = queues[0].get("status", {}).get("conditions", [])
    return any(c["type"] == "Active" and c["status"] == "True" for c in conditions)


async def test_a_quiet_cluster_has_nothing_to_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with embedded(kubeconfig=tmp_path / "kubeconfig") as (_, client):
        await client.get(NAMESPACES, "default")
        output = await UserShell(tmp_path / "kubeconfig", capsys).run("lint", "--cluster")
        assert output.endswith("objects: nothing found\n")
