"""The processes of a soak: four API servers with simulated nodes, and four managers."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
import yaml

from multiqueue.api import names
from multiqueue.embedded.cluster.simulated_kinds import SimulatedKind
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists
from multiqueue.kube.resources import resource_of
from multiqueue.runtime.demo.kinds import build_integrations, list_crds
from multiqueue.runtime.demo.world import WORKER_CONFIGURATION
from tests.processes import running, wait_for_text

MANAGER = "manager"
WORKERS = ("w1", "w2", "w3")
CLUSTERS = (MANAGER, *WORKERS)
ACCOUNT = "soak-manager"
CLUSTER_ROLE_BINDINGS = resource_of(
    "rbac.authorization.k8s.io/v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
    namespaced=False,
)
CLUSTER_ADMIN = "cluster-admin"


@dataclass
class Part:
    """One process, which can be killed and started again."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    answer: str = ""
    """What it prints once it works; empty if nobody waits for that."""
    started: int = 0
    pid: int = 0
    output: str = ""
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self) -> None:
        self.started += 1
        log = self.log.with_suffix(f".{self.started}.log")
        process = self.stack.enter_context(running(*self.arguments, log=log))
        self.pid = process.pid
        if self.answer:
            self.output = wait_for_text(process, log, self.answer).group(1)

    def kill(self) -> None:
        """End it without warning, and reap it."""
        self.send(signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        self.stack.close()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


@dataclass
class SoakFleet:
    """All processes by name; an API server is called "NAME api"."""

    parts: dict[str, Part]
    kubeconfigs: dict[str, Path]

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, kinds: tuple[SimulatedKind, ...], speed: float) -> Iterator[Self]:
        """Start the API servers; `start_managers` follows once their objects are there."""
        crds = folder / "crds"
        crds.mkdir()
        (crds / "kinds.yaml").write_text(yaml.safe_dump_all(list_crds(kinds)))
        this = cls({}, {})
        try:
            for name in CLUSTERS:
                server = ("apiserver", "--nodes", "2xcpu", "--speed", str(speed))
                part = Part(
                    f"{name} api",
                    (*server, "--crds", str(crds), "--log-level", "error"),
                    folder / f"{name}-api",
                    r"KUBECONFIG=(\S+)",
                )
                this.parts[part.name] = part
                part.start()
                this.kubeconfigs[name] = Path(part.output)
            yield this
        finally:
            for part in reversed(this.parts.values()):
                part.stop()

    def start_managers(self, folder: Path, kinds: tuple[SimulatedKind, ...]) -> None:
        for name in (*WORKERS, MANAGER):
            config = folder / f"{name}.yaml"
            config.write_text(yaml.safe_dump(_configuration(kinds)))
            files = ("--config", str(config), "--kubeconfig", str(self.kubeconfigs[name]))
            arguments = ("run", *files, "--log-level", "warning")
            part = self.parts[name] = Part(name, arguments, folder / name)
            part.start()


def _configuration(kinds: tuple[SimulatedKind, ...]) -> dict[str, Any]:
    """What all managers use: a worker that is silent for a short while is not lost."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        **WORKER_CONFIGURATION,
        **build_integrations(kinds),
        "multiKueue": {
            "dispatcherName": "score",
            "gcInterval": "10s",
            "workerLostTimeout": "180s",
        },
    }


async def make_kubeconfig(client: KubeClient, admin: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig for a worker with a fresh token of the manager's account there."""
    path = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = orjson.loads((await client.request("POST", path, body=body)).body)
    server = dict(admin["clusters"][0]["cluster"])
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "worker", "cluster": server}],
        "users": [{"name": ACCOUNT, "user": {"token": answer["status"]["token"]}}],
        "contexts": [{"name": "worker", "context": {"cluster": "worker", "user": ACCOUNT}}],
        "current-context": "worker",
    }


async def create_account(client: KubeClient) -> None:
    """Give the manager an account on a worker."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": names.DEFAULT_NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CLUSTER_ADMIN}
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    objects = (
        (resources.NAMESPACES, namespace | {"metadata": {"name": names.DEFAULT_NAMESPACE}}),
        (
            resources.SERVICE_ACCOUNTS,
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": ACCOUNT, "namespace": names.DEFAULT_NAMESPACE},
            },
        ),
        (
            CLUSTER_ROLE_BINDINGS,
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": ACCOUNT},
                "roleRef": role,
                "subjects": [subject],
            },
        ),
    )
    for resource, obj in objects:
        with contextlib.suppress(AlreadyExists):
            await client.create(resource, obj)


async def put_kubeconfig(client: KubeClient, worker: str, kubeconfig: Mapping[str, Any]) -> None:
    """Replace the kubeconfig in the manager's Secret of a worker."""
    text = base64.b64encode(yaml.safe_dump(dict(kubeconfig)).encode()).decode()
    patch = {"data": {"kubeconfig": text}}
    await client.patch(resources.SECRETS, worker, patch, namespace=names.DEFAULT_NAMESPACE)
