"""The table of job kinds that users put a queue label on, queued or not.

A kind whose framework is in `SUPPORTED_FRAMEWORKS` is queued. An object of any other kind runs at
once, outside of every quota, whatever queue its label names. The webhook, the linter, the CLI and
the check of the configuration warn by this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

SUPPORTED_FRAMEWORKS = frozenset({"batch/job"})
"""Frameworks with an integration (`multiqueue.jobs.setup`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind that users put a queue label on.

    Attributes:
        framework: The kind's name in ``integrations.frameworks``; empty if upstream has none.
        template: Field of the template of Jobs that the kind makes; those Jobs are queued if their
            label names a queue.
        is_service: Whether an object of the kind runs until it is deleted.
    """

    kind: str
    group: str
    version: str
    plural: str
    framework: str = ""
    template: str = ""
    is_service: bool = False

    @property
    def is_queued(self) -> bool:
        """Whether there is an integration for this kind."""
        return self.framework in SUPPORTED_FRAMEWORKS


def _row(name: str, kind: str, api_version: str, **more: Any) -> JobKind:
    group, _, version = api_version.rpartition("/")
    plural = f"{kind.lower()}s"
    return JobKind(framework=name, kind=kind, group=group, version=version, plural=plural, **more)


_SPARK, _TRAINER = "sparkoperator.k8s.io", "trainer.kubeflow.org"
_LEADER_WORKER, _CODEFLARE = "leaderworkerset.x-k8s.io", "workload.codeflare.dev"
JOB_KINDS: tuple[JobKind, ...] = (
    _row("batch/job", "Job", "batch/v1"),
    _row("pod", "Pod", "v1"),
    _row("", "CronJob", "batch/v1", template="spec.jobTemplate"),
    _row("deployment", "Deployment", "apps/v1", is_service=True),
    _row("statefulset", "StatefulSet", "apps/v1", is_service=True),
    _row("jobset.x-k8s.io/jobset", "JobSet", "jobset.x-k8s.io/v1alpha2"),
    _row("kubeflow.org/jaxjob", "JAXJob", "kubeflow.org/v1"),
    _row("kubeflow.org/mpijob", "MPIJob", "kubeflow.org/v2beta1"),
    _row("kubeflow.org/paddlejob", "PaddleJob", "kubeflow.org/v1"),
    _row("kubeflow.org/pytorchjob", "PyTorchJob", "kubeflow.org/v1"),
    _row("kubeflow.org/tfjob", "TFJob", "kubeflow.org/v1"),
    _row("kubeflow.org/xgboostjob", "XGBoostJob", "kubeflow.org/v1"),
    _row(
        f"{_LEADER_WORKER}/leaderworkerset",
        "LeaderWorkerSet",
        f"{_LEADER_WORKER}/v1",
        is_service=True,
    ),
    _row("ray.io/raycluster", "RayCluster", "ray.io/v1"),
    _row("ray.io/rayjob", "RayJob", "ray.io/v1"),
    _row("ray.io/rayservice", "RayService", "ray.io/v1", is_service=True),
    _row(f"{_SPARK}/sparkapplication", "SparkApplication", f"{_SPARK}/v1beta2"),
    _row(f"{_TRAINER}/trainjob", "TrainJob", f"{_TRAINER}/v1alpha1"),
    _row(f"{_CODEFLARE}/appwrapper", "AppWrapper", f"{_CODEFLARE}/v1beta2"),
)
UNSUPPORTED: Sequence[JobKind] = tuple(each for each in JOB_KINDS if not each.is_queued)
KNOWN_FRAMEWORKS = frozenset(each.framework for each in JOB_KINDS if each.framework)
"""Upstream's frameworks. Unsupported ones may be named, as upstream's own files do: on a cluster
without such a kind, upstream ignores them too. Deviates: on a cluster with such a kind, its jobs
are not queued, and there is a warning.
"""
_BY_NAME: Mapping[tuple[str, str], JobKind] = MappingProxyType(
    {(each.group, each.kind): each for each in JOB_KINDS}
)


def find_job_kind(api_version: str, kind: str) -> JobKind | None:
    """Return the row of a kind, for any version of it."""
    group = api_version.rpartition("/")[0]
    return _BY_NAME.get((group, kind))
