"""The samples of JobKinds with the definitions of their own projects, on a real control plane.

Their controllers do not run here: this test writes what they would write into the status.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.controlplane import kinds
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.installed import CONFIG, install, leader
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.unit.jobs.test_declared import (
    RUN,
    SERVICE,
    SERVING,
    STOPPED,
    WORKFLOW,
    condition,
    nodes,
)

pytestmark = pytest.mark.timeout(300)
SAMPLES = CONFIG / "samples-jobkinds"
STOP = "serving.kserve.io/stop"
DEFINITIONS = [name for source in kinds.DECLARED for name in source.names]


def apply(plane: RealControlPlane, *objects: dict[str, Any]) -> None:
    for obj in objects:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(obj))


def read(plane: RealControlPlane, *what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        plane.kubectl("get", *what, f"--namespace={NAMESPACE}", "--output=json")
    )
    return found


def reason(plane: RealControlPlane, name: str, type_: str) -> str:
    conditions = (
        read(plane, "jobkinds.multiqueue.dev", name).get("status", {}).get("conditions", ())
    )
    return next((each["reason"] for each in conditions if each["type"] == type_), "")


def workload_of(plane: RealControlPlane, kind: str) -> dict[str, Any]:
    listed = read(plane, "workloads.kueue.x-k8s.io")["items"]
    found: dict[str, Any] = next(
        (w for w in listed if w["metadata"]["ownerReferences"][0]["kind"] == kind), {}
    )
    return found


def has(workload: dict[str, Any], type_: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    """A control plane with the definitions and both JobKinds, and a manager that leads there."""
    require(*NEEDED)
    if missing := kinds.find_missing(DEFINITIONS):
        pytest.skip(f"no definitions of {missing} here: run `make controlplane`")
    folder = tmp_path_factory.mktemp("declared")
    with RealControlPlane(folder / "plane") as plane:
        kinds.install(plane, DEFINITIONS)
        install(plane)
        apply(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        with leader(plane, folder / "manager"):
            yield plane


@pytest.mark.parametrize(
    ("file", "job", "resource", "running", "idle", "done"),
    [
        (
            "argo-workflow.yaml",
            WORKFLOW,
            "workflows.argoproj.io",
            nodes("Running"),
            nodes("Succeeded"),
            {"phase": "Succeeded"},
        ),
        (
            "tekton-pipelinerun.yaml",
            RUN,
            "pipelineruns.tekton.dev",
            condition("Unknown", "Running"),
            None,
            condition("False", "Cancelled"),
        ),
        (
            "kserve-inferenceservice.yaml",
            SERVICE,
            "inferenceservices.serving.kserve.io",
            SERVING,
            STOPPED,
            None,
        ),
    ],
    ids=["Argo Workflow", "Tekton PipelineRun", "KServe InferenceService"],
)
def test_an_object_is_queued_started_stopped_and_ends(
    plane: RealControlPlane,
    file: str,
    job: dict[str, Any],
    resource: str,
    running: dict[str, Any],
    idle: dict[str, Any] | None,
    done: dict[str, Any] | None,
) -> None:
    sample = yaml.safe_load((SAMPLES / file).read_text())
    name, kind = sample["metadata"]["name"], job["kind"]
    subresource = [] if kind == "Workflow" else ["--subresource=status"]

    def now() -> dict[str, Any]:
        return read(plane, resource, "hello")

    def content() -> tuple[Any, Any]:
        found = now()
        return found["spec"], found["metadata"].get("annotations", {}).get(STOP)

    def report(status: dict[str, Any]) -> None:
        patch = json.dumps({"status": status})
        arguments = (resource, "hello", f"--namespace={NAMESPACE}", f"--patch={patch}")
        plane.kubectl("patch", *arguments, "--type=merge", *subresource)

    plane.kubectl("apply", "-f", str(SAMPLES / file))
    until(lambda: reason(plane, name, "Active") == "RightMissing", "a missing right")
    command = [sys.executable, "-m", "multiqueue", "jobkind", "role", str(SAMPLES / file)]
    roles = subprocess.run(command, check=True, capture_output=True, text=True)
    plane.kubectl("apply", "-f", "-", stdin=roles.stdout)
    until(lambda: reason(plane, name, "Active") == "Queued", "a queued kind")

    # Without its queue, the object waits until it was read.
    queue = ("localqueues.kueue.x-k8s.io", "lq", f"--namespace={NAMESPACE}")
    plane.kubectl("delete", *queue, "--ignore-not-found")
    submitted = copy.deepcopy(job)
    submitted["metadata"] |= {
        "namespace": NAMESPACE,
        "labels": {"kueue.x-k8s.io/queue-name": "lq"},
    }
    apply(plane, submitted)
    until(lambda: workload_of(plane, kind), "its Workload")
    waiting = content()
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "default"},
        "spec": {"nodeLabels": {"pool": "a"}},
    }
    apply(plane, flavor, make_cluster_queue(), make_local_queue())
    until(lambda: has(workload_of(plane, kind), "Admitted"), "its admission")
    until(lambda: '"pool": "a"' in json.dumps(now()["spec"]), "its start")
    report(running)

    workload = workload_of(plane, kind)["metadata"]["name"]
    arguments = ("workloads.kueue.x-k8s.io", workload, f"--namespace={NAMESPACE}")
    plane.kubectl("patch", *arguments, "--type=merge", '--patch={"spec":{"active":false}}')
    if idle is None:
        until(lambda: now()["spec"].get("status") == "Cancelled", "its cancellation")
    else:
        until(lambda: content() == waiting, "the spec that it had while it waited")
        report(idle)
    until(lambda: not has(workload_of(plane, kind), "QuotaReserved") or idle is None, "its quota")
    if done is None:
        plane.kubectl("delete", resource, "hello", f"--namespace={NAMESPACE}")
        until(lambda: not workload_of(plane, kind), "its end")
        return
    report(done)
    until(lambda: has(workload_of(plane, kind), "Finished"), "its end")
