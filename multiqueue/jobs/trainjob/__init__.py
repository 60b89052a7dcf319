"""TrainJob: training by a runtime that says which Jobs run."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.trainjob.integration import TrainJob
from multiqueue.jobs.trainjob.multikueue import TrainJobAdapter
from multiqueue.jobs.trainjob.webhook import TrainJobWebhook


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for TrainJobs."""
    kind = TrainJob(row)
    return SupportedKind(
        integration=kind, webhook=TrainJobWebhook(kind), adapter=TrainJobAdapter(kind)
    )
