"""JobSet: several groups of Jobs that start together."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.framework.copy_adapter import CopyAdapter
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook
from multiqueue.jobs.jobset.integration import JobSet
from multiqueue.jobs.registry import SupportedKind


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for JobSets."""
    kind = JobSet(row)
    return SupportedKind(
        integration=kind, webhook=TemplateKindWebhook(kind), adapter=CopyAdapter(kind)
    )
