"""The rules of StatefulSets. Pure. Parity: J-285, J-288."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.config import Configuration
from multiqueue.api.validation.field_error import FieldError, forbidden, immutable
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.pod_owners.webhook import PodOwnerWebhook
from multiqueue.jobs.statefulset.integration import replicas_of


class StatefulSetWebhook(PodOwnerWebhook):
    """The webhook of StatefulSets.

    Deviates: a set may grow again before its Workload gave its quota back. Upstream refuses that;
    here the Workload first gives it back, and then asks for the new number of pods.
    """

    def validate_more_update(
        self, new: Job, old: Job, config: Configuration
    ) -> Iterator[FieldError]:
        """Refuse another size, except through zero, and another shape."""
        yield from self.validate_shape(new, old)
        before, after = replicas_of(old), replicas_of(new)
        if before and after and before != after:
            yield immutable("spec.replicas", after)
        elif after and not before and get_field(old, ("status", "replicas")):
            yield forbidden("spec.replicas", "scaling down is still in progress")
