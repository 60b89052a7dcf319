"""A manager and workers in this process, and the command line of their administrator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from multiqueue.kube.client import KubeClient
from multiqueue.kube.resources import SECRETS
from multiqueue.runtime.manifests import apply_all
from tests.integration.test_cli_commands import UserShell
from tests.integration.test_runtime_manager import embedded
from tests.unit.lint.objects import (
    MULTIKUEUE,
    check,
    checked,
    cluster_queue,
    flavor,
    local_queue,
    namespace,
    obj,
    priority,
)

SYSTEM = "kueue-system"
NOWHERE = """
apiVersion: v1
kind: Config
current-context: w
clusters: [{name: w, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: w, user: {token: t}}]
contexts: [{name: w, context: {cluster: w, user: w}}]
"""
HEAD = """
apiVersion: config.multiqueue.dev/v1alpha1
kind: FleetConfiguration
workers:
"""
WORKER = """
- name: {name}
  clusterQueues: [{{name: all, spec: {{resourceGroups: [{{coveredResources: [cpu], flavors: [
    {{name: f, resources: [{{name: cpu, nominalQuota: {quota}}}]}}]}}]}}}}]
"""
QUOTAS = {"a": 8, "b": 4}


def fleet_file(*names: str, more: str = "") -> str:
    """One ClusterQueue on each worker; ``more`` belongs to the last one."""
    sections = "".join(WORKER.format(name=name, quota=QUOTAS[name]) for name in names)
    return f"{HEAD}{sections}{more}" if names else ""


def declared(*workers: str) -> list[dict[str, Any]]:
    """What a manager has that sends jobs of one team to workers."""
    return [
        namespace(SYSTEM),
        namespace("n"),
        flavor(nodeLabels={"gpu": "a100"}),
        priority("high", 100),
        check("mk", MULTIKUEUE, "fleet"),
        obj("MultiKueueConfig", "fleet", {"clusters": list(workers or ["nobody"])}),
        cluster_queue(admissionChecksStrategy=checked("mk")),
        local_queue(),
    ]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running clusters."""

    folder: Path
    shell: UserShell
    manager: KubeClient
    workers: dict[str, KubeClient]

    @property
    def file(self) -> str:
        """Path of the fleet file."""
        return str(self.folder / "fleet.yaml")

    def kubeconfig(self, name: str) -> str:
        """Path of an administrator's kubeconfig."""
        return str(self.folder / name)

    def ways(self, *names: str) -> list[str]:
        """Options that lead to workers as their administrator; to all by default."""
        return [
            option
            for name in names or self.workers
            for option in ("--worker-kubeconfig", f"{name}={self.kubeconfig(name)}")
        ]

    async def register(self, name: str, kubeconfig: dict[str, Any] | None = None) -> None:
        """Give the manager a kubeconfig of a worker: the administrator's by default."""
        content = await asyncio.to_thread(Path(self.kubeconfig(name)).read_text)
        source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": SYSTEM},
            "stringData": {"kubeconfig": json.dumps(kubeconfig) if kubeconfig else content},
        }
        await self.manager.create(SECRETS, secret, namespace=SYSTEM)
        await apply_all(self.manager, [obj("MultiKueueCluster", name, {"clusterSource": source})])


@asynccontextmanager
async def running_fleet(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    names: Sequence[str] = ("a", "b"),
    manager: Any = None,
) -> AsyncIterator[Fleet]:
    """Start a manager's cluster and workers; with `manager` a manager's program runs, too."""
    async with AsyncExitStack() as stack:
        clients = {}
        for name in (*names, "manager"):
            config = manager if name == "manager" else None
            cluster = embedded(kubeconfig=folder / name, manager=config, name=name)
            _, clients[name] = await stack.enter_async_context(cluster)
        (folder / "fleet.yaml").write_text(fleet_file(*names))
        here = clients.pop("manager")
        await apply_all(here, declared(*names))
        yield Fleet(folder, UserShell(folder / "manager", capsys), here, clients)
