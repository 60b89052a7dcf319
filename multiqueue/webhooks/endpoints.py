"""The answers of each webhook. Pure: queues are read from memory, and nothing is written.

All of them are safe for dry runs, because none has side effects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from multiqueue.api.config import DENY, Configuration
from multiqueue.api.conversion.convert import convert
from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.api.names import APPROVED_BY, DEFAULT_QUEUE, V1BETA1, V1BETA2
from multiqueue.api.validation.access import mapping
from multiqueue.api.validation.field_error import forbidden
from multiqueue.api.validation.kinds import RULES
from multiqueue.api.validation.unqueued import LABEL, find_unqueued
from multiqueue.jobs.framework.defaulting import QueueLookup
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.job_rules import validate_left_queue
from multiqueue.jobs.framework.kind_webhook import KindWebhook
from multiqueue.jobs.registry import IntegrationRegistry, SupportedKind
from multiqueue.webhooks.advice import Advise, no_advice
from multiqueue.webhooks.review import MalformedReviewError, ReviewRequest, ReviewVerdict

Handler = Callable[[ReviewRequest], ReviewVerdict]

MUTATED_KINDS = tuple(kind for kind, rules in RULES.items() if rules.has_defaults)
VALIDATED_KINDS = tuple(kind for kind, rules in RULES.items() if rules.has_rules)
CONVERT = "/convert"
MUTATE_UNLABELLED = "/mutate-jobs-without-a-queue"
DECLARED = "declared-jobs"
"""Ends the path of the endpoints for jobs of all declared kinds."""
MUTATE_QUOTA_PLANS = "/mutate-multiqueue-dev-v1alpha1-quotaplan"
VALIDATE_UNQUEUED = "/validate-kinds-that-are-not-queued"


def mutate_path(kind: str) -> str:
    """Return the path of a kind's mutating endpoint, as upstream names it."""
    return f"/mutate-kueue-x-k8s-io-v1beta2-{kind.lower()}"


def validate_path(kind: str) -> str:
    """Return the path of a kind's validating endpoint."""
    return f"/validate-kueue-x-k8s-io-v1beta2-{kind.lower()}"


def job_path(verb: str, gvk: GroupVersionKind) -> str:
    """Return the path of a job kind's endpoint, as upstream names it (J-35)."""
    group = gvk.group.replace(".", "-")
    return f"/{verb}-{group}-{gvk.version}-{gvk.kind.lower()}"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """All endpoints, over one view of the queues."""

    lookup: QueueLookup
    config: Configuration
    kinds: IntegrationRegistry
    advise: Advise = no_advice

    def table(self) -> Mapping[str, Handler]:
        """Return the handler of each path."""
        handlers: dict[str, Handler] = {
            MUTATE_UNLABELLED: self.mutate_job,
            VALIDATE_UNQUEUED: self.validate_unqueued,
            MUTATE_QUOTA_PLANS: _only("QuotaPlan", stamp_approval),
            f"/mutate-{DECLARED}": self.mutate_job,
            f"/validate-{DECLARED}": self.validate_job,
        }
        for row in JOB_KINDS:
            if row.framework:
                gvk = GroupVersionKind(row.group, row.version, row.kind)
                handlers[job_path("mutate", gvk)] = _only(row.kind, self.mutate_job)
                handlers[job_path("validate", gvk)] = _only(row.kind, self.validate_job)
        for kind in MUTATED_KINDS:
            handlers[mutate_path(kind)] = _only(kind, self.mutate_kind)
        for kind in VALIDATED_KINDS:
            handlers[validate_path(kind)] = _only(kind, self.validate_kind)
        return handlers

    def mutate_job(self, request: ReviewRequest) -> ReviewVerdict:
        """Set the defaults of a job; a kind that is not enabled stays as it is (J-12)."""
        webhook = self._find_webhook(request)
        if webhook is None or request.operation not in webhook.mutates_on or request.subresource:
            return ReviewVerdict()
        job = _with_namespace(request)
        result = webhook.default(job, self.lookup, self.config)
        changed = result.job
        if job is not request.obj:  # the namespace came from the request only
            changed["metadata"].pop("namespace", None)
        return ReviewVerdict(changed=changed, warnings=result.warnings)

    def validate_job(self, request: ReviewRequest) -> ReviewVerdict:
        """Refuse jobs that can never be queued, and forbidden changes of queued jobs."""
        webhook = self._find_webhook(request)
        if webhook is None or request.subresource or _is_leaving(request):
            return ReviewVerdict()
        if request.operation == "CREATE":
            errors = webhook.validate_create(request.obj, self.config)
        else:
            errors = webhook.validate_update(request.obj, request.old, self.config)
            if self.lookup.has_local_queue(request.namespace, DEFAULT_QUEUE):
                errors += validate_left_queue(request.obj, request.old, errors)
        return ReviewVerdict(errors=errors, warnings=self.advise(request, _with_kind(request)))

    def _find_webhook(self, request: ReviewRequest) -> KindWebhook | None:
        gvk = GroupVersionKind(request.group, "", request.kind)
        kind: SupportedKind | None = self.kinds.find_kind(gvk)
        return None if kind is None or kind.is_external else kind.webhook

    def validate_unqueued(self, request: ReviewRequest) -> ReviewVerdict:
        """Warn about, or refuse, an object that names a queue but is not queued.

        This applies only when the object gets the label: existing ones must stay changeable.
        """
        enabled = frozenset(kind.integration.name for kind in self.kinds.kinds)
        if request.subresource or _is_leaving(request) or find_unqueued(request.old, enabled):
            return ReviewVerdict()
        found = find_unqueued(request.obj, enabled)
        if found is None:
            return ReviewVerdict()
        if self.config.unsupported_kinds == DENY:
            return ReviewVerdict(errors=[forbidden(LABEL, f"{found.what}; {found.todo}")])
        return ReviewVerdict(warnings=[f"{LABEL}: {found.what}; {found.todo}"])

    def mutate_kind(self, request: ReviewRequest) -> ReviewVerdict:
        """Set the defaults of an object of our kinds, in any version."""
        if request.subresource or _is_leaving(request):
            return ReviewVerdict()
        rules = RULES[request.kind]
        if request.obj.get("apiVersion") != V1BETA1:
            return ReviewVerdict(changed=rules.default(request.obj, gates=self.config.gates))
        hub = rules.default(convert(request.obj, V1BETA2), gates=self.config.gates)
        return ReviewVerdict(changed=convert(hub, V1BETA1))

    def validate_kind(self, request: ReviewRequest) -> ReviewVerdict:
        """Check an object of our kinds by the rules of its kind."""
        if request.operation == "DELETE" or _is_leaving(request):
            return ReviewVerdict()
        rules = RULES[request.kind]
        new = convert(request.obj, V1BETA2)
        if request.operation == "CREATE":
            errors = rules.validate_create(new, self.config.gates)
        else:
            errors = rules.validate_update(new, convert(request.old, V1BETA2), self.config.gates)
        warnings = [] if request.subresource else rules.warn(new)
        return ReviewVerdict(
            errors=errors, warnings=[*warnings, *self.advise(request, new, warnings)]
        )


def stamp_approval(request: ReviewRequest) -> ReviewVerdict:
    """Write who agreed to a change of quotas into an annotation that nobody else can write."""
    if request.subresource or _is_leaving(request):
        return ReviewVerdict()
    approved, before = (mapping(obj, "spec").get("approved") for obj in (request.obj, request.old))
    metadata = mapping(request.obj, "metadata")
    annotations = {**mapping(metadata, "annotations")}
    by = annotations.pop(APPROVED_BY, None)
    if approved and approved != before:
        annotations[APPROVED_BY] = request.user
    elif approved:
        kept = mapping(mapping(request.old, "metadata"), "annotations").get(APPROVED_BY)
        if kept is not None:
            annotations[APPROVED_BY] = kept
    if annotations.get(APPROVED_BY) == by:
        return ReviewVerdict()
    return ReviewVerdict(
        changed={**request.obj, "metadata": {**metadata, "annotations": annotations}}
    )


def _only(kind: str, handler: Handler) -> Handler:
    """Return a handler that refuses all kinds but one, since anybody can send anything."""

    def handle(request: ReviewRequest) -> ReviewVerdict:
        if request.kind != kind:
            raise MalformedReviewError(f"request.kind.kind: must be {kind}", uid=request.uid)
        return handler(request)

    return handle


def _is_leaving(request: ReviewRequest) -> bool:
    """Whether the object is being deleted: nothing may block the removal of its finalizers."""
    return bool(mapping(request.obj, "metadata").get("deletionTimestamp"))


def _with_kind(request: ReviewRequest) -> dict[str, object]:
    return {**_with_namespace(request), "kind": request.kind}


def _with_namespace(request: ReviewRequest) -> dict[str, object]:
    metadata = request.obj.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return request.obj
    return {**request.obj, "metadata": {**metadata, "namespace": request.namespace}}
