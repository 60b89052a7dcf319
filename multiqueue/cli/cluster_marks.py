"""Sets and removes annotations of a MultiKueueCluster for the user."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from multiqueue.cli.errors import CliError

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import MultiKueueCluster
    from multiqueue.kube.client import KubeClient


async def read_cluster(client: KubeClient, name: str) -> MultiKueueCluster:
    """Return a MultiKueueCluster.

    Raises:
        CliError: there is no MultiKueueCluster of that name.
    """
    from multiqueue.api.serde import decode
    from multiqueue.api.v1beta2 import MultiKueueCluster
    from multiqueue.kube.errors import NotFound
    from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS

    try:
        return await client.get(
            MULTIKUEUE_CLUSTERS, name, decode=partial(decode, MultiKueueCluster)
        )
    except NotFound as error:
        raise CliError(
            f'no MultiKueueCluster "{name}"; "multiqueue clusters" lists them'
        ) from error


async def mark(
    client: KubeClient, cluster: MultiKueueCluster, wanted: Mapping[str, str | None]
) -> bool:
    """Set annotations, or remove those that are None; return whether anything changed."""
    from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS

    known = cluster.metadata.annotations
    changes = {key: value for key, value in wanted.items() if known.get(key) != value}
    if not changes:
        return False
    patch = {"metadata": {"uid": cluster.metadata.uid, "annotations": changes}}
    await client.patch(MULTIKUEUE_CLUSTERS, cluster.metadata.name, patch)
    return True
