"""Deployments: each of their pods is queued by itself. Parity: J-264 to J-273."""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.framework.fields import FieldPath
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.pod_owners.kind import PodOwnerKind
from multiqueue.jobs.pod_owners.webhook import PodOwnerWebhook, followed_labels, with_metadata
from multiqueue.jobs.registry import SupportedKind


class DeploymentWebhook(PodOwnerWebhook):
    """The webhook of Deployments: it makes each pod a queued pod of its own (J-264)."""

    def stamp_template(self, job: Job, template: Job, path: FieldPath) -> Job:
        """Return the template with queue and priority class; another queue starts a rollout."""
        stamped = super().stamp_template(job, template, path)
        return with_metadata(stamped, labels={names.MANAGED: "true", **followed_labels(job)})


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for Deployments; nothing reconciles them, only their pods."""
    kind = PodOwnerKind(row, ("spec", "template"))
    return SupportedKind(
        integration=kind, webhook=DeploymentWebhook(kind), controllers=lambda _: ()
    )
