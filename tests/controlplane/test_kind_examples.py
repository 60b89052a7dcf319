"""The first example of each kind's own documentation, submitted on a manager, runs on a worker.

Each goes to a worker that runs this program, and to one that runs upstream Kueue. Kubernetes'
controllers run what they know. For the other kinds the test plays the controller on the worker: it
writes the status of the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiqueue.api import names
from tests.controlplane import kinds
from tests.controlplane.asking import read_documents
from tests.controlplane.audit import created, refused
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.fleet import OURS, UPSTREAM, Fleet, running_mixed_fleet
from tests.controlplane.kind_examples import ALL, FOLDER, INSTALLED, QUEUE, Example, Status
from tests.controlplane.nodes import as_list
from tests.controlplane.plane import RealControlPlane
from tests.controlplane.polling import until
from tests.e2e.checks import wait_until_active
from tests.e2e.objects import GPU, make_worker

LOCAL, FLAVOR = "local", "any"
"""The ClusterQueue of each worker, and the flavor of all queues."""
ADMITTED = """--for=jsonpath={.status.conditions[?(@.type=="Admitted")].status}=True"""
"""`--for=condition` waits for a condition that is newer than the spec, which upstream writes anew
after it admitted a copy."""
ROOM = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}


MISSING = kinds.find_missing()
SERVED = [
    example for example in ALL if not kinds.find_crds(read_documents(Path(example.file))) & MISSING
]
"""Those whose definitions are on this machine."""
DISPATCHED = [example for example in ALL if example.runs_on_workers]
EVICTED = """jsonpath={.items[*].status.conditions[?(@.type=="Evicted")].message}"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A manager and two workers that have the kinds; the manager has a queue to each worker."""
    require(*NEEDED, "kube-scheduler", "kwok", "kueue")
    documents = [read_documents(Path(example.file)) for example in SERVED]
    # Upstream ends if a kind that an integration watches beside its own is not served.
    crds = set(kinds.CRDS) - MISSING if kinds.find_crds(documents) else set()
    with running_mixed_fleet(tmp_path_factory.mktemp("examples"), crds) as started:
        for worker, plane in started.workers.items():
            create(started.manager, *make_queue_to(worker))
            create(plane, make_flavor(), make_queue(LOCAL))
        create(started.manager, make_flavor())
        for plane in (started.manager, *started.workers.values()) if crds else ():
            plane.kubectl("apply", "-f", str(INSTALLED))
        with started.running(**kinds.settings_for(crds, kinds.OUR_GATES)):
            wait_until_active(started.manager)
            yield started
        for plane, user in started.callers():
            assert refused(plane, user) == []


@pytest.mark.timeout(180)
def test_each_example_is_valid(tmp_path: Path) -> None:
    require(*NEEDED)
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {example.name for example in ALL}
    with RealControlPlane(tmp_path, controllers=False) as plane:
        kinds.install(plane, set(kinds.CRDS) - MISSING)
        files = [f"--filename={example.file}" for example in SERVED]
        plane.kubectl("apply", "--dry-run=server", "--validate=strict", *files)


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("worker", [OURS, UPSTREAM])
@pytest.mark.parametrize("example", DISPATCHED, ids=lambda example: example.name)
def test_an_example_runs_on_a_worker(fleet: Fleet, example: Example, worker: str) -> None:
    if example not in SERVED:
        pytest.skip(f"the definitions of {example.framework} are not on this machine")
    if worker == UPSTREAM and not example.upstream_takes_it:
        pytest.skip(f"upstream Kueue refuses copies of {example.framework}")
    manager, plane = fleet.manager, fleet.workers[worker]
    team = f"{example.name}-{worker}"
    where = f"--namespace={team}"
    for cluster, queue in ((manager, worker), (plane, LOCAL)):
        create(cluster, *make_team(team, queue))
    manager.kubectl("apply", where, "-f", example.file)
    if example.start:
        manager.kubectl(*example.start, where)

    until(lambda: plane.kubectl("get", "workloads", where, "-o=name"), f"Workload on {worker}")
    plane.kubectl("wait", ADMITTED, "workloads", "--all", where, "--timeout=60s")
    copies = example.jobs if example.is_copied else ()
    if worker == OURS:
        copies += example.more_copies
    for job in copies:
        plane.kubectl("wait", job, where, "--for=create", "--timeout=60s")
        until(lambda job=job: has_started(plane, job, where), f"start of {job} on {worker}")
    write_status(plane, example, example.running, where)
    shown = manager if example.is_synced else plane
    condition = f"--for=jsonpath={example.shows}", "--timeout=60s"
    shown.kubectl("wait", example.jobs[0], where, *condition)

    write_status(plane, example, example.ended, where)
    if not example.is_service:
        finished = "--for=condition=Finished", "--timeout=60s"
        manager.kubectl("wait", "workloads", "--all", where, *finished)
    manager.kubectl("delete", where, "-f", example.file, "--timeout=60s")
    resources = {"workloads", "pods", *(job.partition("/")[0] for job in example.jobs)}
    wanted = ",".join(sorted(resources))
    until(lambda: not plane.kubectl("get", wanted, where, "-o=name"), f"nothing left on {worker}")
    for job in copies:
        assert count_creations(fleet, job, team) == {worker: 1}


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "example",
    [example for example in ALL if not example.runs_on_workers],
    ids=lambda example: example.name,
)
def test_an_example_that_cannot_run_on_workers_is_refused(fleet: Fleet, example: Example) -> None:
    if example not in SERVED:
        pytest.skip(f"the definitions of {example.framework} are not on this machine")
    team = f"{example.name}-refused"
    where = f"--namespace={team}"
    for cluster, queue in ((fleet.manager, OURS), (fleet.workers[OURS], LOCAL)):
        create(cluster, *make_team(team, queue))
    fleet.manager.kubectl("apply", where, "-f", example.file)

    def read_message() -> str:
        return fleet.manager.kubectl("get", "workloads", where, f"-o={EVICTED}")

    until(lambda: "MultiKueue cannot run jobs of" in read_message(), "a refusal")
    job = json.loads(fleet.manager.kubectl("get", example.jobs[0], where, "--output=json"))
    assert job["spec"]["suspend"] is True
    fleet.manager.kubectl("delete", where, "-f", example.file, "--timeout=60s")


def has_started(plane: RealControlPlane, job: str, where: str) -> bool:
    """Whether nothing holds the job, wherever its kind says so."""
    spec = json.loads(plane.kubectl("get", job, where, "--output=json"))["spec"]
    places = (spec, spec.get("runPolicy", {}), spec.get("rayClusterConfig", {}))
    return not (any(place.get("suspend") for place in places) or spec.get("schedulingGates"))


def write_status(plane: RealControlPlane, example: Example, status: Status, where: str) -> None:
    """Play the controller of the example's jobs; an empty status is left to a real one."""
    patch = json.dumps({"status": status})
    for job in example.jobs if status else ():
        plane.kubectl("patch", job, where, "--subresource=status", "--type=merge", f"-p={patch}")


def count_creations(fleet: Fleet, job: str, namespace: str) -> dict[str, int]:
    """Return how often each worker was given this job."""
    resource, _, name = job.partition("/")
    made = {
        worker: [
            obj["metadata"]["name"] for obj in created(plane, resource.partition(".")[0], namespace)
        ]
        for worker, plane in fleet.workers.items()
    }
    return {worker: each.count(name) for worker, each in made.items() if name in each}


def create(plane: RealControlPlane, *objects: dict[str, Any]) -> None:
    """Create objects of an administrator."""
    plane.kubectl("create", "-f", "-", stdin=json.dumps(as_list(objects)))


def make_queue_to(worker: str) -> list[dict[str, Any]]:
    """Return a ClusterQueue of the manager whose jobs go to this worker."""
    parameters = {"apiGroup": names.GROUP, "kind": "MultiKueueConfig", "name": worker}
    check = {"controllerName": names.MULTIKUEUE_CONTROLLER, "parameters": parameters}
    return [
        make_worker(worker),
        make_kueue("MultiKueueConfig", worker, {"clusters": [worker]}),
        make_kueue("AdmissionCheck", worker, check),
        make_queue(worker, admissionChecksStrategy={"admissionChecks": [{"name": worker}]}),
    ]


def make_queue(name: str, **spec: Any) -> dict[str, Any]:
    """Return a ClusterQueue with room for all examples."""
    resources = [{"name": each, "nominalQuota": amount} for each, amount in ROOM.items()]
    flavors = [{"name": FLAVOR, "resources": resources}]
    group = {"coveredResources": list(ROOM), "flavors": flavors}
    return make_kueue(
        "ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    )


def make_flavor() -> dict[str, Any]:
    """Return a flavor whose pods run on nodes with GPUs: there are no others."""
    toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    return make_kueue("ResourceFlavor", FLAVOR, {"tolerations": [toleration]})


def make_team(name: str, queue: str) -> list[dict[str, Any]]:
    """Return a namespace, and the LocalQueue that the examples name."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    local_queue = make_kueue("LocalQueue", QUEUE, {"clusterQueue": queue})
    local_queue["metadata"]["namespace"] = name
    return [namespace, local_queue]


def make_kueue(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return an object of Kueue's group."""
    return {"apiVersion": names.V1BETA2, "kind": kind, "metadata": {"name": name}, "spec": spec}
