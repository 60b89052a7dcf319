"""docs/projection.md: its fleet file is one, and its CronJob has the rights that it takes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from multiqueue.cli.main import main
from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from multiqueue.projection.fleet import load_fleet
from multiqueue.runtime.manifests import apply_all
from tests.integration.projection_fleet import SYSTEM, fleet_file, running_fleet
from tests.least_privilege import documents, kubeconfig_of

DOC = Path(__file__).parents[2] / "docs" / "projection.md"


def blocks() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", DOC.read_text(), re.DOTALL)


def test_the_fleet_file_is_one() -> None:
    (example,) = (text for text in blocks() if "FleetConfiguration" in text)
    assert load_fleet(example).worker("worker-a100").cluster_queues[0].name == "worker-a100"


async def test_the_cron_job_may_do_what_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (manifests,) = (list(yaml.safe_load_all(text)) for text in blocks() if "CronJob" in text)
    cron = manifests[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    async with running_fleet(tmp_path, capsys, names=["a"]) as fleet:
        await apply_all(fleet.manager, manifests)
        await apply_all(fleet.workers["a"], documents("worker-projection-role/role.yaml"))
        way = ("--worker-kubeconfig", fleet.kubeconfig("a"), "--timeout", "0")
        await fleet.shell.run("clusters", "bootstrap", "a", *way)
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "multiqueue-fleet", "namespace": SYSTEM},
            "data": {"fleet.yaml": fleet_file("a")},
        }
        await fleet.manager.create(CONFIG_MAPS, config_map, namespace=SYSTEM)
        token = await token_of(fleet.manager, cron["serviceAccountName"])
        (tmp_path / "cron").write_text(json.dumps(as_user(tmp_path / "manager", token)))
        arguments = [*cron["containers"][0]["args"], "--kubeconfig", str(tmp_path / "cron")]
        assert await asyncio.to_thread(main, arguments) == 0
        assert "localqueue/n/q created" in capsys.readouterr().out


async def token_of(client: KubeClient, account: str) -> str:
    path = SERVICE_ACCOUNTS.path(SYSTEM, account, "token")
    answer = await client.request("POST", path, body={"spec": {}})
    return str(orjson.loads(answer.body)["status"]["token"])


def as_user(kubeconfig: Path, token: str) -> dict[str, Any]:
    return kubeconfig_of(yaml.safe_load(kubeconfig.read_text()), token)
