"""Validation of Jobs: what a spec may say, and what may change in it."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.builtin.pod_validation import validate_template
from multiqueue.embedded.server.causes import (
    FieldCause,
    invalid,
    not_supported,
    required,
    too_long,
)
from multiqueue.lib import object_names as names

Json = Mapping[str, Any]

MAX_MANAGED_BY_LENGTH = 63
COMPLETION_MODES = ("NonIndexed", "Indexed")
REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")

_IMMUTABLE = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_TEMPLATE_METADATA = ("labels", "annotations")
_SCHEDULING_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def validate_job_spec(spec: Json, path: str, *, needs_selector: bool = True) -> list[FieldCause]:
    """A Job's spec with its defaults; the one inside a CronJob needs no selector."""
    causes = [
        invalid(f"{path}.{field}", spec[field], "must be greater than or equal to 0")
        for field in _COUNTS
        if spec.get(field, 0) < 0
    ]
    if needs_selector and not spec.get("selector"):
        causes.append(required(f"{path}.selector"))
    causes += _completion_mode(spec, path)
    causes += _managed_by(spec, path)
    causes += _replacement_policy(spec, path)
    causes += _template(spec, path)
    return causes


def _completion_mode(spec: Json, path: str) -> list[FieldCause]:
    mode = spec["completionMode"]
    if mode not in COMPLETION_MODES:
        return [not_supported(f"{path}.completionMode", mode, COMPLETION_MODES)]
    if mode == "Indexed" and "completions" not in spec:
        return [required(f"{path}.completions", "when completion mode is Indexed")]
    return []


def _managed_by(spec: Json, path: str) -> list[FieldCause]:
    value = spec.get("managedBy")
    if value is None:
        return []
    where = f"{path}.managedBy"
    causes = []
    domain, slash, name = value.partition("/")
    if not slash or not domain or not name:
        causes.append(
            invalid(where, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        )
    else:
        causes += [invalid(where, domain, text) for text in names.subdomain(domain)]
    if len(value) > MAX_MANAGED_BY_LENGTH:
        causes.append(too_long(where, MAX_MANAGED_BY_LENGTH))
    return causes


def _replacement_policy(spec: Json, path: str) -> list[FieldCause]:
    given, where = spec["podReplacementPolicy"], f"{path}.podReplacementPolicy"
    supported = ("Failed",) if "podFailurePolicy" in spec else REPLACEMENT_POLICIES
    return [] if given in supported else [not_supported(where, given, supported)]


def _template(spec: Json, path: str) -> list[FieldCause]:
    template = spec["template"]
    causes = validate_template(template, f"{path}.template")
    selector = spec.get("selector", {}).get("matchLabels", {})
    labels = template["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in selector.items()):
        text = "`selector` does not match template `labels`"
        causes.append(invalid(f"{path}.template.metadata.labels", labels, text))
    policy = template["spec"]["restartPolicy"]
    where = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        causes.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        causes = [cause for cause in causes if cause.field != where]
        causes.append(not_supported(where, policy, ("OnFailure", "Never")))
    return causes


def validate_job_change(new: Json, old: Json) -> list[FieldCause]:
    """What may not change in a Job that exists."""
    spec, before = new["spec"], old["spec"]
    causes = [
        invalid(f"spec.{field}", spec.get(field), "field is immutable")
        for field in _IMMUTABLE
        if spec.get(field) != before.get(field)
    ]
    causes += _completions_change(spec, before)
    template = spec["template"]
    if template != before["template"]:
        base, field = before["template"], "spec.template"
        if may_move(old):  # then labels are free, and where pods go; the rest is not
            base, field = with_scheduling_of(template, base), "spec.template.spec"
        if changed := changed_paths(template, base):
            causes.append(invalid(field, ", ".join(changed), "field is immutable"))
    return causes


def changed_paths(new: Any, old: Any, path: str = "") -> list[str]:
    """Where two values differ; a whole template in a message would hide what is wrong with it."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        keys = dict.fromkeys((*old, *new))
        return [
            found
            for key in keys
            for found in changed_paths(new.get(key), old.get(key), f"{path}.{key}" if path else key)
        ]
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [
            found
            for index, pair in enumerate(zip(new, old, strict=True))
            for found in changed_paths(*pair, f"{path}[{index}]")
        ]
    return [] if new == old else [path]


def _completions_change(spec: Json, before: Json) -> list[FieldCause]:
    """Elastic Indexed Jobs may change completions together with parallelism; others never."""
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return []
    if spec["completionMode"] != "Indexed" or "completions" not in spec:
        return [invalid("spec.completions", completions, "field is immutable")]
    in_tandem = (
        completions == spec["parallelism"] and before.get("completions") == before["parallelism"]
    )
    if in_tandem:
        return []
    text = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", completions, text)]


def may_move(job: Json) -> bool:
    """Whether scheduling directives may change: the Job is suspended, and nothing of it runs."""
    if not job["spec"].get("suspend"):
        return False
    status = job.get("status", {})
    stopped = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )
    return ("startTime" not in status or stopped) and not status.get("active")


def with_scheduling_of(template: Json, old: Json) -> dict[str, Any]:
    """The old template with the new scheduling directives: all that a suspended Job may change."""
    metadata = _taking(old["metadata"], template["metadata"], _TEMPLATE_METADATA)
    spec = _taking(old["spec"], template["spec"], _SCHEDULING_FIELDS)
    spec = _with_node_affinity_of(template["spec"], spec)
    return {**old, "metadata": metadata, "spec": spec}


def _taking(base: Json, source: Json, fields: tuple[str, ...]) -> dict[str, Any]:
    kept = {key: value for key, value in base.items() if key not in fields}
    return kept | {key: source[key] for key in fields if key in source}


def _with_node_affinity_of(source: Json, spec: dict[str, Any]) -> dict[str, Any]:
    """Of the affinity only the part about nodes is a scheduling directive."""
    affinity = _taking(spec.get("affinity", {}), source.get("affinity", {}), ("nodeAffinity",))
    without = {key: value for key, value in spec.items() if key != "affinity"}
    if affinity or "affinity" in source:
        without["affinity"] = affinity
    return without


def validate_cron_job(cron: Json) -> list[FieldCause]:
    """A CronJob: the Job that it makes, and that there is a schedule."""
    spec = cron["spec"]
    causes = [] if spec.get("schedule") else [required("spec.schedule")]
    job = spec["jobTemplate"]["spec"]
    return causes + validate_job_spec(job, "spec.jobTemplate.spec", needs_selector=False)
