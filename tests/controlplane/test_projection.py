"""A worker that runs upstream Kueue, from its administrator's kubeconfig to a job's way there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multiqueue.cli.main import main
from tests.controlplane.conftest import NEEDED, StartControlPlane, require
from tests.controlplane.installed import CONFIG, NAMESPACE, install, leader
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.controlplane.upstream import install_upstream, running_kueue
from tests.e2e.objects import make_job

pytestmark = pytest.mark.timeout(300)
WORKER = "worker-h100"
FLEET = f"""
apiVersion: config.multiqueue.dev/v1alpha1
kind: FleetConfiguration
workers:
- name: {WORKER}
  flavors:
  - name: h100
    spec:
      tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]
  clusterQueues:
  - name: {WORKER}
    spec:
      resourceGroups:
      - coveredResources: [cpu, memory, nvidia.com/gpu]
        flavors:
        - name: h100
          resources:
          - {{name: cpu, nominalQuota: 192}}
          - {{name: memory, nominalQuota: 2048Gi}}
          - {{name: nvidia.com/gpu, nominalQuota: 4}}
"""
SAMPLES = ("1-namespaces", "2-flavors", "3-priorities", "4-multikueue", "5-queues")


class FleetShell:
    """The command line of an administrator of both clusters."""

    def __init__(
        self,
        manager: RealControlPlane,
        worker: RealControlPlane,
        output: pytest.CaptureFixture[str],
    ) -> None:
        self._manager = str(manager.kubeconfig)
        self._worker = str(worker.kubeconfig)
        self._output = output

    def run(self, command: str, *arguments: str, way: bool = True, code: int = 0) -> str:
        named = f"{WORKER}={self._worker}" if command != "bootstrap" else self._worker
        ways = ["--worker-kubeconfig", named] if way else []
        options = [*ways, "--kubeconfig", self._manager, *arguments]
        self._output.readouterr()
        got = main(["clusters", command, *options])
        printed = self._output.readouterr()
        assert got == code, printed
        return printed.out

    def verify(self, fleet: Path, code: int = 0) -> list[tuple[str, str, str]]:
        out = self.run("verify", WORKER, "-f", str(fleet), "-o", "json", way=False, code=code)
        (report,) = json.loads(out)
        return [(d["reason"], d["kind"], d["name"]) for d in report["drift"]]


def admitted_on(manager: RealControlPlane) -> str:
    path = "jsonpath={.items[*].status.clusterName}"
    return manager.kubectl("get", "workloads", "-n", "training", "-o", path)


def test_upstream_kueue_becomes_a_worker_and_stays_in_step(
    start_control_plane: StartControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require(*NEEDED, "kueue")
    manager, worker = start_control_plane("manager"), start_control_plane("worker")
    install(manager)
    install_upstream(worker)
    for name in SAMPLES:
        manager.kubectl("apply", "-f", str(CONFIG / "samples" / f"{name}.yaml"))
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    shell = FleetShell(manager, worker, capsys)
    with running_kueue(worker, tmp_path / "kueue"), leader(manager, tmp_path / "program"):
        told = shell.run("bootstrap", WORKER)
        assert told.rstrip().endswith(f"{WORKER}: Active")
        assert ("Missing", "LocalQueue", "training") in shell.verify(fleet, code=1)
        shell.run("sync", WORKER, "-f", str(fleet))
        assert shell.verify(fleet) == []
        out = shell.run("sync", WORKER, "-f", str(fleet))
        assert out == f"{WORKER}:\n  11 in step\n"

        job = make_job("train", queue="training")
        # On the manager an A100 comes first, and this worker has none.
        job["spec"]["template"]["spec"]["nodeSelector"] = {"cloud.provider.com/accelerator": "h100"}
        manager.kubectl("create", "-f", "-", stdin=json.dumps(job))
        until(lambda: admitted_on(manager) == WORKER, "job on the worker")
        assert_somebody_else_s_field_is_a_conflict(shell, worker, fleet)
        shell.run("bootstrap", WORKER, "--rotate")
        told = shell.run("bootstrap", WORKER, "--rotate", "--long-lived")
        assert "the token has no end of its own" in told
        assert shell.verify(fleet) == []
        assert admitted_on(manager) == WORKER
        anchors = worker.kubectl("get", "secrets", "-n", NAMESPACE, "-o", "name").split()
        assert len([name for name in anchors if "multikueue-manager-" in name]) == 2


def assert_somebody_else_s_field_is_a_conflict(
    shell: FleetShell, worker: RealControlPlane, fleet: Path
) -> None:
    value = '{"value": 7}'
    worker.kubectl("patch", "workloadpriorityclass", "batch-training", "--type=merge", "-p", value)
    assert shell.verify(fleet, code=1) == [("Differs", "WorkloadPriorityClass", "batch-training")]
    told = shell.run("sync", WORKER, "-f", str(fleet), code=1)
    assert "workloadpriorityclass/batch-training conflict: Apply failed with 1 conflict" in told
    shell.run("sync", WORKER, "-f", str(fleet), "--force")
    assert shell.verify(fleet) == []
