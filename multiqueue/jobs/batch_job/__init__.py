"""batch/v1 Job."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.jobs.batch_job.webhook import BatchJobWebhook
from multiqueue.jobs.registry import SupportedKind


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for Jobs."""
    _ = row
    return SupportedKind(
        integration=BatchJob(), webhook=BatchJobWebhook(), adapter=BatchJobAdapter()
    )
