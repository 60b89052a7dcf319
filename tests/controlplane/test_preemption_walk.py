"""The walk of docs/preemption.md on a real control plane, command by command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from multiqueue.api.conditions import PREEMPTION_NOTICE
from multiqueue.api.names import CHECKPOINT_BY, LAST_CHECKPOINT
from tests.controlplane import binaries
from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.installed import install, leader, troubles
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.pod_network import pod_network
from tests.controlplane.polling import until
from tests.controlplane.ports import find_own_ports
from tests.integration.page_commands import PageShell, read_blocks

pytestmark = pytest.mark.timeout(240)
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "preemption.md"
SAMPLES = ROOT / "config" / "samples-disruption"
HOOKS = ROOT / "config" / "checkpoint-hooks"
QUIET_SECONDS = 3.0


def test_every_command_of_the_walk_does_what_the_page_says(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    install(plane)
    walk = PAGE.read_text().partition("\n## A walk\n")[2].partition("\n## ")[0]
    commands = [command for block in read_blocks(walk) for command in block.commands]
    assert len(commands) > 15
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "config").symlink_to(ROOT / "config")
    path = os.pathsep.join([str(binaries.get("kubectl").parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)}
    with leader(plane, tmp_path / "manager"):
        wait_for_watches(tmp_path / "manager")
        shell = PageShell(folder, environment)
        try:
            problems = [f"{each.text}\n{found}" for each in commands if (found := shell.run(each))]
        finally:
            shell.close()
    assert not problems, "\n".join(problems)
    assert troubles(tmp_path / "manager") == []


def wait_for_watches(manager: Path) -> None:
    """Wait until the log is quiet: after its conversions are registered, all watches begin anew.

    Before that, the manager may see the queues of a Cohort before the Cohort, which names the
    policy.
    """
    log = manager / "log"
    until(lambda: time.time() - log.stat().st_mtime > QUIET_SECONDS, "watches that go on")


def read(plane: RealControlPlane, *what: str) -> dict[str, Any]:
    got: dict[str, Any] = json.loads(plane.kubectl("get", *what, "-o", "json"))
    return got


def told_pods(plane: RealControlPlane) -> list[str]:
    """By when the pods of the training have to save their work, of those that were told."""
    pods = read(plane, "pods", "-n", "vision")["items"]
    notes = [pod["metadata"].get("annotations", {}) for pod in pods]
    return [each[CHECKPOINT_BY] for each in notes if CHECKPOINT_BY in each]


def notice_ended(plane: RealControlPlane) -> str:
    (workload,) = read(plane, "workloads", "-n", "vision")["items"]
    (found,) = (c for c in workload["status"]["conditions"] if c["type"] == PREEMPTION_NOTICE)
    return str(found["reason"]) if found["status"] == "False" else ""


def trainer_environment(plane: RealControlPlane, folder: Path, by: str) -> dict[str, str]:
    """What the pod of the training has: its annotations, and the token of its service account."""
    folder.mkdir()
    (folder / "annotations").write_text(f'{CHECKPOINT_BY}="{by}"\n')
    (folder / "namespace").write_text("vision")
    (folder / "ca.crt").write_bytes((plane.folder / "ca.crt").read_bytes())
    (folder / "token").write_text(plane.kubectl("create", "token", "trainer", "-n", "vision"))
    server = urlsplit(plane.url)
    return {
        **os.environ,
        "ACCOUNT": str(folder),
        "ANNOTATIONS": str(folder / "annotations"),
        "CHECKPOINT": str(folder / "checkpoint.json"),
        "STEP_SECONDS": "0.01",
        "JOB_NAME": "training",
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }


def test_the_trainer_saves_its_work_when_it_is_told_and_is_stopped_then(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane("plane")
    install(plane)
    with leader(plane, tmp_path / "manager"):
        wait_for_watches(tmp_path / "manager")
        for name in ("1-teams", "2-training"):
            plane.kubectl("apply", "-f", str(SAMPLES / "walk" / f"{name}.yaml"))
        job = "job", "training", "-n", "vision"
        until(lambda: read(plane, *job)["spec"]["suspend"] is False, "the training admitted")
        until(lambda: read(plane, "pods", "-n", "vision")["items"], "its pod")
        plane.kubectl("create", "-f", str(SAMPLES / "walk" / "3-urgent.yaml"))
        until(lambda: told_pods(plane), "a pod that was told")
        environment = trainer_environment(plane, tmp_path / "pod", told_pods(plane)[0])
        with subprocess.Popen(
            [sys.executable, str(SAMPLES / "trainer.py")], env=environment
        ) as run:
            try:
                until(lambda: notice_ended(plane) == "Saved", "the end of the notice")
            finally:
                run.terminate()
        assert run.returncode == 143
        until(lambda: read(plane, *job)["spec"]["suspend"] is True, "the training stopped")
        notes = read(plane, *job)["metadata"]["annotations"]
        assert LAST_CHECKPOINT in notes
        until(lambda: CHECKPOINT_BY not in read(plane, *job)["metadata"]["annotations"], "untold")
    assert troubles(tmp_path / "manager") == []


SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: trainer, namespace: vision}
spec:
  ports: [{name: hook, port: 8080}]
"""
ADDRESS = "192.0.2.10"
RUNNING = {"phase": "Running", "podIPs": [{"ip": ADDRESS}], "podIP": ADDRESS}
ENDPOINTS = """
apiVersion: v1
kind: Endpoints
metadata: {name: trainer, namespace: vision}
subsets:
- addresses: [{ip: ADDRESS, targetRef: {kind: Pod, namespace: vision, name: POD}}]
  ports: [{name: hook, port: 8080}]
"""
"""No node runs the pod, so Kubernetes makes none."""


def failures_of_hook(plane: RealControlPlane) -> str:
    found = read(plane, "events", "-n", "vision", "--field-selector=reason=CheckpointHookFailed")
    return "\n".join(event["message"] for event in found["items"])


def test_a_hook_is_told_through_the_proxy_of_a_real_api_server(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    """First the manager may not, then there is no Service, then the trainer saves its work."""
    (port,) = find_own_ports(1)
    with pod_network({f"{ADDRESS}:8080": port}) as flag:
        plane = start_control_plane("plane", extra_arguments=[flag])
        install(plane)
        with leader(plane, tmp_path / "manager"):
            wait_for_watches(tmp_path / "manager")
            plane.kubectl("apply", "-f", str(SAMPLES / "walk" / "1-teams.yaml"))
            allowed = json.dumps({"spec": {"notice": {"hooks": True}}})
            plane.kubectl("patch", "disruptionpolicy/walk", "--type=merge", "-p", allowed)
            training = (SAMPLES / "walk" / "2-training.yaml").read_text()
            hooked = training.replace(
                "checkpoint-on: Notice",
                "checkpoint-on: Notice\n    multiqueue.dev/checkpoint-hook: trainer:8080/save",
            )
            plane.kubectl("apply", "-f", "-", stdin=hooked)
            job = "job", "training", "-n", "vision"
            until(lambda: read(plane, *job)["spec"]["suspend"] is False, "the training admitted")
            until(lambda: read(plane, "pods", "-n", "vision")["items"], "its pod")
            plane.kubectl("create", "-f", str(SAMPLES / "walk" / "3-urgent.yaml"))
            until(
                lambda: "apply config/checkpoint-hooks" in failures_of_hook(plane),
                "an Event that says which right is missing",
            )
            plane.kubectl("apply", "--server-side", "-k", str(HOOKS))
            until(
                lambda: 'services "trainer" not found' in failures_of_hook(plane),
                "an Event that says that the Service is missing",
            )
            environment = trainer_environment(plane, tmp_path / "pod", told_pods(plane)[0])
            environment |= {"HOOK_ADDRESS": "127.0.0.1", "HOOK_PORT": str(port)}
            Path(environment["ANNOTATIONS"]).unlink()  # only the hook tells it
            with subprocess.Popen(
                [sys.executable, str(SAMPLES / "trainer.py")], env=environment
            ) as run:
                try:
                    (pod,) = read(plane, "pods", "-n", "vision")["items"]
                    name, there = pod["metadata"]["name"], json.dumps({"status": RUNNING})
                    where = "pod", name, "-n", "vision", "--subresource=status"
                    plane.kubectl("patch", *where, "-p", there)
                    plane.kubectl("apply", "-f", "-", stdin=SERVICE)
                    endpoints = ENDPOINTS.replace("ADDRESS", ADDRESS).replace("POD", name)
                    plane.kubectl("apply", "-f", "-", stdin=endpoints)
                    until(lambda: notice_ended(plane) == "Saved", "the end of the notice")
                finally:
                    run.terminate()
            assert run.returncode == 143
            until(lambda: read(plane, *job)["spec"]["suspend"] is True, "the training stopped")
        assert troubles(tmp_path / "manager") == []
