"""The first example of each kind's own documentation, and how the life of its job goes on.

The files in `config/samples-kinds` are written anew, as short as they can be; their queue is QUEUE.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUEUE = "user-queue"
THEN = "2026-01-01T00:00:00Z"
FOLDER = Path(__file__).parents[2] / "config" / "samples-kinds"
INSTALLED = Path(__file__).parent / "installed-kinds"
"""What operators of kinds bring along on every cluster."""
Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A file of `config/samples-kinds`, and the life of the jobs in it."""

    name: str
    framework: str
    jobs: tuple[str, ...]
    """Those in the file, or made from it, as "RESOURCE/NAME"."""
    shows: str
    """What the first of them has while it runs: a JSONPath and its value."""
    running: Status = field(default_factory=dict)
    """What the test writes on the worker when it runs; empty: a controller does."""
    ended: Status = field(default_factory=dict)
    """What the test writes on the worker when it has ended."""
    more_copies: tuple[str, ...] = ()
    """Further copies on a worker of this program, if the worker's job is not one object."""
    is_copied: bool = True
    """Whether the worker gets the job; otherwise it gets only its pods."""
    is_synced: bool = True
    """Whether the manager's job has the status of the copy; Kueue has none for some kinds."""
    runs_on_workers: bool = True
    """Whether its kind has what it takes to be dispatched, here and in upstream."""
    upstream_takes_it: bool = True
    """Whether upstream Kueue accepts a copy; its webhook refuses a Workload made before the job for
    some kinds.
    """
    is_service: bool = False
    """Whether it runs until it is deleted."""
    start: tuple[str, ...] = ()
    """What kubectl is told after the file was applied."""

    @property
    def file(self) -> str:
        """The path of the manifest."""
        return str(FOLDER / f"{self.name}.yaml")


def condition(kind: str, **more: Any) -> Status:
    """Return a status with a condition that is true."""
    true = {"type": kind, "status": "True", "reason": kind, "message": "", **more}
    return {"conditions": [{"lastTransitionTime": THEN, **true}]}


def kubeflow(kind: str, name: str, **more: Any) -> Example:
    """Return the example of one of the kinds that share their status."""
    at = {"lastUpdateTime": THEN}
    replicas = {"replicaStatuses": {"Worker": {"active": 1}}, "startTime": THEN}
    return Example(
        kind,
        f"kubeflow.org/{kind}",
        (f"{kind}s.kubeflow.org/{name}",),
        "{.status.conditions[0].type}=Running",
        running=condition("Running", **at) | replicas,
        ended=condition("Succeeded", **at) | {"completionTime": THEN},
        **more,
    )


READY_CHILD = {"active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}
READY_REPLICAS = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}
ALL = (
    Example("job", "batch/job", ("jobs/pi",), "{.status.succeeded}=1"),
    Example(
        "cronjob",
        "batch/job",
        ("jobs/hello",),
        "{.status.succeeded}=1",
        start=("create", "job", "hello", "--from=cronjob/hello"),
    ),
    Example("pod", "pod", ("pods/nginx",), "{.status.phase}=Running", is_service=True),
    Example(
        "podgroup",
        "pod",
        ("pods/leader", "pods/worker"),
        "{.status.phase}=Running",
        ended={"phase": "Succeeded"},
    ),
    Example(
        "deployment",
        "deployment",
        ("deployments/nginx-deployment",),
        "{.status.readyReplicas}=3",
        is_copied=False,
        is_service=True,
    ),
    Example(
        "statefulset",
        "statefulset",
        ("statefulsets/web",),
        "{.status.readyReplicas}=3",
        is_synced=False,
        is_service=True,
    ),
    Example(
        "leaderworkerset",
        "leaderworkerset.x-k8s.io/leaderworkerset",
        ("leaderworkersets/leaderworkerset-sample",),
        "{.status.readyReplicas}=3",
        running=READY_REPLICAS,
        more_copies=tuple(
            f"leaderworkersets/leaderworkerset-sample-replica-{group}" for group in (1, 2)
        ),
        is_synced=False,
        is_service=True,
    ),
    Example(
        "jobset",
        "jobset.x-k8s.io/jobset",
        ("jobsets/paralleljobs",),
        "{.status.restarts}=1",
        running={"restarts": 1},
        ended=condition("Completed") | {"terminalState": "Completed"},
    ),
    kubeflow("pytorchjob", "pytorch-simple"),
    kubeflow("tfjob", "tfjob-simple"),
    kubeflow("paddlejob", "paddle-simple-cpu"),
    kubeflow("xgboostjob", "xgboost-dist-iris-test"),
    kubeflow("jaxjob", "jaxjob-simple", upstream_takes_it=False),
    kubeflow("mpijob", "pi"),
    Example(
        "trainjob",
        "trainer.kubeflow.org/trainjob",
        ("trainjobs/pytorch-simple",),
        "{.status.jobsStatus[0].ready}=1",
        running={"jobsStatus": [{"name": "node", **READY_CHILD}]},
        ended=condition("Complete"),
    ),
    Example(
        "raycluster",
        "ray.io/raycluster",
        ("rayclusters/raycluster-kuberay",),
        "{.status.state}=ready",
        running={"state": "ready"},
        is_service=True,
    ),
    Example(
        "rayjob",
        "ray.io/rayjob",
        ("rayjobs/rayjob-sample",),
        "{.status.jobStatus}=RUNNING",
        running={"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"},
        ended={"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"},
    ),
    Example(
        "rayservice",
        "ray.io/rayservice",
        ("rayservices/rayservice-sample",),
        "{.status.conditions[0].type}=Ready",
        running=condition("Ready"),
        is_service=True,
    ),
    Example(
        "sparkapplication",
        "sparkoperator.k8s.io/sparkapplication",
        ("sparkapplications/spark-pi",),
        "{.status.applicationState.state}=RUNNING",
        runs_on_workers=False,
    ),
    Example(
        "appwrapper",
        "workload.codeflare.dev/appwrapper",
        ("appwrappers/sample-pytorch-job",),
        "{.status.phase}=Running",
        running={"phase": "Running"},
        ended={"phase": "Succeeded"},
    ),
)
