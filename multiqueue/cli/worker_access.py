"""Access to a worker by the manager's kubeconfig, which is read with the user's rights."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from multiqueue.api.names import split_key
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import MultiKueueCluster, Workload
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import KubeError
from multiqueue.kube.resources import WORKLOADS
from multiqueue.views.workloads import view_workload

WORKER_SECONDS = 5.0
"""How long one worker may take to answer."""


async def worker_credentials(
    client: KubeClient, cluster: MultiKueueCluster, namespace: str
) -> Credentials:
    """Return the manager's credentials for a worker, read with the user's rights.

    Raises:
        KubeError: the user may not read the Secret.
        ValueError: there is no such Secret, or it must not be used.
    """
    # Only commands that contact workers need these modules.
    from multiqueue.cli.stored import read_stored
    from multiqueue.workers.kubeconfigs.credentials import KubeconfigRefusal

    source = cluster.spec.cluster_source.kube_config
    if source is None or source.location_type != "Secret":
        raise ValueError("its kubeconfig is not in a Secret, so only the manager can look")
    found = await read_stored(client, source.location, namespace)
    if isinstance(found, KubeconfigRefusal):
        raise ValueError(f"{found.reason}: {found.message}")  # noqa: TRY004 - no error of types
    return await Credentials.from_kubeconfig_dict(found.config)


async def read_remote_states(
    client: KubeClient,
    clusters: Sequence[MultiKueueCluster],
    key: str,
    *,
    system_namespace: str,
) -> dict[str, str]:
    """Return the state of a Workload's copies, by cluster; best effort."""
    states = await asyncio.gather(
        *(_read_remote_state(client, cluster, key, system_namespace) for cluster in clusters)
    )
    return {
        cluster.metadata.name: state
        for cluster, state in zip(clusters, states, strict=True)
        if state
    }


async def _read_remote_state(
    client: KubeClient, cluster: MultiKueueCluster, key: str, system_namespace: str
) -> str:
    namespace, name = split_key(key)
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            credentials = await worker_credentials(client, cluster, system_namespace)
            async with KubeClient(credentials, default_timeout=WORKER_SECONDS) as worker:
                copy = await worker.get(
                    WORKLOADS,
                    name,
                    namespace=namespace,
                    decode=lambda data: decode(Workload, data),
                )
    except ValueError as error:
        return str(error)
    except (KubeError, TimeoutError):
        return ""
    view = view_workload(copy)
    return f"{view.state}: {view.why}" if view.why else str(view.state)
