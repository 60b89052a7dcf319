"""Fleets of bare control planes: a manager that runs this program, and workers with GPUs."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import binaries, kinds
from tests.controlplane.audit import audit_arguments
from tests.controlplane.installed import CONFIG, NAMESPACE, install, leader, troubles
from tests.controlplane.nodes import add_nodes, make_node
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.upstream import install_upstream, running_kueue
from tests.e2e.fleet_under_test import MANAGER_USER, REMOTE_USER
from tests.e2e.objects import make_nodes
from tests.e2e.outages import PATIENT

OURS, UPSTREAM = "worker-a100", "worker-h100"
"""The workers of a mixed fleet: one runs this program, the other upstream Kueue."""
NODES = {
    OURS: [make_node(f"a100-{i}", "a100", gpus=4) for i in range(2)],
    UPSTREAM: [make_node("h100-0", "h100", gpus=4)],
}
"""Theirs, as config/samples has them; others have equal ones."""


@dataclass(slots=True)
class Program:
    """The manager's program while it runs."""

    process: subprocess.Popen[bytes]
    folder: Path

    def kill(self) -> None:
        """End it at once: it gets to do nothing more."""
        self.process.kill()
        self.process.wait()

    def read_troubles(self) -> list[str]:
        """Return what its log has beyond the normal course of things."""
        return troubles(self.folder)


@dataclass(slots=True)
class Fleet:
    """Running control planes; the manager's program is started by whoever wants one."""

    folder: Path
    manager: RealControlPlane
    workers: Mapping[str, RealControlPlane]
    _programs: list[Program] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self, **settings: Any) -> Iterator[Program]:
        """Run the manager's program, from the moment on when it is ready.

        Args:
            settings: Sections of its Configuration that replace those that are shipped.
        """
        folder = self.folder / f"program-{len(self._programs)}"
        with leader(self.manager, folder, **settings) as process:
            self._programs.append(Program(process, folder))
            yield self._programs[-1]

    def callers(self) -> Iterator[tuple[RealControlPlane, str]]:
        """Where this program works, and as which user: at home, and from afar."""
        yield self.manager, MANAGER_USER
        if OURS in self.workers:
            yield self.workers[OURS], MANAGER_USER
        for plane in self.workers.values():
            yield plane, REMOTE_USER


def running_mixed_fleet(
    folder: Path, crds: Collection[str] | None = None
) -> contextlib.AbstractContextManager[Fleet]:
    """Start everything but the manager's program; its workers are registered.

    Args:
        folder: Where everything writes.
        crds: Names of definitions of job kinds that all clusters have. If given, the workers queue
            these kinds and the built-in ones, and upstream's webhooks are registered.
    """
    return _running_fleet(folder, (OURS, UPSTREAM), crds)


def running_upstream_fleet(folder: Path) -> contextlib.AbstractContextManager[Fleet]:
    """The same with upstream Kueue on both workers."""
    return _running_fleet(folder, ("worker-1", "worker-2"))


def running_own_fleet(folder: Path) -> contextlib.AbstractContextManager[Fleet]:
    """The same with one worker, which runs this program."""
    return _running_fleet(folder, (OURS,))


@contextlib.contextmanager
def _running_fleet(
    folder: Path, workers: tuple[str, ...], crds: Collection[str] | None = None
) -> Iterator[Fleet]:
    names = ("manager", *workers)
    groups = {"apps", *(crd.partition(".")[2] for crd in crds or ())}
    planes = {
        name: RealControlPlane(
            folder / name, extra_arguments=audit_arguments(folder / name, groups)
        )
        for name in names
    }
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(names)) as pool:
        for plane in planes.values():
            stack.callback(plane.__exit__)
        list(pool.map(RealControlPlane.__enter__, planes.values()))
        list(pool.map(partial(_set_up, crds=crds or ()), names, planes.values()))
        for name in workers:
            program = folder / name / "program"
            if name == OURS:
                # Its server hangs or is away in some tests, and nothing here restarts it.
                settings: dict[str, Any] = {"leaderElection": PATIENT}
                settings |= {} if crds is None else kinds.settings_for(crds, kinds.OUR_GATES)
                run = leader(planes[name], program, **settings)
            else:
                more = "" if crds is None else yaml.safe_dump(kinds.settings_for(crds))
                run = running_kueue(planes[name], program, more=more, webhooks=crds is not None)
            stack.enter_context(run)
        fleet = Fleet(folder, planes.pop("manager"), planes)
        for worker, plane in fleet.workers.items():
            register(fleet.manager, worker, plane)
        yield fleet


def _set_up(name: str, plane: RealControlPlane, *, crds: Collection[str]) -> None:
    kinds.install(plane, crds)
    if name in {"manager", OURS}:
        install(plane)
    else:
        install_upstream(plane)
    if name != "manager":
        plane.kubectl("apply", "--server-side", "-k", str(CONFIG / "worker-role"))
        add_nodes(plane, NODES.get(name) or make_nodes(name))


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
