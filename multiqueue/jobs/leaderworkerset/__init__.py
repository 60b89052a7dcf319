"""LeaderWorkerSets: each replica is a group of pods. Parity: J-296 to J-315."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.leaderworkerset.integration import LeaderWorkerSetKind
from multiqueue.jobs.leaderworkerset.multikueue import GroupSource
from multiqueue.jobs.leaderworkerset.webhook import LeaderWorkerSetWebhook
from multiqueue.jobs.pod_owners.multikueue import PodOwnerAdapter
from multiqueue.jobs.pod_owners.reconciler import GroupOwnerReconciler
from multiqueue.jobs.registry import SupportedKind


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for LeaderWorkerSets."""
    kind = LeaderWorkerSetKind(row)
    return SupportedKind(
        integration=kind,
        webhook=LeaderWorkerSetWebhook(kind),
        adapter=PodOwnerAdapter(kind),
        source=GroupSource,
        controllers=lambda context: (GroupOwnerReconciler(context, kind),),
    )
