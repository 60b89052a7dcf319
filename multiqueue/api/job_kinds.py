"""The table of job kinds that users put a queue label on, queued or not.

One line for each kind. A kind with a folder in `multiqueue.jobs` can be queued; all that the
program does for it is derived from its line and from that folder. An object of any other kind runs
at once, outside of every quota, whatever queue its label names. The webhook, the linter, the CLI
and the check of the configuration warn by this table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKind:
    """A kind that users put a queue label on.

    Attributes:
        framework: The kind's name in ``integrations.frameworks``; empty if upstream has none.
        folder: The package in `multiqueue.jobs` with its integration; empty if there is none.
        gate: The feature gate that the kind needs; empty if it needs none.
        implies_pods: Whether the kind runs through its pods, which are queued one by one or in
            groups (J-6).
        groups_pods: Whether its pods are put into groups once they exist; until then they wait.
        template: Field of the template of Jobs that the kind makes; those Jobs are queued if their
            label names a queue.
        is_service: Whether an object of the kind runs until it is deleted.
        is_declared: Whether a JobKind describes the kind.
        problem: Why objects of a declared kind are not queued now; empty if they are.
    """

    kind: str
    group: str
    version: str
    plural: str
    framework: str = ""
    folder: str = ""
    gate: str = ""
    implies_pods: bool = False
    groups_pods: bool = False
    template: str = ""
    is_service: bool = False
    is_declared: bool = False
    problem: str = ""

    @property
    def api_version(self) -> str:
        """``v1`` or ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def external_name(self) -> str:
        """The name of the kind in a list of external frameworks: ``Kind.version.group``."""
        return f"{self.kind}.{self.version}.{self.group}"

    @property
    def is_queued(self) -> bool:
        """Whether there is an integration for this kind."""
        return bool(self.folder) or (self.is_declared and not self.problem)


def _row(name: str, kind: str, api_version: str, **more: Any) -> KnownKind:
    group, _, version = api_version.rpartition("/")
    plural = f"{kind.lower()}s"
    return KnownKind(framework=name, kind=kind, group=group, version=version, plural=plural, **more)


_SPARK, _TRAINER = "sparkoperator.k8s.io", "trainer.kubeflow.org"
_LEADER_WORKER, _CODEFLARE = "leaderworkerset.x-k8s.io", "workload.codeflare.dev"
JOB_KINDS: tuple[KnownKind, ...] = (
    _row("batch/job", "Job", "batch/v1", folder="batch_job"),
    _row("pod", "Pod", "v1", folder="pod"),
    _row("", "CronJob", "batch/v1", template="spec.jobTemplate"),
    _row(
        "deployment",
        "Deployment",
        "apps/v1",
        folder="deployment",
        implies_pods=True,
        is_service=True,
    ),
    _row(
        "statefulset",
        "StatefulSet",
        "apps/v1",
        folder="statefulset",
        implies_pods=True,
        groups_pods=True,
        is_service=True,
    ),
    _row("jobset.x-k8s.io/jobset", "JobSet", "jobset.x-k8s.io/v1alpha2", folder="jobset"),
    _row("kubeflow.org/jaxjob", "JAXJob", "kubeflow.org/v1", folder="kubeflow"),
    _row("kubeflow.org/mpijob", "MPIJob", "kubeflow.org/v2beta1", folder="kubeflow"),
    _row("kubeflow.org/paddlejob", "PaddleJob", "kubeflow.org/v1", folder="kubeflow"),
    _row("kubeflow.org/pytorchjob", "PyTorchJob", "kubeflow.org/v1", folder="kubeflow"),
    _row("kubeflow.org/tfjob", "TFJob", "kubeflow.org/v1", folder="kubeflow"),
    _row("kubeflow.org/xgboostjob", "XGBoostJob", "kubeflow.org/v1", folder="kubeflow"),
    _row(
        f"{_LEADER_WORKER}/leaderworkerset",
        "LeaderWorkerSet",
        f"{_LEADER_WORKER}/v1",
        folder="leaderworkerset",
        implies_pods=True,
        groups_pods=True,
        is_service=True,
    ),
    _row("ray.io/raycluster", "RayCluster", "ray.io/v1", folder="ray", is_service=True),
    _row("ray.io/rayjob", "RayJob", "ray.io/v1", folder="ray"),
    _row("ray.io/rayservice", "RayService", "ray.io/v1", folder="ray", is_service=True),
    _row(
        f"{_SPARK}/sparkapplication",
        "SparkApplication",
        f"{_SPARK}/v1beta2",
        folder="spark",
        gate="SparkApplicationIntegration",
    ),
    _row(f"{_TRAINER}/trainjob", "TrainJob", f"{_TRAINER}/v1alpha1", folder="trainjob"),
    _row(f"{_CODEFLARE}/appwrapper", "AppWrapper", f"{_CODEFLARE}/v1beta2", folder="appwrapper"),
)
SUPPORTED_FRAMEWORKS = frozenset(each.framework for each in JOB_KINDS if each.folder)
"""Frameworks with an integration."""
UNSUPPORTED: Sequence[KnownKind] = tuple(each for each in JOB_KINDS if not each.is_queued)
KNOWN_FRAMEWORKS = frozenset(each.framework for each in JOB_KINDS if each.framework)
"""Upstream's frameworks. Unsupported ones may be named, as upstream's own files do: on a cluster
without such a kind, upstream ignores them too. Deviates: on a cluster with such a kind, its jobs
are not queued, and there is a warning.
"""
_BY_NAME: Mapping[tuple[str, str], KnownKind] = MappingProxyType(
    {(each.group, each.kind): each for each in JOB_KINDS}
)


_DECLARED: ContextVar[tuple[KnownKind, ...]] = ContextVar("declared", default=())
"""Kinds beside the table that a command was told of. A manager knows them by its registry."""


def declare_kinds(rows: Sequence[KnownKind]) -> None:
    """Know these kinds, too, from now on in this context: a command has read the JobKinds."""
    _DECLARED.set(tuple(rows))


def known_kinds() -> Sequence[KnownKind]:
    """Return the table, and the kinds that this context was told of."""
    return (*JOB_KINDS, *_DECLARED.get())


def find_job_kind(api_version: str, kind: str) -> KnownKind | None:
    """Return the row of a kind, for any version of it."""
    group = api_version.rpartition("/")[0]
    declared = (each for each in _DECLARED.get() if (each.group, each.kind) == (group, kind))
    return _BY_NAME.get((group, kind)) or next(declared, None)


def find_enabled(frameworks: Collection[str]) -> Sequence[KnownKind]:
    """Return the kinds that these names enable; unknown names are left out.

    Pods are among them if a named kind runs through its pods (J-6).
    """
    named = [each for each in JOB_KINDS if each.folder and each.framework in frameworks]
    with_pods = any(each.implies_pods for each in named)
    return [
        each
        for each in JOB_KINDS
        if each in named or (with_pods and each.folder and each.framework == "pod")
    ]
