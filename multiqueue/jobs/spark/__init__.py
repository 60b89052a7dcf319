"""SparkApplication: a driver and its executors."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.spark.integration import SparkApplication
from multiqueue.jobs.spark.webhook import SparkApplicationWebhook


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for SparkApplications; they cannot run on workers."""
    kind = SparkApplication(row)
    webhook = SparkApplicationWebhook(kind, prebuilt=False)
    return SupportedKind(integration=kind, webhook=webhook)
