"""docs/reference/events.md: the Events of the manager, from the calls that record them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tools.reference.markdown import ROOT, Reference, code, page, table

NOTES = ("EventNote", "WarnEvent")
METHODS = ("event", "_event", "_record")
TYPES = ("Normal", "Warning")
SOMETHING = "…"
SKIPPED = ("embedded",)
"""Folders whose Events are not the manager's: the simulated clusters have a Job controller."""
HEAD = """`kubectl describe` and `multiqueue events` show them. `…` stands for what differs from one
Event to the next. Transitions of Workloads are Events, too: `EvictedDueTo…` ends with the reason of
the condition Evicted, and a Workload that waits or ended has the reason of its condition
([reasons](conditions.md)). So have MultiKueueClusters that are cordoned or drained, and
DispatchProfiles, with the type of the condition before it, such as `CanaryReturned`."""


MEANINGS = {
    "AdmissionCheckRejected": "A check was rejected: the Workload is deactivated.",
    "AdmissionCheckUpdated": "A check of the Workload has another state.",
    "AdmissionGateCleared": "The last admission gate of the Workload is gone: it can get quota.",
    "AdmissionGated": "The Workload waits until its admission gates are gone.",
    "Admitted": "The Workload may start.",
    "CreatedWorkload": "The job got its Workload.",
    "Deleted": "The job or Workload was deleted because its time was over.",
    "DeletedWorkload": "A Workload that no longer matched its job was deleted.",
    "DisruptionPolicyNotFound": "A queue or Cohort names a DisruptionPolicy that does not exist.",
    "ErrWorkloadCompose": "No Workload can be made for the job, or it belongs to another one.",
    "EvictedDueTo…": "The Workload lost its quota; the job is stopped.",
    "ExcessPodDeleted": "The group had more pods than it declares.",
    "FailedCreate": "A ProvisioningRequest could not be made.",
    "FinishedWorkload": "The job ended, and its Workload with it.",
    "JobKindExpressionFailed": "An expression of a JobKind has no value for this object.",
    "JobNestingTooDeep": "The job has too many owners, one above the other, to find its queue.",
    "KueueForcefullyDeleted": "A pod on a node that does not answer was deleted by force.",
    "MalformedAnnotation": "An annotation cannot be read, so it is ignored.",
    "MaximumExecutionTimeExceeded": "The job ran for longer than it may; it is deactivated.",
    "MultiKueue": "Where the job was dispatched, moved, stays or was refused, and why.",
    "OwnerReferencesAdded": "Pods of the group became owners of the Workload.",
    "PodTerminatedByKueue": "A pod was ended because it can never run on its node.",
    "Preempted": "The Workload made room for another one.",
    "PreemptionNotice": "The Workload will be stopped for another one; it may save its work.",
    "CheckpointHookFailed": "The notice did not reach the hook of the job, and why.",
    "PreemptionRescinded": "The Workload runs on: nobody needs its room any more.",
    "ProvisioningRequestCreated": "An autoscaler was asked for capacity.",
    "QuotaPlan…": "A change of quotas was applied, taken back because it did harm, or given up.",
    "QuotaReserved": "Quota was reserved for the Workload.",
    "SecondPassFailed": "The pods found no place after the checks were ready; it is tried again.",
    "StartFailed": "The job could not be started with what was admitted; it is tried again.",
    "Started": "The job was started.",
    "Stopped": "The job was stopped.",
    "Suspended": "A job was suspended because the queued job above it may not run.",
    "Uncordoned": "A worker gets new jobs again.",
    "UpdatedAdmissionCheck": "What the checks of a job with quota wait for.",
    "UpdatedWorkload": "The Workload was brought in line with its job.",
    "WorkloadNameConflict": "The name of the group is that of a Workload of something else.",
    "WorkloadPriorityClassNotFound": "The job names a priority class that does not exist.",
}
"""What each reason means: reasons are spelled where Events are recorded, in many modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCall:
    """A call that records an Event, as far as the source tells it."""

    reason: str
    kind: str
    message: str


def build() -> Reference:
    """Return the page."""
    calls = set(_find_all())
    reasons = {call.reason for call in calls}
    rows = []
    for reason in sorted(reasons):
        same = [call for call in calls if call.reason == reason]
        kinds = " or ".join(sorted({call.kind for call in same}))
        messages = sorted({call.message for call in same if call.message.strip(SOMETHING)})
        shown = "; ".join(f"“{_escape(message)}”" for message in messages)
        rows.append([code(reason), kinds, MEANINGS.get(reason, ""), shown])
    text = page(
        "Events",
        "the calls in `multiqueue`",
        HEAD,
        table(["reason", "type", "what happened", "messages, where they are fixed"], rows),
    )
    return Reference(
        name="events.md", text=text, undescribed=tuple(sorted(reasons ^ set(MEANINGS)))
    )


def _escape(message: str) -> str:
    return message.replace("<", "&lt;").replace("*", "\\*")


def _find_all() -> Iterator[EventCall]:
    for path in sorted((ROOT / "multiqueue").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        text = path.read_text()
        if parts[1] in SKIPPED or not any(f"{name}(" in text for name in (*NOTES, *METHODS)):
            continue
        names = vars(importlib.import_module(".".join(parts)))
        yield from _find(ast.parse(text), names)


def _find(tree: ast.AST, names: Mapping[str, Any]) -> Iterator[EventCall]:
    for node in ast.walk(tree):
        arguments = _arguments(node) if isinstance(node, ast.Call) else None
        if arguments is None:
            continue
        kind, reason, message = (_pattern(each, names) for each in arguments)
        if reason.strip(SOMETHING):
            for each in [kind] if kind in TYPES else TYPES:
                yield EventCall(reason=reason, kind=each, message=message)


def _arguments(call: ast.Call) -> tuple[ast.AST, ast.AST, ast.AST] | None:
    """Return type, reason and message of a call that records an Event."""
    named = {each.arg: each.value for each in call.keywords}
    if isinstance(call.func, ast.Name) and call.func.id in NOTES:
        is_warning = call.func.id == "WarnEvent" or "warning" in named
        return ast.Constant(TYPES[is_warning]), named["reason"], named["message"]
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in METHODS):
        return None
    match call.args[1:]:
        case [kind, reason, message]:
            return kind, reason, message
        case [reason, message]:
            return named.get("kind", ast.Constant(TYPES[0])), reason, message
    return None


def _pattern(node: ast.AST, names: Mapping[str, Any]) -> str:
    """Return a text as far as the source tells it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(each, names) for each in node.values)
    if isinstance(node, ast.BinOp):
        return _pattern(node.left, names) + _pattern(node.right, names)
    if isinstance(node, ast.Name | ast.Attribute):
        value = _resolve(node, names)
        return str(value) if isinstance(value, str) else SOMETHING
    return SOMETHING


def _resolve(node: ast.Name | ast.Attribute, names: Mapping[str, Any]) -> object:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    inside = _resolve(node.value, names) if isinstance(node.value, ast.Name | ast.Attribute) else ""
    return getattr(inside, node.attr, None) if isinstance(inside, type) else None
