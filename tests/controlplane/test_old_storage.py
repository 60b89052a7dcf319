"""Behind its Service, over objects that an older Kueue stored in v1beta1."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.crd import load_crds
from multiqueue.api.names import GROUP
from tests.controlplane import binaries
from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.installed import CONFIG, NAMESPACE, install, manager
from tests.controlplane.plane import HOST, RealControlPlane
from tests.controlplane.polling import answers, until
from tests.webhook_world import old_queue

SERVICE = "kueue-webhook-service"
PRIORITY = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "old"},
    "value": 1,
}


def own_address() -> str:
    """An address of this machine: those of pods cannot be loopback ones."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


def endpoint(port: int, *, ready: bool, name: str = SERVICE) -> dict[str, object]:
    """What a cluster says of the Service while a pod is, or is not, ready."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": ready}}],
        # Our Service names its port, that of upstream's chart does not.
        "ports": [
            {"name": name, "port": port, "protocol": "TCP"} for name in ("https-webhook", "")
        ],
    }


def old_storage(plane: RealControlPlane, folder: Path) -> None:
    """Leave an object that is stored in v1beta1 behind."""
    definitions = [crd for crd in load_crds() if crd["spec"]["group"] == GROUP]
    for definition in definitions:
        definition["spec"]["conversion"] = {"strategy": "None"}
        for version in definition["spec"]["versions"]:
            version["storage"] = version["name"] == "v1beta1"
    # The one kind is written again by any manager, the other by none.
    objects = [old_queue("old", cohort="c"), PRIORITY]
    for name, documents in (("crds", definitions), ("objects", objects)):
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        plane.kubectl("apply", "--server-side", "-f", str(file))
        plane.wait_until_served()


@contextmanager
def behind_its_service(
    plane: RealControlPlane, folder: Path, **settings: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a replica as in a pod: nobody is led to it by the Service unless its probe says so."""
    with manager(plane, folder, webhook_host="", **settings) as process:
        config = yaml.safe_load((folder / "config.yaml").read_text())
        probe = f"http://{config['health']['healthProbeBindAddress']}/readyz"
        for ready in (False, True):
            lead_to(plane, folder, config["webhook"]["port"], ready=ready)
            until(lambda: answers(probe), f"200 from {probe}")
        yield process


def lead_to(plane: RealControlPlane, folder: Path, port: int, *, ready: bool) -> None:
    """Let the Service of the webhooks lead to a port of this machine."""
    file = folder / "endpoints.json"
    file.write_text(json.dumps(endpoint(port, ready=ready)))
    plane.kubectl("apply", "-f", str(file))


@pytest.mark.timeout(300)
def test_a_manager_reads_what_only_itself_can_convert(
    start_control_plane: StartControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage of all replicas ends: whoever must convert what it reads is ready before. And
    what is stored in the old version can be removed when nobody converts it any more.
    """
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", HOST)
    # So it looks up endpoints of Services itself; there is no proxy here.
    plane = start_control_plane("plane", extra_arguments=["--enable-aggregator-routing=true"])
    old_storage(plane, tmp_path)
    install(plane)
    for run in ("first", "second"):
        with behind_its_service(plane, tmp_path / run) as process:
            log = tmp_path / run / "log"
            until(lambda at=log: '"event":"ready"' in at.read_text(), "start of the work")
            old = json.loads(plane.kubectl("get", "clusterqueue", "old", "--output=json"))
            assert old["spec"]["cohortName"] == "c"
            process.send_signal(signal.SIGKILL)
    plane.kubectl("delete", "endpointslice", SERVICE, f"--namespace={NAMESPACE}")
    uninstall = [str(CONFIG / "uninstall.sh")]
    command = f"{binaries.get('kubectl')} --kubeconfig {plane.kubeconfig}"
    environment = {**os.environ, "KUBECTL": command}
    subprocess.run(uninstall, env=environment, check=True, capture_output=True, timeout=120)
    assert "kueue.x-k8s.io" not in plane.kubectl("get", "crd", "--output=name")
