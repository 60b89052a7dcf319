"""From the spec of a JobKind to what is evaluated: checked as a whole, before it is used. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from multiqueue.api.job_kinds import KnownKind, find_job_kind
from multiqueue.api.v1alpha1 import JobKindSpec
from multiqueue.jobs.declared.expressions import (
    BadExpressionError,
    ExtraMissingError,
    KindExpression,
    Wanted,
    compile_expressions,
)
from multiqueue.jobs.framework.fields import parse_path

ITEM = ("item", "index")
"""What expressions of a pod set with forEach may read, beside ``self``."""
STATUS = "status"


class JobKindReason(StrEnum):
    """Reasons of conditions of JobKinds."""

    # Accepted
    ACCEPTED = "Accepted"
    """The declaration can be used."""
    EXTRA_MISSING = "ExtraMissing"
    """The program was installed without what expressions need."""
    BAD_EXPRESSION = "BadExpression"
    """An expression cannot be read; the message names the field."""
    WRONG_TYPE = "WrongType"
    """An expression gives another type than its field needs."""
    INVALID = "Invalid"
    """A field cannot be used; the message names it."""
    BUILT_IN = "BuiltIn"
    """The program has this kind built in."""
    EXTERNAL = "External"
    """The configuration names this kind as external."""
    DUPLICATE = "Duplicate"
    """An older JobKind declares the same kind."""
    # Active
    QUEUED = "Queued"
    """Objects of the kind are queued."""
    NOT_ACCEPTED = "NotAccepted"
    """The declaration cannot be used; the condition Accepted says why."""
    NOT_SERVED = "NotServed"
    """The cluster does not serve the kind."""
    RIGHT_MISSING = "RightMissing"
    """The manager has no right to the kind; ``multiqueue jobkind role`` prints it."""
    UNREACHABLE = "Unreachable"
    """Objects of the kind could not be listed."""
    # Healthy
    AS_DECLARED = "AsDeclared"
    """All expressions could be evaluated."""
    EXPRESSION_FAILING = "ExpressionFailing"
    """An expression failed for an object; the message names both."""


class JobKindRefusedError(Exception):
    """A JobKind cannot be used.

    Attributes:
        reason: Why, for programs.
    """

    def __init__(self, reason: JobKindReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CompiledKind:
    """A JobKind that can be used.

    Attributes:
        spec: The spec of the JobKind.
        expressions: Its expressions, by field.
    """

    spec: JobKindSpec
    expressions: dict[str, KindExpression]


def row_of(spec: JobKindSpec) -> KnownKind:
    """Return the row that the table of job kinds would have for a declared kind."""
    return KnownKind(
        framework=f"{spec.group}/{spec.kind.lower()}",
        kind=spec.kind,
        group=spec.group,
        version=spec.version,
        plural=spec.plural,
        is_declared=True,
    )


def compile_kind(spec: JobKindSpec) -> CompiledKind:
    """Return the kind with its expressions compiled.

    Raises:
        JobKindRefusedError: the kind is built in, CEL is not installed, or a field is wrong.
    """
    found = find_job_kind(f"{spec.group}/{spec.version}", spec.kind)
    if found is not None and not found.is_declared:
        name = found.framework or found.kind
        raise JobKindRefusedError(
            JobKindReason.BUILT_IN,
            f"{spec.group}/{spec.kind} is built in; delete this JobKind and enable the kind with "
            f'integrations.frameworks: ["{name}"]',
        )
    problem = next(_problems(spec), None)
    if problem is not None:
        raise JobKindRefusedError(JobKindReason.INVALID, problem)
    try:
        return CompiledKind(spec, compile_expressions(list(_wanted(spec))))
    except ExtraMissingError as error:
        raise JobKindRefusedError(JobKindReason.EXTRA_MISSING, str(error)) from error
    except BadExpressionError as error:
        reason = JobKindReason.WRONG_TYPE if error.wrong_type else JobKindReason.BAD_EXPRESSION
        raise JobKindRefusedError(reason, str(error)) from error


def _problems(spec: JobKindSpec) -> Iterator[str]:
    yield from _pod_set_problems(spec)
    for field in ("active", "succeeded", "failed"):
        if not getattr(spec.states, field).strip():
            yield f"spec.states.{field}: is required"
    if spec.suspend.suspended_value is None:
        yield "spec.suspend.suspendedValue: must not be null"
    if spec.suspend.suspended_value == spec.suspend.running_value:
        yield "spec.suspend.runningValue: must differ from suspendedValue"
    for path in spec.multi_kueue.returned_fields if spec.multi_kueue is not None else ():
        if parse_path(path)[0] != STATUS:
            yield f'spec.multiKueue.returnedFields: "{path}" must be "status" or a field below it'


def _pod_set_problems(spec: JobKindSpec) -> Iterator[str]:
    if not spec.pod_sets:
        yield "spec.podSets: at least one pod set is required"
    plain = [each.name for each in spec.pod_sets if not each.for_each]
    for name in sorted({name for name in plain if plain.count(name) > 1}):
        yield f'spec.podSets: the name "{name}" is used twice; names must be unique'
    for position, each in enumerate(spec.pod_sets):
        path = f"spec.podSets[{position}]"
        if bool(each.template) == bool(each.template_expression):
            yield f"{path}: exactly one of template and templateExpression is required"
        if each.for_each and not each.name_expression:
            yield f"{path}.nameExpression: is required with forEach, such as item.name"


def _wanted(spec: JobKindSpec) -> Iterator[Wanted]:
    for position, each in enumerate(spec.pod_sets):
        path = f"spec.podSets[{position}]"
        variables = ITEM if each.for_each else ()
        if each.for_each:
            yield Wanted(f"{path}.nameExpression", each.name_expression, "string", variables)
        yield Wanted(f"{path}.templateExpression", each.template_expression, "map", variables)
        yield Wanted(f"{path}.count", each.count, "int", variables)
    states = spec.states
    yield Wanted("spec.states.active", states.active, "bool")
    yield Wanted("spec.states.ready", states.ready, "bool")
    yield Wanted("spec.states.succeeded", states.succeeded, "bool")
    yield Wanted("spec.states.failed", states.failed, "bool")
    yield Wanted("spec.states.message", states.message, "string")
    yield Wanted("spec.states.reclaimablePods", states.reclaimable_pods, "map")
    yield Wanted("spec.priorityClass", spec.priority_class, "string")
    yield Wanted("spec.podSelector", spec.pod_selector, "string")
    if spec.multi_kueue is not None:
        ended = spec.multi_kueue.ended_status
        yield Wanted("spec.multiKueue.endedStatus", ended, "map", ("success", "message"))
