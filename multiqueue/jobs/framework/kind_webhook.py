"""The defaults and rules of a kind's objects: the protocol, and the base of most kinds. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.api.validation.access import Object
from multiqueue.api.validation.field_error import FieldError
from multiqueue.api.validation.job_metadata import validate_job_metadata_update
from multiqueue.api.validation.topology_annotations import (
    AnnotatedPodSet,
    validate_pod_set_groups,
    validate_slices_fit,
    validate_topology_annotations,
)
from multiqueue.jobs.framework.defaulting import (
    JobDefaults,
    QueueLookup,
    default_labels,
    is_managed,
    is_to_delegate,
    queue_of,
)
from multiqueue.jobs.framework.fields import get_field, set_field
from multiqueue.jobs.framework.integration import InvalidJobError, Job
from multiqueue.jobs.framework.job_rules import (
    KindSupport,
    validate_new_job,
)
from multiqueue.jobs.framework.template_kind import TemplateKind


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookScope:
    """Which objects of a kind the API server asks about, as CEL over ``object``.

    Attributes:
        queued: The objects that need an answer; empty for those with a queue label.
        others: Of the others, the objects that may get the default queue; empty for all of them,
            None for none of them.
        validated: Of the queued objects, those whose creation or change is validated, as CEL over
            ``object`` and ``oldObject``; empty for all of them.
    """

    queued: str = ""
    others: str | None = ""
    validated: str = ""


class KindWebhook(Protocol):
    """What the webhooks do for one kind."""

    @property
    def mutates_on(self) -> Sequence[str]:
        """The operations at which defaults are set: CREATE, and UPDATE for some kinds (J-38)."""
        ...

    def default(self, job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
        """Return the job to create, with its defaults. The argument is not changed."""
        ...

    def validate_create(self, job: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a new job."""
        ...

    def validate_update(self, new: Object, old: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a change."""
        ...


class TemplateKindWebhook:
    """The webhook of kinds that hold pod templates and a suspend field; kinds add their own rules.

    Args:
        kind: The kind's integration.
        prebuilt: Whether a job of the kind may name a prebuilt Workload (J-55).
        elastic: Whether a job of the kind may be elastic (J-58).
        pairs: Whether pod sets with a group name must be pairs (J-77).

    Attributes:
        repeats_create_rules: Whether a change must obey the rules for new jobs, too (J-67).
        checks_topology: Whether the topology annotations of the templates are checked (J-71).
    """

    mutates_on: Sequence[str] = ("CREATE",)
    repeats_create_rules = True
    checks_topology = True

    def __init__(
        self,
        kind: TemplateKind,
        *,
        prebuilt: bool = True,
        elastic: bool = False,
        pairs: bool = True,
    ) -> None:
        self.kind = kind
        self.pairs = pairs
        self.support = KindSupport(gvk=kind.gvk, prebuilt=prebuilt, elastic=elastic)

    # ------------------------------------------------------------ what a kind adds

    def default_more(self, job: Job, config: Configuration) -> Job:
        """Return a managed job with the defaults that only this kind has."""
        return job

    def validate_more(self, job: Job, config: Configuration) -> Iterator[FieldError]:
        """Yield the errors of a job by the rules that only this kind has."""
        yield from ()

    def validate_more_update(
        self, new: Job, old: Job, config: Configuration
    ) -> Iterator[FieldError]:
        """Yield the errors of a change by the rules that only this kind has."""
        yield from ()

    # ------------------------------------------------------------ what all of them share

    def default(self, job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
        """Give a new job its queue, suspend it, and delegate it if its queue uses MultiKueue."""
        result: Job = copy.deepcopy(dict(job))
        default_labels(result, lookup, config)
        if not isinstance(result.get("spec"), dict) or not is_managed(result, lookup, config):
            return JobDefaults(result)
        if self.kind.is_skipped(result):
            return JobDefaults(result)
        result = self.kind.set_suspended(result, value=True)
        result = self._delegated(result, lookup, config)
        return JobDefaults(self.default_more(result, config))

    def _delegated(self, job: Job, lookup: QueueLookup, config: Configuration) -> Job:
        """Set the field of the job's controller if its queue sends jobs to workers (J-49)."""
        field, own = self.kind.managed_by_field, self.kind.own_controller
        if field is None or not is_to_delegate(
            job, lookup, config, managed_by=get_field(job, field), own_controller=own
        ):
            return job
        delegated: Job = set_field(job, field, names.MULTIKUEUE_CONTROLLER)
        return delegated

    def validate_create(self, job: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a new job; if it is not queued, only its labels are checked."""
        return list(self._validate(job, config))

    def validate_update(self, new: Object, old: Object, config: Configuration) -> list[FieldError]:
        """Return the errors of a change."""
        suspended, was_suspended = (self.kind.is_suspended(dict(job)) for job in (new, old))
        errors = list(self._validate(new, config)) if self.repeats_create_rules else []
        errors.extend(
            validate_job_metadata_update(
                new, old, config.gates, suspended=suspended, was_suspended=was_suspended
            )
        )
        if is_queued(new, config) or is_queued(old, config):
            errors.extend(self.validate_more_update(dict(new), dict(old), config))
        return errors

    def _validate(self, job: Object, config: Configuration) -> Iterator[FieldError]:
        yield from validate_new_job(job, config.gates, self.support)
        if not is_queued(job, config):
            return
        yield from self.validate_more(dict(job), config)
        if self.checks_topology:
            yield from self._topology(dict(job))

    def _topology(self, job: Job) -> Iterator[FieldError]:
        try:
            pod_sets = [
                AnnotatedPodSet(
                    path=source.path, template=self.kind.template_of(job, source), pods=source.count
                )
                for source in self.kind.read_sources(job)
            ]
        except InvalidJobError:
            return  # the reconciler reports it
        for each in pod_sets:
            yield from validate_topology_annotations(each.template, each.path)
            yield from validate_slices_fit(each.template, each.path, each.pods)
        if self.pairs:
            yield from validate_pod_set_groups(pod_sets)


def is_queued(job: Object, config: Configuration) -> bool:
    """Whether a job names a queue, or is managed without one."""
    return bool(queue_of(job)) or config.manage_jobs_without_queue_name
