"""Upstream Kueue beside ours, on a real control plane: as a worker, and as the reference.

It keeps its certificates in a Secret and expects them mounted; here they are copied. Its webhooks
are registered where they are asked for; without them its kinds are asked for in v1beta2 only, as
they are stored, so nothing has to be converted.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.controlplane import binaries
from tests.controlplane.plane import HOST, STOP_SECONDS, RealControlPlane
from tests.controlplane.ports import find_own_ports
from tests.controlplane.upstream_webhooks import NAMESPACE, register_webhooks

READY_SECONDS = 60
SECRET = "kueue-webhook-server-cert"
NO_WEBHOOKS = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": f"kueue-{kind.lower()}-webhook-configuration"},
        "webhooks": [],
    }
    for kind in ("Mutating", "Validating")
]
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: {host}:{health}
metrics:
  bindAddress: "0"
webhook:
  host: {host}
  port: {webhook}
  certDir: {certificates}
leaderElection:
  leaderElect: false
clientConnection:
  qps: 1000
  burst: 1000
integrations:
  frameworks: [batch/job]
featureGates:
  VisibilityOnDemand: false
"""


def install_upstream(plane: RealControlPlane) -> None:
    """Serve upstream's kinds, as its module ships them, and what else its manager looks for."""
    sources = binaries.module_folder("kueue", "sigs.k8s.io/kueue")
    definitions = sources / "config" / "components" / "crd"
    plane.kubectl("apply", "--server-side", "-k", str(definitions))
    plane.wait_until_served()
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("create", "secret", "generic", SECRET, f"--namespace={NAMESPACE}")
    for configuration in NO_WEBHOOKS:
        plane.kubectl("create", "-f", "-", stdin=json.dumps(configuration))


@contextlib.contextmanager
def running_kueue(
    plane: RealControlPlane,
    folder: Path,
    *,
    more: str = "",
    webhooks: bool = False,
    program: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run upstream's manager on a control plane where it is installed.

    Args:
        plane: Where it works.
        folder: Where its configuration, certificates and log go.
        more: Sections of its Configuration that are added or replaced, YAML.
        webhooks: Register its webhooks, too.
        program: Another one than that of its release.

    Raises:
        TimeoutError: It does not become ready; the message has the end of its log.
    """
    certificates = folder / "certificates"
    certificates.mkdir(parents=True)
    health, webhook = find_own_ports(2)
    if webhooks:
        register_webhooks(plane, webhook)
    config = folder / "kueue.yaml"
    settings = CONFIGURATION.format(
        host=HOST, health=health, webhook=webhook, certificates=certificates
    )
    config.write_text(yaml.safe_dump(yaml.safe_load(settings) | (yaml.safe_load(more) or {})))
    log = folder / "kueue.log"
    program = program or binaries.get("kueue")
    command = [str(program), f"--config={config}", f"--kubeconfig={plane.kubeconfig}"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not _is_ready(f"http://{HOST}:{health}/readyz"):
            if time.monotonic() > deadline or process.poll() is not None:
                text = log.read_text(errors="replace")[-3000:]
                raise TimeoutError(f"kueue is not ready:\n{text}")
            _mount(plane, certificates)
            time.sleep(0.5)
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        process.kill()
        process.wait(STOP_SECONDS)


def _mount(plane: RealControlPlane, folder: Path) -> None:
    """Copy the Secret's content, as a kubelet would mount it: each file is whole from the start.

    It looks for the certificate, and then reads the key, too.
    """
    secret = plane.kubectl("get", "secret", SECRET, f"--namespace={NAMESPACE}", "-o", "json")
    data = json.loads(secret).get("data") or {}
    for name in sorted(data, key=lambda name: name == "tls.crt"):
        unfinished = folder / f".{name}"
        unfinished.write_bytes(base64.b64decode(data[name]))
        unfinished.rename(folder / name)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
