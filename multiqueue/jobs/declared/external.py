"""Kinds that an outside controller queues: it makes their Workloads, starts and stops them. Pure.

``integrations.externalFrameworks`` names those whose objects may own queued jobs, and
``multiKueue.externalFrameworks`` those whose objects run on workers. They are declared kinds whose
declaration says nothing but where the controller field is. Parity: J-24, J-486 to J-492,
M-210, M-211.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.api.config.gates import Gate
from multiqueue.api.v1alpha1 import JobKindSpec, RemoteCopy
from multiqueue.jobs.declared.adapter import DeclaredAdapter
from multiqueue.jobs.declared.compiled import CompiledKind
from multiqueue.jobs.declared.kind import DeclaredKind
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook
from multiqueue.jobs.framework.template_kind import PodSetSource
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.discovery import ServedKind

MANAGED_BY = "spec.managedBy"
GATE_OFF = f"{Gate.MULTIKUEUE_ADAPTERS_FOR_CUSTOM_JOBS} feature gate is disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalFramework:
    """A kind that the Configuration names as external.

    Attributes:
        gvk: The kind.
        owns_jobs: Whether its objects may own queued jobs.
        runs_on_workers: Whether its objects may be dispatched.
    """

    gvk: GroupVersionKind
    owns_jobs: bool
    runs_on_workers: bool


def list_external_frameworks(config: Configuration) -> Sequence[ExternalFramework]:
    """Return the external kinds of a Configuration, by name."""
    owning = frozenset(config.integrations.external_frameworks)
    running = frozenset(each.name for each in config.multi_kueue.external_frameworks)
    return [
        ExternalFramework(
            gvk=GroupVersionKind.parse(name),
            owns_jobs=name in owning,
            runs_on_workers=name in running,
        )
        for name in sorted(owning | running)
    ]


class ExternalKind(DeclaredKind):
    """The integration of an external kind: its own controller knows what its fields mean.

    An object whose controller field names MultiKueue does not run on this cluster. So it counts as
    suspended, and its Workload alone says whether it has quota and has ended.
    """

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Raise: the outside controller makes the Workload."""
        raise InvalidJobError(
            f"Workloads of {self.gvk.dotted} are made by its own controller; see "
            "externalFrameworks in the Configuration"
        )

    def is_suspended(self, job: Job) -> bool:
        """Return true: nothing of the object runs on this cluster."""
        return True

    def set_suspended(self, job: Job, *, value: bool) -> Job:
        """Return the job as it is: the worker's own controller starts it."""
        return job

    def is_active(self, job: Job) -> bool:
        """Return false: nothing of the object runs on this cluster."""
        return False

    def pods_ready(self, job: Job) -> bool:
        """Return false: the Workload says it."""
        return False

    def finished(self, job: Job) -> Finished | None:
        """Return None: the Workload says how the job ended."""
        return None


class ExternalAdapter(DeclaredAdapter):
    """Copies objects of an external kind to workers, and their whole status back.

    Args:
        kind: The kind.
        gates_open: Whether the feature gate of external kinds is on.
    """

    def __init__(self, kind: ExternalKind, *, gates_open: bool) -> None:
        super().__init__(kind)
        self._gates_open = gates_open

    def refusal(self, job: Job) -> str | None:
        """Refuse a job if the gate is off, or if its controller field does not name MultiKueue."""
        return super().refusal(job) if self._gates_open else GATE_OFF

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Return None: what a status of this kind looks like is not known."""
        return None


def build_external(
    framework: ExternalFramework, served: ServedKind, config: Configuration
) -> SupportedKind:
    """Return what is done for an external kind, as the manager's cluster serves it."""
    gvk = framework.gvk
    spec = JobKindSpec(
        group=gvk.group,
        version=gvk.version,
        kind=gvk.kind,
        plural=served.resource.plural,
        multi_kueue=RemoteCopy(managed_by_field=MANAGED_BY, status_subresource=served.has_status),
    )
    kind = ExternalKind(CompiledKind(spec, {}))
    gates_open = config.gates.enabled(Gate.MULTIKUEUE_ADAPTERS_FOR_CUSTOM_JOBS)
    adapter = ExternalAdapter(kind, gates_open=gates_open)
    return SupportedKind(
        integration=kind,
        webhook=TemplateKindWebhook(kind),
        adapter=adapter if framework.runs_on_workers else None,
        controllers=lambda _: (),
        is_external=True,
        owns_jobs=framework.owns_jobs,
    )
