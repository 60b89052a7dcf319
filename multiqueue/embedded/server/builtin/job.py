"""batch/v1 Job and CronJob: defaults, generated selectors, hooks."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.builtin.job_status import validate_job_status
from multiqueue.embedded.server.builtin.job_validation import (
    validate_cron_job,
    validate_job_change,
    validate_job_spec,
)
from multiqueue.embedded.server.builtin.pod_defaults import child, default_template
from multiqueue.embedded.server.causes import FieldCause, invalid
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
LEGACY_CONTROLLER_UID = "controller-uid"
LEGACY_JOB_NAME = "job-name"

_NO_LIMIT = 2**31 - 1


def default_job(job: JsonObject) -> None:
    """Defaults of a Job."""
    default_job_spec(child(job, "spec"))
    _default_labels(job)
    child(job, "status")


def _default_labels(job: JsonObject) -> None:
    """A Job without labels has those of its template, the generated ones too."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not child(job, "metadata").get("labels"):
        job["metadata"]["labels"] = dict(labels)


def default_job_spec(spec: JsonObject) -> None:
    """Defaults of a Job's spec, also in a CronJob."""
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    default_template(child(spec, "template"))


def _prepare_create(job: JsonObject, _context: RequestContext) -> None:
    job["status"] = {}
    if not job["spec"].get("manualSelector"):
        generate_selector(job)
        _default_labels(job)


def generate_selector(job: JsonObject) -> None:
    """Labels that tie Pods to this Job alone; what the user set stays and is judged later."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    labels = child(child(job["spec"]["template"], "metadata"), "labels")
    for key, value in (
        (LEGACY_CONTROLLER_UID, uid),
        (LEGACY_JOB_NAME, name),
        (CONTROLLER_UID, uid),
        (JOB_NAME, name),
    ):
        labels.setdefault(key, value)
    matches = child(child(job["spec"], "selector"), "matchLabels")
    matches.setdefault(CONTROLLER_UID, uid)


def _validate_create(job: JsonObject, _context: RequestContext) -> list[FieldCause]:
    return [*_generated_selector(job), *validate_job_spec(job["spec"], "spec")]


def _generated_selector(job: JsonObject) -> list[FieldCause]:
    """A selector that is not ours without ``manualSelector`` is a mistake."""
    spec, uid = job["spec"], job["metadata"]["uid"]
    if spec.get("manualSelector"):
        return []
    causes = []
    labels = spec["template"]["metadata"].get("labels", {})
    for key, value in ((CONTROLLER_UID, uid), (JOB_NAME, job["metadata"]["name"])):
        if labels.get(key) != value:
            path = f"spec.template.metadata.labels[{key}]"
            text = f"must be '{value}' unless spec.manualSelector is set"
            causes.append(invalid(path, labels.get(key, ""), text))
    if spec["selector"] not in (
        {"matchLabels": {CONTROLLER_UID: uid}},
        {"matchLabels": {LEGACY_CONTROLLER_UID: uid}},
    ):
        causes.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return causes


def _validate_update(
    new: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    return [*validate_job_spec(new["spec"], "spec"), *validate_job_change(new, old)]


def _validate_status(
    new: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    return validate_job_status(new, old)


JOB_HOOKS = Hooks(
    default=default_job,
    prepare_create=_prepare_create,
    validate_create=_validate_create,
    validate_update=_validate_update,
    validate_status=_validate_status,
)


def default_cron_job(cron: JsonObject) -> None:
    """Defaults of a CronJob."""
    spec = child(cron, "spec")
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    default_job_spec(child(child(spec, "jobTemplate"), "spec"))
    del spec["jobTemplate"]["spec"]["manualSelector"]
    child(spec["jobTemplate"], "metadata")
    child(cron, "status")


def _prepare_cron_job(cron: JsonObject, _context: RequestContext) -> None:
    cron["status"] = {}


CRON_JOB_HOOKS = Hooks(
    default=default_cron_job,
    prepare_create=_prepare_cron_job,
    validate_create=lambda cron, _context: validate_cron_job(cron),
    validate_update=lambda cron, _old, _context: validate_cron_job(cron),
)
