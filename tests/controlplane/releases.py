"""The release before this one, and replicas that are rolled from one version to another."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.controlplane.installed import NAMESPACE, ROOT, manager
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import answers, until
from tests.controlplane.test_old_storage import SERVICE, endpoint
from tools.release.build import export_tree
from tools.release.version import PROGRAM, git, read_version, stamp

BEFORE_TAGS = "254f5229"
"""The commit of the changelog's section 0.1.0, for a history that has no tags."""
REPLICAS = 2
PRE_STOP_SECONDS = 3
"""As config/manager says: until then nodes may still lead requests to a replica that ends."""


def export_previous_release(target: Path) -> Path:
    """Write the files of the newest tag before this commit; without tags, those of 0.1.0.

    The test is skipped if the clone does not have that commit.
    """
    describe = ["git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^"]
    described = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=False)
    commit = described.stdout.strip() or BEFORE_TAGS
    try:
        git(ROOT, "cat-file", "-e", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError:
        pytest.skip(f"this clone lacks {commit}, the release before: git fetch --unshallow --tags")
    export_tree(ROOT, commit, target)
    stamp(target, read_version(ROOT, commit), [PROGRAM])
    return target


def read_program_version(source: Path) -> str:
    """What the program in a folder says of itself."""
    command = [sys.executable, "-m", "multiqueue", "version"]
    return subprocess.run(
        command, cwd=source, check=True, capture_output=True, text=True
    ).stdout.split()[1]


@dataclass(slots=True)
class RollingReplicas:
    """What a Deployment with two replicas and ``maxUnavailable: 0`` runs, one process for a pod."""

    plane: RealControlPlane
    folder: Path
    running: list[tuple[str, ExitStack]] = field(default_factory=list)
    started: int = 0

    def roll(self, source: Path) -> None:
        """Start a replica of this version, end an old one when the new one is ready; repeat."""
        old, self.running = self.running, []
        for _ in range(REPLICAS):
            self._start(source)
            if old:
                self._end(*old.pop(0))
        assert not old

    def end(self) -> None:
        """End all of them."""
        for _, stack in self.running:
            stack.close()

    def _start(self, source: Path) -> None:
        self.started += 1
        name = f"{SERVICE}-{self.started}"
        folder = self.folder / f"replica-{self.started}"
        stack = ExitStack()
        stack.enter_context(manager(self.plane, folder, webhook_host="", source=source))
        self.running.append((name, stack))
        config = yaml.safe_load((folder / "config.yaml").read_text())
        probe = f"http://{config['health']['healthProbeBindAddress']}/readyz"
        for ready in (False, True):
            slice_ = endpoint(config["webhook"]["port"], ready=ready, name=name)
            self.plane.kubectl("apply", "-f", "-", stdin=json.dumps(slice_))
            until(lambda: answers(probe), f"200 from {probe}; see {folder / 'log'}")

    def _end(self, name: str, stack: ExitStack) -> None:
        self.plane.kubectl("delete", "endpointslice", name, f"--namespace={NAMESPACE}")
        time.sleep(PRE_STOP_SECONDS)
        stack.close()


@contextlib.contextmanager
def rolling_replicas(plane: RealControlPlane, folder: Path) -> Iterator[RollingReplicas]:
    """Replicas that end with the block."""
    replicas = RollingReplicas(plane, folder)
    try:
        yield replicas
    finally:
        replicas.end()
