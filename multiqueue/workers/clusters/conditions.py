"""The one place that writes the status of MultiKueueClusters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1beta2 import Condition
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS


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
    patch = {
        "metadata": {"resourceVersion": cluster.metadata.resource_version},
        "status": {"conditions": [encode(condition) for condition in conditions]},
    }
    try:
        written = await context.client.patch(
            MULTIKUEUE_CLUSTERS,
            cluster.metadata.name,
            patch,
            subresource="status",
            decode=partial(decode, api.MultiKueueCluster),
        )
    except NotFound:
        return False
    context.informers.multikueue_clusters.observe(written)
    return True
