"""docs/install.md on two embedded clusters; tests/controlplane has the same on real ones.

A simulated Deployment says nothing of a rollout, so the commands that wait for one are left out.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.install_steps import DEFINITION
from tests.integration.install_page import (
    NAMES,
    ROLLOUT,
    Kubectl,
    assert_it_runs_on_the_worker,
    environment_with,
    installed_settings,
    kubectl_of,
    merge,
    run_page,
)
from tests.processes import running, wait_for_text

KUBECTL = shutil.which("kubectl")
SECTIONS = ("integrations", "leaderElection", "multiKueue")
ELSEWHERE = {
    "health": {"healthProbeBindAddress": "127.0.0.1:0"},
    "metrics": {"bindAddress": "0"},
    "webhook": {"host": "127.0.0.1", "port": 0},
    "featureGates": {"VisibilityOnDemand": False},
}
"""Of a manager that runs beside the cluster, as often as there are tests."""

pytestmark = [pytest.mark.programs, pytest.mark.kubectl, pytest.mark.timeout(300)]


def test_a_job_runs_on_a_worker_after_the_steps_of_the_page(tmp_path: Path) -> None:
    if KUBECTL is None:
        assert not os.environ.get("CI"), "kubectl is required on CI"
        pytest.skip("no kubectl in PATH")
    with contextlib.ExitStack() as stack:
        paths = {name: tmp_path / f"{name}.kubeconfig" for name in NAMES}
        for name, path in paths.items():
            stack.enter_context(embedded_cluster(path, tmp_path / f"{name}.log"))
        kubectls = {name: kubectl_of(path, KUBECTL) for name, path in paths.items()}
        for kubectl in kubectls.values():
            serve_network_policies(kubectl)
        merge(paths, tmp_path / "kubeconfig")

        @contextlib.contextmanager
        def start(name: str) -> Iterator[None]:
            settings = installed_settings(kubectls[name], SECTIONS)
            config, log = tmp_path / f"{name}.yaml", tmp_path / f"{name}-manager.log"
            kind = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
            config.write_text(yaml.safe_dump(kind | settings | ELSEWHERE))
            command = ("run", "--config", str(config), "--kubeconfig", str(paths[name]))
            with running(*command, "--log-format=json", log=log) as process:
                wait_for_text(process, log, r'"event":"ready"')
                yield

        (tmp_path / "clone").mkdir()
        environment = environment_with(tmp_path / "kubeconfig")
        with run_page(tmp_path / "clone", environment, start, without=ROLLOUT):
            assert_it_runs_on_the_worker(kubectls)


@contextlib.contextmanager
def embedded_cluster(kubeconfig: Path, log: Path) -> Iterator[None]:
    """A cluster with a simulated node that has no GPU; its pods run for 100 s, not 5."""
    options = ("--nodes", "cpu", "--speed", "0.05", "--kubeconfig", str(kubeconfig))
    with running("apiserver", *options, log=log) as process:
        wait_for_text(process, log, "export KUBECONFIG=")
        yield


def serve_network_policies(kubectl: Kubectl) -> None:
    """The embedded server has none of its own."""
    definition = DEFINITION
    for word, value in (
        ("PLURAL", "networkpolicies"),
        ("GROUP", "networking.k8s.io"),
        ("KIND", "NetworkPolicy"),
    ):
        definition = definition.replace(word, value)
    kubectl("apply", "-f", "-", stdin=definition)
    kubectl("wait", "--for=condition=Established", "crd/networkpolicies.networking.k8s.io")
