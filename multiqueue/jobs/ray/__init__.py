"""RayCluster, RayJob and RayService: a head, and groups of workers."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.ray.integration import RayCluster, RayJob, RayService
from multiqueue.jobs.ray.multikueue import RayClusterAdapter, RayJobAdapter, RayServiceAdapter
from multiqueue.jobs.ray.webhook import RayClusterWebhook, RayJobWebhook, RayServiceWebhook
from multiqueue.jobs.registry import SupportedKind


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for one of the three kinds."""
    if row.kind == "RayJob":
        job = RayJob(row)
        return SupportedKind(
            integration=job, webhook=RayJobWebhook(job), adapter=RayJobAdapter(job)
        )
    if row.kind == "RayService":
        service = RayService(row)
        return SupportedKind(
            integration=service,
            webhook=RayServiceWebhook(service),
            adapter=RayServiceAdapter(service),
        )
    cluster = RayCluster(row)
    return SupportedKind(
        integration=cluster, webhook=RayClusterWebhook(cluster), adapter=RayClusterAdapter(cluster)
    )
