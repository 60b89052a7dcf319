"""JobKind: a kind of job that is declared with expressions and field paths instead of code."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from multiqueue.api.markers import LABEL_PATTERN, SUBDOMAIN_PATTERN, SchemaRule, described
from multiqueue.api.v1beta2.admission_check import CONDITIONS
from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct

MAX_EXPRESSION = 2048
"""Characters of an expression; the kind's definition has the same limit."""
_EXPRESSION: dict[str, Any] = {"maxLength": MAX_EXPRESSION}
_PATH: dict[str, Any] = {
    "maxLength": 512,
    "pattern": r"^[A-Za-z][-A-Za-z0-9_]*(\.[A-Za-z][-A-Za-z0-9_]*|\['[^']+'\])*$",
}


def _path(text: str) -> Any:
    return described(
        f"{text} A field path such as spec.template or metadata.annotations['a.b/c'].", **_PATH
    )


def _cel(text: str) -> Any:
    return described(f"{text} A CEL expression; self is the object.", **_EXPRESSION)


class AdmissionPaths(Struct, frozen=True, kw_only=True):
    """Where the object has the fields of its pods that an admission adds to."""

    labels: Annotated[str, _path("Labels of the pods.")] = ""
    annotations: Annotated[str, _path("Annotations of the pods.")] = ""
    node_selector: Annotated[str, _path("Node selector of the pods.")] = ""
    tolerations: Annotated[str, _path("Tolerations of the pods.")] = ""
    scheduling_gates: Annotated[str, _path("Scheduling gates of the pods.")] = ""


class JobKindPodSet(Struct, frozen=True, kw_only=True):
    """Pods of one shape, or one pod set for each item of a list."""

    rules: ClassVar = (
        SchemaRule(
            "has(self.template) != has(self.templateExpression)",
            "exactly one of template and templateExpression is required",
        ),
        SchemaRule(
            "has(self.templateExpression) || !has(self.admission)",
            "admission goes with templateExpression; a template has its own fields",
        ),
        SchemaRule(
            "!has(self.forEach) || has(self.nameExpression)",
            "nameExpression is required with forEach, such as item.name",
        ),
    )

    name: Annotated[
        str,
        described("Name of the pod set.", default="main", maxLength=63, pattern=LABEL_PATTERN),
    ] = "main"
    name_expression: Annotated[str, _cel("Name of the pod set of an item, a string.")] = ""
    for_each: Annotated[
        str,
        _path(
            "A list with one pod set for each item. Expressions read the item as item, and all "
            "paths of this pod set begin at the item."
        ),
    ] = ""
    template: Annotated[str, _path("The pod template.")] = ""
    template_expression: Annotated[
        str, _cel("The pod template, if the object has none: a map with spec.containers.")
    ] = ""
    admission: Annotated[
        AdmissionPaths,
        described("Where a templateExpression's pods get what the admission adds."),
    ] = AdmissionPaths()
    count: Annotated[
        str,
        described("How many pods run: a CEL expression, a number.", default="1", **_EXPRESSION),
    ] = "1"


class SuspendField(Struct, frozen=True, kw_only=True):
    """The field that keeps an object from running, and its values."""

    field: Annotated[
        str,
        described(
            "The field that says that nothing may start. A field path such as spec.suspend.",
            default="spec.suspend",
            **_PATH,
        ),
    ] = "spec.suspend"
    suspended_value: Annotated[
        Any,
        described("Its value while the object waits.", default=True),
    ] = True
    running_value: Annotated[
        Any, described("Its value while the object may run; without one, the field is removed.")
    ] = None
    stopped_value: Annotated[
        Any,
        described(
            "The value that ends pods that run, if suspendedValue does not. The object ends with "
            "it, and is not started again."
        ),
    ] = None


class JobKindStates(Struct, frozen=True, kw_only=True):
    """What the status of an object means."""

    active: Annotated[
        str, described("Whether pods run. A CEL expression, a bool.", required=True, **_EXPRESSION)
    ] = ""
    ready: Annotated[str, _cel("Whether all pods are ready, a bool; as active by default.")] = ""
    succeeded: Annotated[
        str,
        described(
            "Whether the job ended well. A CEL expression, a bool.", required=True, **_EXPRESSION
        ),
    ] = ""
    failed: Annotated[
        str,
        described(
            "Whether the job failed. A CEL expression, a bool.", required=True, **_EXPRESSION
        ),
    ] = ""
    message: Annotated[str, _cel("Why the job ended, a string.")] = ""
    reclaimable_pods: Annotated[
        str,
        _cel("Pods that have ended for good, a map from the name of a pod set to a number."),
    ] = ""


class RemoteCopy(Struct, frozen=True, kw_only=True):
    """How objects run on workers."""

    managed_by_field: Annotated[
        str,
        _path(
            "The field that names the controller of the object. Without such a field, the object "
            "stays suspended on the manager while its copy runs."
        ),
    ] = ""
    own_controller: Annotated[
        str, described("The value of that field that names the kind's own controller.")
    ] = ""
    dropped_fields: Annotated[
        tuple[Annotated[str, _path("")], ...],
        described("Fields that the copy must not have, such as a time to live.", maxItems=32),
    ] = ()
    returned_fields: Annotated[
        tuple[Annotated[str, _path("")], ...],
        described(
            "Fields of the status that are copied back; by default the whole status.", maxItems=32
        ),
    ] = ()
    status_subresource: Annotated[
        bool,
        described(
            "Whether the CRD of the kind has the subresource status; if not, the status is "
            "written with the object.",
            default=True,
        ),
    ] = True
    ended_status: Annotated[
        str,
        _cel(
            "The status, a map, of an object whose copy ended and was deleted before its status "
            "was read. The variables success and message say how it ended. By default a condition "
            "Complete or Failed."
        ),
    ] = ""


class JobKindSpec(Struct, frozen=True, kw_only=True):
    """Which kind it is, and how to read and start its objects."""

    rules: ClassVar = (
        SchemaRule(
            "self.group == oldSelf.group && self.version == oldSelf.version && "
            "self.kind == oldSelf.kind && self.plural == oldSelf.plural",
            "group, version, kind and plural are immutable; create another JobKind",
        ),
    )

    group: Annotated[
        str,
        described(
            "API group, such as argoproj.io.",
            required=True,
            minLength=1,
            maxLength=253,
            pattern=SUBDOMAIN_PATTERN,
        ),
    ] = ""
    version: Annotated[
        str,
        described("Version, such as v1alpha1.", required=True, maxLength=63, pattern=LABEL_PATTERN),
    ] = ""
    kind: Annotated[
        str,
        described(
            "Kind, such as Workflow.",
            required=True,
            maxLength=63,
            pattern=r"^[A-Z][A-Za-z0-9]*$",
        ),
    ] = ""
    plural: Annotated[
        str,
        described(
            "Name of the resource, such as workflows.",
            required=True,
            maxLength=63,
            pattern=LABEL_PATTERN,
        ),
    ] = ""
    suspend: Annotated[SuspendField, described("How objects are suspended.", default={})] = (
        SuspendField()
    )
    pod_sets: Annotated[
        tuple[JobKindPodSet, ...],
        described("The pods of an object.", required=True, minItems=1, maxItems=16),
    ] = ()
    states: Annotated[
        JobKindStates, described("What the status of an object means.", required=True)
    ] = JobKindStates()
    priority_class: Annotated[
        str, _cel("Name of the PriorityClass of the pods, a string; by default the template's.")
    ] = ""
    pod_selector: Annotated[
        str,
        _cel("A label selector of all pods of the object, such as 'job=' + self.metadata.name."),
    ] = ""
    multi_kueue: Annotated[
        RemoteCopy | None,
        described("How objects run on workers; without it, they run on this cluster only."),
    ] = None


class JobKindStatus(Struct, frozen=True, kw_only=True):
    """Whether the kind is queued."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class JobKind(Struct, frozen=True, kw_only=True):
    """A kind of job that is queued like the built-in ones."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        JobKindSpec, described("Which kind it is, and how to read it.", required=True)
    ] = JobKindSpec()
    status: Annotated[JobKindStatus, described("Whether it is queued.")] = JobKindStatus()
