"""A fleet of real control planes, set up as the README says: a manager and two workers with GPUs.

worker-a100 runs this program, worker-h100 runs upstream Kueue. The objects are those of
config/samples and config/samples-worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiqueue.api.names import QUEUE_NAME
from tests.controlplane import binaries
from tests.controlplane.audit import audit_arguments
from tests.controlplane.installed import CONFIG, NAMESPACE, install, leader
from tests.controlplane.nodes import add_nodes, as_list, make_node, run_for
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.upstream import install_upstream, running_kueue

OURS, UPSTREAM = "worker-a100", "worker-h100"
WORKERS = (OURS, UPSTREAM)
MANAGER_USER = "system:serviceaccount:kueue-system:kueue-controller-manager"
REMOTE_USER = "system:serviceaccount:kueue-system:multikueue-manager"
"""Who a manager is at home, and on its workers."""
NODES = {
    OURS: [make_node(f"a100-{i}", "a100", gpus=4) for i in range(2)],
    UPSTREAM: [make_node("h100-0", "h100", gpus=4)],
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running control planes; the manager's program is started by whoever wants one."""

    folder: Path
    manager: RealControlPlane
    workers: Mapping[str, RealControlPlane]

    def callers(self) -> Iterator[tuple[RealControlPlane, str]]:
        """Where this program works, and as which user: at home, and from afar."""
        yield self.manager, MANAGER_USER
        yield self.workers[OURS], MANAGER_USER
        for plane in self.workers.values():
            yield plane, REMOTE_USER

    def submit(self, jobs: Sequence[dict[str, Any]]) -> None:
        """Create all at once, on the manager."""
        self.manager.kubectl("create", "-f", "-", stdin=json.dumps(as_list(jobs)))


@contextlib.contextmanager
def running_fleet(folder: Path) -> Iterator[Fleet]:
    """Start everything but the manager's program; its workers are registered."""
    names = ("manager", *WORKERS)
    planes = {
        name: RealControlPlane(folder / name, extra_arguments=audit_arguments(folder / name))
        for name in names
    }
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(names)) as pool:
        for plane in planes.values():
            stack.callback(plane.__exit__)
        list(pool.map(RealControlPlane.__enter__, planes.values()))
        list(pool.map(_set_up, names, planes.values()))
        stack.enter_context(leader(planes[OURS], folder / OURS / "program"))
        stack.enter_context(running_kueue(planes[UPSTREAM], folder / UPSTREAM / "program"))
        fleet = Fleet(folder, planes.pop("manager"), planes)
        for worker, plane in fleet.workers.items():
            plane.kubectl("apply", "-f", str(CONFIG / "samples-worker" / worker))
            register(fleet.manager, worker, plane)
        yield fleet


def _set_up(name: str, plane: RealControlPlane) -> None:
    if name == UPSTREAM:
        install_upstream(plane)
    else:
        install(plane)
    if name in WORKERS:
        plane.kubectl("apply", "--server-side", "-k", str(CONFIG / "worker-role"))
        add_nodes(plane, NODES[name])


def register(manager: RealControlPlane, worker: str, plane: RealControlPlane) -> None:
    """Give a manager its kubeconfig for a worker, made by the script that does this."""
    path = f"{Path(binaries.get('kubectl')).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "PATH": path}
    token = "secret/multikueue-manager-token", "--timeout=30s"
    plane.kubectl("wait", "--for=jsonpath={.data.token}", f"-n={NAMESPACE}", *token)
    kubeconfig = plane.folder / f"{worker}.kubeconfig"
    command = [str(CONFIG / "worker-role" / "kubeconfig.sh"), "real"]
    kubeconfig.write_bytes(subprocess.check_output(command, env=environment))
    content = f"--from-file=kubeconfig={kubeconfig}"
    secret = f"{worker}-kubeconfig"
    manager.kubectl("create", "secret", "generic", secret, f"-n={NAMESPACE}", content)


def make_job(
    name: str, *, queue: str, runs_for: str = "2s", pods: int = 1, **metadata: Any
) -> dict[str, Any]:
    """A Job of one GPU a pod, in the queue and the namespace of this name."""
    container = {
        "name": "trainer",
        "image": "registry.example.com/train",
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"nvidia.com/gpu": "1"},
        },
    }
    labels = {QUEUE_NAME: queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": queue, "labels": labels, **metadata},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"annotations": run_for(runs_for)},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }
