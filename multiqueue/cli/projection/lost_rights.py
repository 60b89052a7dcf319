"""Rights of the manager's credentials beyond its role, lost when these are replaced.

An administrator's kubeconfig, or a role such as that of config/worker-role-pods bound to another
account, may have given users access to pods and logs. A new token of the manager's own account has
only its role.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from multiqueue.cli.projection.access import WorkerError, with_worker
from multiqueue.cli.projection.observe import ask_rights
from multiqueue.kube.credentials import Credentials
from multiqueue.projection.worker_role import Right

PODS = (
    Right(group="", resource="pods", verb="list"),
    Right(group="", resource="pods", verb="watch"),
    Right(group="", resource="pods", subresource="log", verb="get"),
    Right(group="", resource="events", verb="list"),
)
"""The manager's rights that users need to see pods, logs and events of their jobs."""
QUEUES = (
    Right(group="kueue.x-k8s.io", resource="clusterqueues", verb="patch"),
    Right(group="kueue.x-k8s.io", resource="localqueues", verb="patch"),
)
ALL = Right(group="*", resource="*", verb="*")


async def find_wider(kubeconfig: dict[str, Any]) -> frozenset[Right]:
    """Return a kubeconfig's rights beside the manager's role; none if no login succeeds."""
    credentials = await Credentials.from_kubeconfig_dict(kubeconfig)
    try:
        found = await with_worker(credentials, lambda c: ask_rights(c, (*PODS, *QUEUES, ALL)))
    except WorkerError:
        return frozenset()
    return frozenset(right for right, may in found.items() if may)


def describe_lost(name: str, lost: Collection[Right]) -> list[str]:
    """Return lines that say which rights the manager loses, and how to give them back."""
    told = []
    if ALL in lost:
        told.append(
            f"warning: {name}: the former credentials could do everything there; the new ones have "
            "the role of the manager, and no more"
        )
    if pods := [right for right in PODS if right in lost]:
        told.append(
            f"warning: {name}: the new credentials may not {', '.join(map(str, pods))}, which the "
            "former could: for pods, logs and events of jobs there, apply config/worker-role-pods "
            "on the worker"
        )
    if queues := [right for right in QUEUES if right in lost]:
        told.append(
            f"warning: {name}: the new credentials may not {', '.join(map(str, queues))}, which "
            'the former could: for "clusters sync" with them, apply config/worker-projection-role '
            "on the worker"
        )
    return told
