"""AppWrapper as a queued kind. Pure. Parity: J-469..J-485."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.appwrapper.components import (
    POD_INDEX_LABEL,
    SUB_GROUP_COUNT,
    SUB_GROUP_INDEX_LABEL,
    list_pod_sets,
)
from multiqueue.jobs.appwrapper.templates import workload_template
from multiqueue.jobs.framework.fields import drop_field, get_field, set_field
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.template_kind import PodSetSource, TemplateKind, find_condition


class AppWrapper(TemplateKind):
    """The integration ``workload.codeflare.dev/appwrapper``.

    Its templates are in the objects that it makes. Admission adds nothing to these: each component
    has a list of fields for its pods, which the kind's own controller adds.
    """

    own_controller = "workload.codeflare.dev/appwrapper-controller"

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return the pod sets of all components, numbered from 0 (J-470)."""
        found = [
            (("spec", "components", position, "template", *pod_set.path), pod_set)
            for position, component in enumerate(_components(job))
            for pod_set in list_pod_sets(component)
        ]
        if not found:
            raise InvalidJobError("no component has pods; declare them in podSets")
        return [
            PodSetSource(
                name=f"{job['metadata']['name']}-{number}",
                template=path,
                count=pod_set.count,
                pod_index_label=pod_set.annotations.get(POD_INDEX_LABEL),
                sub_group_index_label=pod_set.annotations.get(SUB_GROUP_INDEX_LABEL),
                sub_group_count=_number(pod_set.annotations.get(SUB_GROUP_COUNT)),
            )
            for number, (path, pod_set) in enumerate(found)
        ]

    def template_of(self, job: Job, source: PodSetSource) -> Mapping[str, Any]:
        """Return what a Workload keeps of a template: a Pod has more than that."""
        return workload_template(super().template_of(job, source))

    def started(self, job: Job, infos: Sequence[PodSetInfo]) -> Job:
        """Return the AppWrapper with the admission's fields for each component, not suspended."""
        sources = self.read_sources(job)
        if len(sources) != len(infos):
            raise InvalidJobError(
                f"invalid podset infos: expecting {len(sources)} podsets, got {len(infos)}"
            )
        left = iter(infos)
        for position, component in enumerate(_components(job)):
            added = [_wire(next(left)) for _ in list_pod_sets(component)]
            if added:
                job = set_field(job, ("spec", "components", position, "podSetInfos"), added)
        return self.set_suspended(job, value=False)

    def restored(self, job: Job, pod_sets: Sequence[PodSet]) -> Job:
        """Return the AppWrapper without the admission's fields; its templates never had them."""
        for position in range(len(_components(job))):
            job = drop_field(job, ("spec", "components", position, "podSetInfos"))
        return job

    def finished(self, job: Job) -> Finished | None:
        """Return the end by the phase; a failed AppWrapper ends once its objects are gone."""
        phase = get_field(job, ("status", "phase"))
        if phase == "Succeeded":
            return Finished(success=True, message="AppWrapper finished successfully")
        if phase == "Failed" and not find_condition(job, "ResourcesDeployed"):
            return Finished(success=False, message="AppWrapper failed")
        return None

    def is_active(self, job: Job) -> bool:
        """Whether its controller still needs the quota: until all its objects are gone."""
        return find_condition(job, "QuotaReserved") is not None

    def pods_ready(self, job: Job) -> bool:
        """Whether its controller says so."""
        return find_condition(job, "PodsReady") is not None


def _components(job: Job) -> Sequence[Mapping[str, Any]]:
    return get_field(job, ("spec", "components")) or ()


def _number(text: str | None) -> int | None:
    """Return the number of an annotation; one that is malformed is left out (J-473)."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _wire(info: PodSetInfo) -> dict[str, Any]:
    fields = {
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": [encode(each) for each in info.tolerations],
        "schedulingGates": [{"name": name} for name in info.scheduling_gates],
    }
    return {key: value for key, value in fields.items() if value}
