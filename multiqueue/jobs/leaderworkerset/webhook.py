"""The defaults and rules of LeaderWorkerSets. Pure. Parity: J-300, J-304, J-305."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api import names
from multiqueue.api.config import Configuration, Gate
from multiqueue.api.validation.field_error import FieldError, immutable, invalid
from multiqueue.jobs.framework.fields import FieldPath, describe_path, get_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.leaderworkerset.integration import (
    LEADER_TEMPLATE,
    WORKER_TEMPLATE,
    has_leader,
    size_of,
)
from multiqueue.jobs.pod_owners.webhook import PodOwnerWebhook, followed_labels, with_metadata

MAX_REPLICAS = 1_000_000


class LeaderWorkerSetWebhook(PodOwnerWebhook):
    """The webhook of LeaderWorkerSets."""

    def stamp_template(self, job: Job, template: Job, path: FieldPath) -> Job:
        """Mark a template; workers count on from their leader unless both are placed together."""
        annotations = {names.POD_GROUP_SERVING: "true"}
        own = get_field(template, ("metadata", "annotations")) or {}
        is_worker = path == WORKER_TEMPLATE
        if is_worker and has_leader(job) and names.PODSET_GROUP_NAME not in own:
            annotations[names.POD_INDEX_OFFSET] = "1"
        return with_metadata(
            super().stamp_template(job, template, path),
            labels=followed_labels(job),
            annotations=annotations,
        )

    def validate_more(self, job: Job) -> Iterator[FieldError]:
        """Check the number of groups (J-304)."""
        replicas = get_field(job, ("spec", "replicas"))
        if isinstance(replicas, int) and not 0 <= replicas <= MAX_REPLICAS:
            yield invalid("spec.replicas", replicas, f"must be from 0 to {MAX_REPLICAS}")

    def validate_more_update(
        self, new: Job, old: Job, config: Configuration
    ) -> Iterator[FieldError]:
        """Refuse another size of the groups, another shape, and a leader that comes or goes."""
        is_fixed = config.gates.enabled(Gate.LWS_IMMUTABLE_GROUP_SIZE)
        if is_fixed and size_of(new) != size_of(old):
            yield immutable("spec.leaderWorkerTemplate.size", size_of(new))
        if has_leader(new) != has_leader(old):
            yield immutable(describe_path(LEADER_TEMPLATE), get_field(new, LEADER_TEMPLATE))
        yield from self.validate_shape(new, old)
