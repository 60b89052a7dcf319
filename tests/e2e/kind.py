"""A fleet on kind: what is different there from bare control planes, and nothing else.

Each cluster is one container that Docker calls ``NAME-control-plane``. The manager's program is
the Deployment of config/default; API server and etcd are static pods, which go and come with their
manifests.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.fleet_under_test import SYSTEM

AUDIT_LOG = "/var/log/kubernetes/audit.jsonl"
"""Inside of the container, as e2e-kind/cluster.yaml says."""
MANIFESTS, HELD = "/etc/kubernetes/manifests", "/etc/kubernetes/held"
SERVERS = ("etcd", "kube-apiserver")
DEPLOYMENT = "deployment/kueue-controller-manager"
PODS = "--selector=control-plane=controller-manager"
CONFIG_KEY = "controller_manager_config.yaml"
READY_SECONDS = 180


@dataclass(slots=True)
class KindCluster:
    """One cluster of kind.

    Args:
        name: Of the cluster.
        folder: Where its kubeconfig lies, as ``NAME.kubeconfig``.
    """

    name: str
    folder: Path
    outages: list[tuple[datetime, datetime]] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.folder / f"{self.name}.kubeconfig"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl; answers what it prints, or raises CalledProcessError."""
        return _run("kubectl", f"--kubeconfig={self.kubeconfig}", *arguments, stdin=stdin)

    def execute(self, script: str) -> str:
        """Run a script of the shell in the cluster's container, as root."""
        return _run("docker", "exec", f"{self.name}-control-plane", "sh", "-c", script)

    def read_audit_log(self) -> str:
        """Return the API server's audit log: an event a line; also while it is down."""
        return self.execute(f"cat {AUDIT_LOG}")

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Kill API server and etcd at once; they are back after the block."""
        began = datetime.now(UTC)
        here = " ".join(f"{MANIFESTS}/{server}.yaml" for server in SERVERS)
        held = " ".join(f"{HELD}/{server}.yaml" for server in SERVERS)
        # The manifests first, or kubelet would start them again.
        self.execute(
            f"mkdir -p {HELD} && mv {here} {HELD}/ && pkill -KILL -x 'etcd|kube-apiserver'"
        )
        try:
            yield
        finally:
            self.execute(f"mv {held} {MANIFESTS}/")
            self.wait_until_ready()
            self.outages.append((began, datetime.now(UTC)))

    def wait_until_ready(self) -> None:
        """Return once the API server says that it is ready.

        Raises:
            subprocess.CalledProcessError: It is not, for minutes; its words are in the error.
        """
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.kubectl("get", "--raw=/readyz")
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return


@dataclass(slots=True)
class KindProgram:
    """The manager's program while it runs."""

    cluster: KindCluster

    def kill(self) -> None:
        """End it at once: it gets to do nothing more.

        Kubelet may start it again before its Deployment is gone, but it cannot lead that soon.
        """
        self.cluster.execute("pkill -KILL -f '[m]ultiqueue run'")  # not this shell
        _scale(self.cluster, 0)
        self.cluster.kubectl(
            "delete", "pods", PODS, f"-n={SYSTEM}", "--force", "--grace-period=0", "--wait"
        )

    def read_troubles(self) -> list[str]:
        """Return what its log has beyond the normal course of things."""
        lines = self.cluster.kubectl("logs", DEPLOYMENT, f"-n={SYSTEM}").splitlines()
        return [line for line in lines if '"level":"info"' not in line]


@dataclass(slots=True)
class KindFleet:
    """Clusters of kind with everything installed and registered."""

    manager: KindCluster
    workers: Mapping[str, KindCluster]

    @contextlib.contextmanager
    def running(self, **settings: Any) -> Iterator[KindProgram]:
        """Run the manager's program, ready when the block begins, ended after it.

        Args:
            settings: Sections of its Configuration that replace those that are shipped.
        """
        cluster = self.manager
        shipped = cluster.kubectl("get", DEPLOYMENT, f"-n={SYSTEM}", "-o=json")
        volumes = json.loads(shipped)["spec"]["template"]["spec"]["volumes"]
        (name,) = (v["configMap"]["name"] for v in volumes if "configMap" in v)
        where = f"configmap/{name}", f"-n={SYSTEM}"
        before = json.loads(cluster.kubectl("get", *where, "-o=json"))["data"][CONFIG_KEY]
        _write_config(cluster, where, yaml.safe_dump(yaml.safe_load(before) | settings))
        try:
            _scale(cluster, 1)
            status = "rollout", "status", DEPLOYMENT, f"-n={SYSTEM}"
            cluster.kubectl(*status, f"--timeout={READY_SECONDS}s")
            yield KindProgram(cluster)
        finally:
            _scale(cluster, 0)
            gone = "wait", "--for=delete", "pods", PODS, f"-n={SYSTEM}"
            cluster.kubectl(*gone, f"--timeout={READY_SECONDS}s")
            _write_config(cluster, where, before)


def _scale(cluster: KindCluster, replicas: int) -> None:
    cluster.kubectl("scale", DEPLOYMENT, f"-n={SYSTEM}", f"--replicas={replicas}")


def _write_config(cluster: KindCluster, where: tuple[str, ...], content: str) -> None:
    patch = json.dumps({"data": {CONFIG_KEY: content}})
    cluster.kubectl("patch", *where, "--type=merge", f"--patch={patch}")


def _run(*command: str, stdin: str | None = None) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=stdin)
    try:
        done.check_returncode()
    except subprocess.CalledProcessError as error:
        error.add_note(done.stderr)
        raise
    return done.stdout
