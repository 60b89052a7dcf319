"""StatefulSets: all pods of a set are one group. Parity: J-274 to J-295."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.pod_owners.multikueue import PodOwnerAdapter
from multiqueue.jobs.pod_owners.reconciler import GroupOwnerReconciler
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.statefulset.integration import StatefulSetKind
from multiqueue.jobs.statefulset.webhook import StatefulSetWebhook


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for StatefulSets."""
    kind = StatefulSetKind(row)
    return SupportedKind(
        integration=kind,
        webhook=StatefulSetWebhook(kind),
        adapter=PodOwnerAdapter(kind),
        controllers=lambda context: (GroupOwnerReconciler(context, kind),),
    )
