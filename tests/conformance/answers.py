"""Ask a control plane with our manager's webhooks what it says to the recorded objects."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from multiqueue.serving.free_ports import find_free_ports
from tests.processes import running, wait_for_text

HERE = Path(__file__).parent
RECORDINGS = HERE / "data" / "api"
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection:
  leaderElect: false
metrics:
  bindAddress: "0"
health:
  healthProbeBindAddress: "0"
webhook:
  host: 127.0.0.1
  port: {port}
"""
PROBES = frozenset(
    {
        "v1beta2/ClusterQueue/spec/namespaceSelector/matchLabels/team:long",
        "v1beta1/ClusterQueue/valid",
    }
)
"""What only a webhook refuses, and what only the conversion answers."""
REGISTERED_SECONDS = 30
ENOUGH = 0.95
"""Of the refusals that the reference gives for a field, so many name the same one."""


def assert_answers_as_recorded(tmp_path: Path, kubeconfig: str) -> None:
    """Start a manager with webhooks and ask the 769 objects, in both versions."""
    config, log = tmp_path / "config.yaml", tmp_path / "manager.log"
    (port,) = find_free_ports(1)
    config.write_text(CONFIGURATION.format(port=port))
    arguments = ("run", "--config", str(config), "--kubeconfig", kubeconfig, "--log-format=json")
    with running(*arguments, log=log) as manager:
        wait_for_text(manager, log, r'"event":"ready"')
        _wait_until_registered(tmp_path / "probe.json", kubeconfig)
        answers = _ask(kubeconfig, RECORDINGS / "cases.json")
    sys.stdout.write(answers.stdout)
    assert answers.returncode == 0, answers.stdout + answers.stderr
    named = re.search(r"names: (\d+)/(\d+)", answers.stdout)
    assert named is not None
    assert int(named.group(1)) >= ENOUGH * int(named.group(2))


def _wait_until_registered(probe: Path, kubeconfig: str) -> None:
    """A server learns of webhooks in the background: ask until they judge and convert."""
    cases = json.loads((RECORDINGS / "cases.json").read_text())
    probe.write_text(json.dumps([case for case in cases if case["case"] in PROBES]))
    deadline = time.monotonic() + REGISTERED_SECONDS
    while (answers := _ask(kubeconfig, probe)).returncode != 0:
        assert time.monotonic() < deadline, answers.stdout + answers.stderr
        time.sleep(0.2)


def _ask(kubeconfig: str, cases: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            str(HERE / "api.py"),
            *("--kubeconfig", kubeconfig),
            *("--deviations", str(RECORDINGS / "deviations.json")),
            str(cases),
            str(RECORDINGS / "answers.json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
