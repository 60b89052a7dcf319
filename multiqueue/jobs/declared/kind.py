"""A declared kind as a queued kind: what its JobKind says takes the place of code. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.api.v1alpha1 import AdmissionPaths, JobKindPodSet
from multiqueue.api.v1beta2 import PodSet, ReclaimablePod
from multiqueue.jobs.declared.compiled import CompiledKind, row_of
from multiqueue.jobs.declared.expressions import NoValueError
from multiqueue.jobs.framework.fields import (
    FieldPath,
    drop_field,
    get_field,
    parse_path,
    set_field,
)
from multiqueue.jobs.framework.integration import (
    Finished,
    InvalidJobError,
    Job,
    JobPatch,
    PodSetInfo,
)
from multiqueue.jobs.framework.pod_set_info import (
    StartConflictError,
    apply_info,
    restore_template,
)
from multiqueue.jobs.framework.template_kind import PodSetSource, TemplateKind, write_job

NO_PATHS = AdmissionPaths()
MAX_PODS = 2**31 - 1
_ADMISSION_FIELDS: Sequence[tuple[str, FieldPath, bool]] = (
    ("labels", ("metadata", "labels"), False),
    ("annotations", ("metadata", "annotations"), False),
    ("node_selector", ("spec", "nodeSelector"), True),
    ("tolerations", ("spec", "tolerations"), True),
    ("scheduling_gates", ("spec", "schedulingGates"), True),
)
"""Of each admission path: its name, its place in a pod template, and whether pods would run in the
wrong place without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSource(PodSetSource):
    """One pod set of a declared kind.

    Attributes:
        computed: The pod template that an expression made; None if the object has one.
        base: The path below which the admission paths are.
        paths: Where the object has the fields that an admission adds to.
    """

    computed: Mapping[str, Any] | None = None
    base: FieldPath = ()
    paths: AdmissionPaths = NO_PATHS

    def places(self) -> Iterator[tuple[FieldPath | None, FieldPath, bool]]:
        """Yield, for each field of an admission, its path in the object and in a template."""
        for name, in_template, needed in _ADMISSION_FIELDS:
            path: str = getattr(self.paths, name)
            yield ((*self.base, *parse_path(path)) if path else None, in_template, needed)


class DeclaredKind(TemplateKind):
    """The integration of a kind that a JobKind declares.

    A job without a status has not begun: then no expression of ``states`` is evaluated. If one has
    no value later, the job is taken to run and not to be ready, so that its quota is held, and
    `on_failure` is told.

    Args:
        compiled: The JobKind.

    Attributes:
        compiled: The JobKind; another version of it may take its place at any time.
        on_failure: Called with a job and the words about an expression that has no value for it.
    """

    def __init__(self, compiled: CompiledKind) -> None:
        super().__init__(row_of(compiled.spec))
        self.on_failure: Callable[[Job, str], None] = lambda _job, _words: None
        self.use(compiled)

    def use(self, compiled: CompiledKind) -> None:
        """Use another version of the JobKind from now on."""
        self.compiled = compiled
        remote = compiled.spec.multi_kueue
        self.suspend_field = parse_path(compiled.spec.suspend.field)
        self.managed_by_field = (
            parse_path(remote.managed_by_field) if remote and remote.managed_by_field else None
        )
        self.own_controller = remote.own_controller if remote else ""

    # ------------------------------------------------------------ pod sets

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return one pod set for each entry of podSets, or for each item of its list.

        Raises:
            InvalidJobError: an expression has no value, or there is no pod template.
        """
        found = [
            source
            for position, pod_set in enumerate(self.compiled.spec.pod_sets)
            for source in self._sources_of(job, position, pod_set)
        ]
        names = [source.name for source in found]
        for name in names:
            if names.count(name) > 1:
                raise InvalidJobError(
                    f'the JobKind makes two pod sets with the name "{name}"; names must be unique'
                )
        return found

    def _sources_of(
        self, job: Job, position: int, pod_set: JobKindPodSet
    ) -> Iterator[DeclaredSource]:
        field = f"spec.podSets[{position}]"
        if not pod_set.for_each:
            yield self._source(field, pod_set, (), {"self": job}, pod_set.name)
            return
        base = parse_path(pod_set.for_each)
        items = get_field(job, base) or ()
        if not isinstance(items, list):
            raise InvalidJobError(f"{pod_set.for_each}: is not a list")
        for index, item in enumerate(items):
            variables = {"self": job, "item": item, "index": index}
            name = self._value(f"{field}.nameExpression", variables)
            yield self._source(field, pod_set, (*base, index), variables, name)

    def _source(
        self,
        field: str,
        pod_set: JobKindPodSet,
        base: FieldPath,
        variables: Mapping[str, Any],
        name: str,
    ) -> DeclaredSource:
        count = self._value(f"{field}.count", variables)
        if count > MAX_PODS:
            raise InvalidJobError(f"{field}.count: {count} pods are more than {MAX_PODS}")
        template = (*base, *parse_path(pod_set.template))
        computed = None
        if pod_set.template_expression:
            computed = self._value(f"{field}.templateExpression", variables)
        source = DeclaredSource(
            name=name,
            template=template,
            count=count,
            shown=f"templateExpression of the JobKind ({field})" if computed is not None else "",
            computed=computed,
            base=base,
            paths=pod_set.admission,
        )
        if computed is None and not isinstance(get_field(variables["self"], template), Mapping):
            raise InvalidJobError(f"{source.path}: there is no pod template; add one")
        return source

    def _value(self, field: str, variables: Mapping[str, Any]) -> Any:
        try:
            return self.compiled.expressions[field].value(variables)
        except NoValueError as error:
            self.on_failure(variables["self"], str(error))
            raise InvalidJobError(f"JobKind of {self.gvk.kind}: {error}") from error

    def template_of(self, job: Job, source: PodSetSource) -> Mapping[str, Any]:
        """Return the object's pod template, or the computed one with the admission's fields."""
        if not isinstance(source, DeclaredSource) or source.computed is None:
            return super().template_of(job, source)
        template: Job = dict(source.computed)
        for path, in_template, _ in source.places():
            value = get_field(job, path) if path is not None else None
            if value:
                template = set_field(template, in_template, value)
        return template

    # ------------------------------------------------------------ start and stop

    def is_suspended(self, job: Job) -> bool:
        """Whether the suspend field has the value of a waiting object."""
        wanted = self.compiled.spec.suspend.suspended_value
        value = get_field(job, self.suspend_field)
        return type(value) is type(wanted) and value == wanted

    def set_suspended(self, job: Job, *, value: bool) -> Job:
        """Return the job with its suspend field set, or without that field."""
        suspend = self.compiled.spec.suspend
        wanted = suspend.suspended_value if value else suspend.running_value
        changed: Job = (
            drop_field(job, self.suspend_field)
            if wanted is None
            else set_field(job, self.suspend_field, wanted)
        )
        return changed

    def started(self, job: Job, infos: Sequence[PodSetInfo]) -> Job:
        """Return the job with the admission's fields, not suspended.

        Raises:
            InvalidJobError: the admission has another number of pod sets (J-119).
            StartConflictError: a field to add contradicts the template, or the JobKind does not
                say where it goes.
        """
        sources = self.read_sources(job)
        if len(sources) != len(infos):
            raise InvalidJobError(
                f"invalid podset infos: expecting {len(sources)} podset, got {len(infos)}"
            )
        for source, info in zip(sources, infos, strict=True):
            template = apply_info(self.template_of(job, source), info)
            job = self._with_admission(job, source, template)
        return self.set_suspended(job, value=False)

    def restored(self, job: Job, pod_sets: Sequence[PodSet]) -> Job:
        """Return the job with the fields of its Workload's templates that a start changed."""
        sources = self.read_sources(job)
        if len(sources) != len(pod_sets):
            return job
        for source, pod_set in zip(sources, pod_sets, strict=True):
            template = restore_template(self.template_of(job, source), pod_set.template)
            job = self._with_admission(job, source, template)
        return job

    def _with_admission(self, job: Job, source: PodSetSource, template: Mapping[str, Any]) -> Job:
        if not isinstance(source, DeclaredSource) or source.computed is None:
            whole: Job = set_field(job, source.template, template)
            return whole
        for path, in_template, needed in source.places():
            value = get_field(template, in_template)
            if path is not None:
                job = set_field(job, path, value) if value else _drop(job, path)
            elif needed and value and value != get_field(source.computed, in_template):
                raise StartConflictError(
                    f'pod set "{source.name}": the admission sets {in_template[-1]} of its pods, '
                    f"but the JobKind does not say where; set podSets[].admission."
                    f"{in_template[-1]} in it"
                )
        return job

    def stop_patch(self, job: Job, pod_sets: Sequence[PodSet]) -> JobPatch | None:
        """Return the write that suspends the job; if that ends no pods, the write that ends it.

        None while the pods of a job that was ended are still there.
        """
        stopped = self.compiled.spec.suspend.stopped_value
        if stopped is not None and not self.is_suspended(job):
            if get_field(job, self.suspend_field) == stopped:
                return None
            if self.is_active(job):
                return write_job(job, set_field(job, self.suspend_field, stopped))
        return super().stop_patch(job, pod_sets)

    # ------------------------------------------------------------ states

    def finished(self, job: Job) -> Finished | None:
        """Return how the job ended, by ``states.succeeded`` and ``states.failed``."""
        success = self._state(job, "succeeded", if_unknown=False)
        if not success and not self._state(job, "failed", if_unknown=False):
            return None
        message = self._state(job, "message", if_unknown="") or ""
        ended = "the job succeeded" if success else "the job failed"
        return Finished(success=success, message=message or ended)

    def is_active(self, job: Job) -> bool:
        """Whether pods run, by ``states.active``."""
        return bool(self._state(job, "active", if_unknown=True))

    def pods_ready(self, job: Job) -> bool:
        """Whether all pods are ready, by ``states.ready`` or else by ``states.active``."""
        field = "ready" if "spec.states.ready" in self.compiled.expressions else "active"
        return bool(self._state(job, field, if_unknown=False))

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Return the pods that ended for good, by ``states.reclaimablePods``."""
        found = self._state(job, "reclaimablePods", if_unknown={}) or {}
        return tuple(
            ReclaimablePod(name=name, count=count)
            for name, count in sorted(found.items())
            if isinstance(count, int) and not isinstance(count, bool) and count > 0
        )

    def _state(self, job: Job, name: str, *, if_unknown: Any) -> Any:
        """Return the value of a state; None if the job has no status, or the JobKind no such."""
        expression = self.compiled.expressions.get(f"spec.states.{name}")
        if expression is None or not job.get("status"):
            return None
        return self._optional(expression.field, job, if_unknown=if_unknown)

    def _optional(self, field: str, job: Job, *, if_unknown: Any) -> Any:
        try:
            return self.compiled.expressions[field].value({"self": job})
        except NoValueError as error:
            self.on_failure(job, str(error))
            return if_unknown

    def priority_class(self, job: Job) -> str:
        """Return the PriorityClass, by ``priorityClass`` or else by the templates."""
        field = "spec.priorityClass"
        if field not in self.compiled.expressions:
            return super().priority_class(job)
        return str(self._optional(field, job, if_unknown=""))

    def pod_selector(self, job: Job) -> str:
        """Return the labels of the pods, by ``podSelector``."""
        field = "spec.podSelector"
        if field not in self.compiled.expressions:
            return ""
        return str(self._optional(field, job, if_unknown=""))


def _drop(job: Job, path: FieldPath) -> Job:
    """Return the job without a field, and without the mappings that are empty then."""
    job = drop_field(job, path)
    for end in range(len(path) - 1, 1, -1):
        if get_field(job, path[:end]) == {}:
            job = drop_field(job, path[:end])
    return job
