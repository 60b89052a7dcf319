"""The one place that writes the status of MultiKueueClusters."""

from __future__ import annotations

from collections.abc import Sequence

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import Condition
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.status_writes import write_status


async def write_conditions(
    context: ManagerContext, cluster: api.MultiKueueCluster, conditions: Sequence[Condition]
) -> bool:
    """Write all conditions if they differ from those seen, and only over those.

    Returns:
        Whether they were written: they differ, and the cluster is still there.

    Raises:
        Conflict: somebody wrote in between.
    """
    if conditions == cluster.status.conditions:
        return False
    status = {"conditions": [encode(condition) for condition in conditions]}
    informer = context.informers.multikueue_clusters
    return await write_status(context.client, informer, cluster, status) is not None
