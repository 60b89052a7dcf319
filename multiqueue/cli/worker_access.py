"""How a Workload stands on the workers, asked with kubeconfigs that the user may read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from multiqueue.api.names import split_key
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import MultiKueueCluster, Workload
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError
from multiqueue.kube.resources import WORKLOADS
from multiqueue.views.workloads import view_workload
from multiqueue.workers.kubeconfigs.stored import WORKER_SECONDS, worker_credentials


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
            credentials = await worker_credentials(
                client, cluster, system_namespace, datetime.now(UTC)
            )
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
