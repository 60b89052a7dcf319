"""docs/install.md, every command of it: two bare clusters, and a job that runs on the second."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import binaries
from tests.controlplane.conftest import NEEDED, StartControlPlane, require
from tests.controlplane.installed import leader
from tests.controlplane.nodes import ENDLESS, add_nodes
from tests.integration.install_page import (
    NAMES,
    assert_it_runs_on_the_worker,
    environment_with,
    installed_settings,
    merge,
    run_page,
)

SECTIONS = ("integrations", "leaderElection", "multiKueue")


@pytest.mark.timeout(300)
def test_a_job_runs_on_a_worker_after_the_steps_of_the_page(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    require(*NEEDED, "kwok", "kube-scheduler")
    planes = {name: start_control_plane(name) for name in NAMES}
    for name, plane in planes.items():
        add_nodes(plane, [make_cpu_node(f"{name}-node")], stages=ENDLESS)
    merge({name: plane.kubeconfig for name, plane in planes.items()}, tmp_path / "kubeconfig")

    @contextlib.contextmanager
    def start(name: str) -> Iterator[None]:
        """Run the program: kwok calls the pods ready, and nobody runs their image."""
        plane = planes[name]
        settings = installed_settings(plane.kubectl, SECTIONS)
        with leader(plane, tmp_path / f"program-{name}", **settings):
            yield

    (tmp_path / "clone").mkdir()
    environment = environment_with(tmp_path / "kubeconfig", binaries.get("kubectl").parent)
    with run_page(tmp_path / "clone", environment, start):
        assert_it_runs_on_the_worker({name: plane.kubectl for name, plane in planes.items()})


def make_cpu_node(name: str) -> dict[str, Any]:
    """A node as a bare cluster has it: no GPU, no taint."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    fake = {"kwok.x-k8s.io/node": "fake"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": fake}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
