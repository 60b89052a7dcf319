"""The informers that all simulated components share, and how they read and write objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import JOBS, NODES, PODS, Resource

Object = dict[str, Any]
BY_JOB_UID = "job-uid"
"""Pods by the uid of the Job that controls them."""
BY_CONTROLLER = "controller"
"""Pods by the uid of whatever controls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimInformers:
    """The informers of the simulated components."""

    nodes: Informer[Object]
    pods: Informer[Object]
    jobs: Informer[Object]

    def all(self) -> tuple[Informer[Object], ...]:
        """Return them in the order in which they are started."""
        return (self.nodes, self.jobs, self.pods)


def build_informers(client: KubeClient) -> SimInformers:
    """Return informers over all namespaces of one API server."""
    return SimInformers(
        nodes=Informer(client, NODES),
        pods=Informer(client, PODS, indexers={BY_JOB_UID: _job_uids, BY_CONTROLLER: _controllers}),
        jobs=Informer(client, JOBS),
    )


def key_of(obj: Mapping[str, Any]) -> str:
    """Return ``namespace/name``."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"


def owner_reference(obj: Object, resource: Resource) -> Object:
    """Return the reference by which an object controls what is made for it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


async def patch_status(
    client: KubeClient,
    resource: Resource,
    obj: Object,
    status: Mapping[str, Any],
    *,
    patch_type: PatchType = PatchType.MERGE,
    **precondition: str,
) -> Object:
    """Change the status of an object, and return the object.

    Args:
        client: the client.
        resource: what the object is.
        obj: the object; another one of the same name is left alone.
        status: the changes.
        patch_type: strategic, to keep the conditions of others.
        precondition: other fields of metadata that must be as given.

    Raises:
        KubeError: NotFound if it is gone, Conflict if it is another one or has changed.
    """
    metadata = obj["metadata"]
    answer: Object = await client.patch(
        resource,
        metadata["name"],
        {"metadata": {"uid": metadata["uid"], **precondition}, "status": status},
        namespace=metadata["namespace"],
        subresource="status",
        patch_type=patch_type,
    )
    return answer


async def delete_pod(client: KubeClient, pod: Object, *, grace_seconds: int | None = None) -> None:
    """Delete this pod.

    Raises:
        KubeError: NotFound or Conflict if it is gone.
    """
    metadata = pod["metadata"]
    await client.delete(
        PODS,
        metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        grace_seconds=grace_seconds,
    )


def owner_job(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference to the Job that controls a pod."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == "Job":
            found: Mapping[str, Any] = reference
            return found
    return None


def _controllers(pod: Object) -> Iterable[str]:
    owners = pod["metadata"].get("ownerReferences") or ()
    return [owner["uid"] for owner in owners if owner.get("controller")]


def _job_uids(pod: Object) -> Iterable[str]:
    reference = owner_job(pod)
    return () if reference is None else (reference["uid"],)
