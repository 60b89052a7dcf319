"""Finding the Workload that a user means: by its own name, or by the name of its job."""

from __future__ import annotations

from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.errors import CliError
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import WORKLOADS


def decode_workload(data: bytes) -> Workload:
    """Decode a Workload."""
    return decode(Workload, data)


async def find_workload(client: KubeClient, namespace: str, name: str) -> Workload:
    """Return the Workload called ``name``, or the newest one of the job called so.

    Args:
        client: Of the cluster.
        namespace: Where to look, unless the name says so itself.
        name: ``NAME``, ``KIND/NAME`` or ``NAMESPACE/NAME``.

    Raises:
        CliError: there is none.
    """
    kind, _, bare = name.rpartition("/")
    listed = await client.list(WORKLOADS, namespace=namespace, decode=decode_workload)
    found = _pick(listed.items, kind, bare)
    if found is None and kind:
        try:
            there = await client.list(WORKLOADS, namespace=kind, decode=decode_workload)
        except NotFound:
            there = None
        found = _pick(there.items, "", bare) if there else None
    if found is None:
        raise CliError(
            f'no Workload or job "{name}" in namespace "{namespace}"; a job gets a Workload when '
            "it names a queue in its label kueue.x-k8s.io/queue-name and the manager runs"
        )
    return found


def _pick(workloads: list[Workload], kind: str, name: str) -> Workload | None:
    by_name = [w for w in workloads if w.metadata.name == name]
    if by_name and kind.lower() in {"", "workload", "wl"}:
        return by_name[0]
    owned = [
        w
        for w in workloads
        if any(
            owner.name == name
            and kind.lower() in {"", owner.kind.lower(), f"{owner.kind.lower()}s"}
            for owner in w.metadata.owner_references
        )
    ]
    return max(owned, key=lambda w: w.metadata.creation_timestamp, default=None)
