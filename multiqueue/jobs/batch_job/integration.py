"""batch/v1 Job as a queued kind. Pure; the framework does the I/O.

Parity: E-60, E-184.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from multiqueue.api import names
from multiqueue.api.alternatives import find_alternatives, parse_alternatives
from multiqueue.api.v1beta2 import PodSet, ReclaimablePod
from multiqueue.api.validation.workload import is_int32
from multiqueue.jobs.batch_job.indexes import count_indexes
from multiqueue.jobs.batch_job.sizes import (
    as_asked,
    completions_of,
    parallelism_of,
    pod_count,
    resize_patch,
    restore_sizes_patch,
    sizes_of,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import (
    Finished,
    IntegrationDefaults,
    InvalidJobError,
    Job,
    JobPatch,
    PodSetInfo,
)
from multiqueue.jobs.framework.pod_set_info import injection_patch, restore_patch
from multiqueue.jobs.framework.topology_request import build_topology_request
from multiqueue.kube.resources import JOBS, Resource

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
MANAGED_LABELS = (
    CONTROLLER_UID,
    JOB_NAME_LABEL,
    "controller-uid",
    "job-name",
)
"""Labels that the API server puts into the template of every Job."""
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"


_CLEAR_START_TIME = JobPatch(
    patch={"status": {"startTime": None}}, subresource="status", completes=False
)


class BatchJob(IntegrationDefaults):
    """The integration ``batch/job``."""

    name: Final = "batch/job"
    resource: Final[Resource] = JOBS
    gvk: Final = GroupVersionKind.of_resource(JOBS)

    def is_suspended(self, job: Job) -> bool:
        """Whether the spec suspends the Job, and no stop of ours is unfinished."""
        return bool(job["spec"].get("suspend")) and not is_stopping(job)

    def is_elastic(self, job: Job) -> bool:
        """Whether the Job has the annotation, and its pods the gate that the webhook adds (E-169).

        Deviates: upstream needs no gate, and lets pods run without quota if they were made without
        its webhook. Here such a Job is stopped and queued again like any other.
        """
        pod = (job["spec"].get("template") or {}).get("spec") or {}
        gate = {"name": names.ELASTIC_GATE}
        return _annotations(job).get(names.ELASTIC_JOB) == "true" and gate in (
            pod.get("schedulingGates") or ()
        )

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """One pod set ``main`` with as many pods as run at a time."""
        _check_alternatives(job)
        template = _pod_set_template(job)
        return (
            PodSet(
                name=names.DEFAULT_PODSET,
                template=template,
                count=pod_count(as_asked(job) if self.is_suspended(job) else job),
                min_count=_min_count(job),
                topology_request=build_topology_request(template, pod_index_label=INDEX_LABEL),
            ),
        )

    def template_path(self, job: Job, position: int) -> str:
        """The template of the Job."""
        return "spec.template"

    def finished(self, job: Job) -> Finished | None:
        """Return the end of the Job if Complete or Failed is True."""
        for condition in _status(job).get("conditions") or ():
            if condition.get("type") in {"Complete", "Failed"} and condition["status"] == "True":
                success = condition["type"] == "Complete"
                words = condition.get("message") or (
                    "Job finished successfully" if success else "Job failed"
                )
                return Finished(success=success, message=words)
        return None

    def is_active(self, job: Job) -> bool:
        """Whether pods run."""
        return bool(_status(job).get("active"))

    def pods_ready(self, job: Job) -> bool:
        """Whether succeeded, ready and uncounted ended pods together make up the pod set."""
        status = _status(job)
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
        ready = (status.get("succeeded") or 0) + (status.get("ready") or 0) + len(uncounted)
        return ready >= pod_count(job)

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Slots that no further pod will use (J-172).

        Deviates: a dispatched job, or one with alternatives, keeps the count of pods that ended in
        an earlier run, perhaps on another worker. It includes none of the pods that are active now.
        """
        begins_anew = _has_alternatives(job) or _is_dispatched(job)
        if begins_anew and not _tells_of_this_run(job):
            return ()
        parallelism, terminal = parallelism_of(job), _terminal_count(job)
        if parallelism <= 1 or terminal == 0:
            return ()
        active = int(_status(job).get("active") or 0) if begins_anew else 0
        needed = max(completions_of(job) - terminal, active, 0)
        if needed >= parallelism:
            return ()
        return (ReclaimablePod(name=names.DEFAULT_PODSET, count=parallelism - needed),)

    def start_patch(self, job: Job, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Clear a start time first, if there is one: Kubernetes refuses changes while it is set."""
        if _status(job).get("startTime"):
            return _CLEAR_START_TIME
        if len(infos) != 1:
            raise InvalidJobError(f"invalid podset infos: expecting 1 podset, got {len(infos)}")
        spec: dict[str, Any] = {"suspend": False}
        template = injection_patch(job["spec"].get("template") or {}, infos[0])
        if template:
            spec["template"] = template
        if _min_count(job) is not None:
            spec.update(sizes_of(job, infos[0].count))
        if _has_alternatives(job):
            return JobPatch(patch=_merged({"spec": spec}, resize_patch(job, infos[0].count)))
        return JobPatch(patch={"spec": spec})

    def stop_patch(self, job: Job, pod_sets: Sequence[PodSet]) -> JobPatch | None:
        """Suspend, clear the start time, restore: three writes, or one if there are no templates.

        The annotation says that restoring is still to be done; while it is there, the Job does not
        count as suspended. Kubernetes accepts the restored template only once no pod is active. A
        Job that its owner suspended is restored, too.
        """
        if self.is_suspended(job) and not _is_injected(job, pod_sets):
            return None
        restored = _restored_spec(job, pod_sets)
        if restored and not job["spec"].get("suspend"):
            annotations = {names.STOPPING: "true"}
            return JobPatch(
                patch={"metadata": {"annotations": annotations}, "spec": {"suspend": True}},
                completes=False,
            )
        if restored and _status(job).get("startTime"):
            return _CLEAR_START_TIME
        if restored and self.is_active(job):
            return None
        patch = _merged(restore_sizes_patch(job), {"spec": restored} if restored else {})
        if not job["spec"].get("suspend"):
            patch = _merged(patch, {"spec": {"suspend": True}})
        if is_stopping(job):
            patch = _merged(patch, {"metadata": {"annotations": {names.STOPPING: None}}})
        return JobPatch(patch=patch)

    def priority_class(self, job: Job) -> str:
        """The priority class of its pods."""
        template = job["spec"].get("template") or {}
        return str((template.get("spec") or {}).get("priorityClassName") or "")

    def pod_selector(self, job: Job) -> str:
        """The label with the Job's uid."""
        return f"{CONTROLLER_UID}={job['metadata']['uid']}"

    def managed_by(self, job: Job) -> str:
        """``spec.managedBy``; "" if it names Kubernetes' own controller."""
        value = str(job["spec"].get("managedBy") or "")
        return "" if value == names.KUBERNETES_JOB_CONTROLLER else value


def _status(job: Job) -> Mapping[str, Any]:
    return job.get("status") or {}


def _annotations(job: Mapping[str, Any]) -> Mapping[str, str]:
    return job["metadata"].get("annotations") or {}


def is_stopping(job: Mapping[str, Any]) -> bool:
    """Whether a stop of ours is unfinished."""
    return _annotations(job).get(names.STOPPING) == "true"


def _is_indexed(job: Job) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _min_count(job: Job) -> int | None:
    """Return the least number of pods; text that is no number is ignored (J-163)."""
    text = _annotations(job).get(names.JOB_MIN_PARALLELISM)
    if not is_int32(text):
        return None
    value = int(str(text))
    if value < 1:
        raise InvalidJobError(
            f"annotation {names.JOB_MIN_PARALLELISM}: {value} is not positive; correct or remove it"
        )
    count = pod_count(job)
    if value > count:
        raise InvalidJobError(
            f"annotation {names.JOB_MIN_PARALLELISM}: {value} is more than the {count} pods"
            " that run at a time; lower it"
        )
    return value


def _has_alternatives(job: Job) -> bool:
    return bool(find_alternatives(_annotations(job)))


def _check_alternatives(job: Job) -> None:
    """Refuse invalid alternatives. Counts are not checked: a running job has those of one."""
    text = find_alternatives(_annotations(job))
    if not text:
        return
    path = f"annotation {names.ALTERNATIVES}"
    for other in (names.JOB_MIN_PARALLELISM, names.ELASTIC_JOB):
        if other in _annotations(job):
            raise InvalidJobError(f"{path}: goes not together with {other}; remove one of them")
    try:
        others = parse_alternatives(text).keys() - {"", names.DEFAULT_PODSET}
    except ValueError as error:
        raise InvalidJobError(f"{path}: {error}") from error
    if others:
        raise InvalidJobError(f'{path}: a Job has only one sort of pods; write "h100=4"')


def _is_dispatched(job: Job) -> bool:
    return bool(job["spec"].get("managedBy") == names.MULTIKUEUE_CONTROLLER)


def _tells_of_this_run(job: Job) -> bool:
    """Whether the status counts pods of the present run, not of an earlier one."""
    return not job["spec"].get("suspend") and bool(_status(job).get("startTime"))


def _terminal_count(job: Job) -> int:
    """Pods that ended for good: by index where pods have one (9.1)."""
    status = _status(job)
    if not _is_indexed(job):
        return int(status.get("succeeded") or 0)
    texts = (status.get("completedIndexes") or "", status.get("failedIndexes") or "")
    return count_indexes(texts, below=completions_of(job))


def _merged(patch: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the combined effect of two merge patches, neither of which undoes the other."""
    both = {**patch, **other}
    for key in patch.keys() & other.keys():
        if isinstance(patch[key], Mapping):
            both[key] = _merged(patch[key], other[key])
    return both


def _restored_spec(job: Job, pod_sets: Sequence[PodSet]) -> dict[str, Any]:
    """Return the fields of spec to restore after a start; empty if nothing was changed."""
    if not pod_sets:
        return {}
    restored: dict[str, Any] = {}
    template = restore_patch(
        job["spec"].get("template") or {}, pod_sets[0].template, keep_labels=MANAGED_LABELS
    )
    if template:
        restored["template"] = template
    if pod_sets[0].min_count is not None:
        sizes = sizes_of(job, pod_sets[0].count)
        restored.update({k: v for k, v in sizes.items() if job["spec"].get(k) != v})
    return restored


def _is_injected(job: Job, pod_sets: Sequence[PodSet]) -> bool:
    """Whether the template still has the fields that a start with these pod sets added."""
    ours = (job["spec"].get("template") or {}).get("metadata") or {}
    return any(
        names.PODSET in (ours.get("labels") or {})
        and names.PODSET not in ((p.template.get("metadata") or {}).get("labels") or {})
        for p in pod_sets[:1]
    )


def _pod_set_template(job: Job) -> dict[str, Any]:
    """Return the Job's template without the labels that only this Job's own pods may have."""
    template = dict(job["spec"].get("template") or {})
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key not in MANAGED_LABELS or key == JOB_NAME_LABEL
    }
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    template["metadata"] = metadata
    return template
