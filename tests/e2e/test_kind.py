"""The way to kind, as far as it can be gone without Docker: programs that only note what they are
asked stand for docker, kind and kubectl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.kind import KindCluster, KindFleet

RUN = Path(__file__).parents[2] / "e2e-kind" / "run.sh"
PROGRAM = f"""\
#!{sys.executable}
import base64, json, os, pathlib, sys
name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([name, *arguments]) + "\\n")
for option, value in zip(arguments, arguments[1:]):
    if option in {{"-f", "-k", "--config"}} and value != "-" and "://" not in value:
        assert os.path.exists(value), value
template = {{"spec": {{"volumes": [{{"configMap": {{"name": "c"}}}}]}}}}
config = {{"data": {{"controller_manager_config.yaml": "leaderElection: {{leaderElect: true}}"}}}}
line = " ".join(arguments)
if "get deployment/" in line:
    print(json.dumps({{"spec": {{"template": template}}}}))
elif "get configmap/" in line:
    print(json.dumps(config))
elif "get secret" in line:
    print(base64.b64encode(b"secret").decode())
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with every call of the programs, a JSON list a line."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("docker", "kind", "kubectl"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def read(calls: Path) -> list[list[str]]:
    return [json.loads(line) for line in calls.read_text().splitlines()]


def test_the_script_installs_everything_and_removes_it(calls: Path) -> None:
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "UPSTREAM": "mq-worker-2",
        "STEP": "no step has this name",
    }
    done = subprocess.run([RUN], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = [call for call in read(calls) if call[:3] == ["kind", "create", "cluster"]]
    gone = [call for call in read(calls) if call[:3] == ["kind", "delete", "cluster"]]
    assert len(made) == len(gone) == 3
    applied = {
        (call[2].removeprefix("kind-"), call[-1].rpartition("/")[2])
        for call in read(calls)
        if call[0] == "kubectl" and "apply" in call and call[-2] in {"-f", "-k"}
    }
    assert {each for each in applied if each[1] in {"default", "manifests.yaml"}} == {
        ("mq-manager", "default"),
        ("mq-worker-1", "default"),
        ("mq-worker-2", "manifests.yaml"),
    }
    assert {name for name, what in applied if what == "kwok.yaml"} == {"mq-worker-1", "mq-worker-2"}
    secrets = [call[-2] for call in read(calls) if "generic" in call]
    assert secrets == ["mq-worker-1-kubeconfig", "mq-worker-2-kubeconfig"]


def test_a_program_runs_with_its_settings_and_can_be_killed(calls: Path, tmp_path: Path) -> None:
    manager = KindCluster("mq-manager", tmp_path)
    with KindFleet(manager, {}).running(multiKueue={"workerLostTimeout": "5s"}) as program:
        assert read(calls)[-2][-1] == "--replicas=1"
        program.kill()
        assert "pkill -KILL -f '[m]ultiqueue run'" in read(calls)[-3][-1]
    (begin, end) = (call[-1] for call in read(calls) if "patch" in call)
    assert "workerLostTimeout: 5s" in begin
    assert "workerLostTimeout" not in end


def test_an_outage_ends_with_the_api_server_ready(calls: Path, tmp_path: Path) -> None:
    cluster = KindCluster("mq-worker-1", tmp_path)
    with cluster.outage():
        assert "pkill -KILL -x 'etcd|kube-apiserver'" in read(calls)[-1][-1]
    assert read(calls)[-1][-1] == "--raw=/readyz"
    assert len(cluster.outages) == 1
