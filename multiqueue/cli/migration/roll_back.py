"""From our manager back to upstream's, by the backup. Queues, Workloads and jobs are not touched:
the installation around them is restored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from multiqueue.api.names import GROUP
from multiqueue.api.validation.access import mapping, text
from multiqueue.cli.migration.guard import put_guard
from multiqueue.cli.migration.installation import (
    Installation,
    is_ours,
    key_of,
    name_of,
    replicas_of,
)
from multiqueue.cli.migration.manager_control import free_lease, stop_manager
from multiqueue.cli.migration.read import IN_NAMESPACE, OF_CLUSTER, read_cluster
from multiqueue.cli.migration.take_over import StepDone
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.manager_names import DEPLOYMENTS
from multiqueue.kube.resources import Resource

STEPS = (
    ("check the backup", "its checksum, and that it is of this cluster"),
    ("refuse new jobs", "a policy refuses jobs with a queue that are not suspended"),
    ("stop ours", "scale Deployment kueue-controller-manager to 0; jobs run on"),
    ("free the Lease", "so that the next leader need not wait"),
    ("restore", "definitions, rights, webhooks, Services and the configuration of the backup"),
    ("start upstream", "the Deployment of the backup, with its replicas"),
    ("compare", "which jobs run, wait, and in which order; accept jobs"),
)
REMOVED = frozenset({"NetworkPolicy", "PodDisruptionBudget", "APIService"})
"""Kinds of which our installation leaves nothing: upstream's pods would be cut off by our policy,
drains would wait for our budget, and an API that nobody serves delays the deletion of namespaces.
"""
_KEPT_METADATA = ("name", "namespace", "labels", "annotations")


async def roll_back(
    client: KubeClient, namespace: str, before: Installation, *, seconds: float
) -> AsyncIterator[StepDone]:
    """Do the steps up to the start of upstream's manager; yield each when it is done.

    Raises:
        CliError: a step cannot be done; those before it stay done.
    """
    now = await read_cluster(client, namespace)
    deployment = now.deployment
    if (
        deployment is not None
        and not is_ours(deployment)
        and mapping(deployment, "spec")["replicas"]
    ):
        return  # it is restored last, and its manager may have renewed certificates since
    await put_guard(client)
    yield StepDone(name="refuse new jobs", outcome="until the last step")
    if deployment is not None and is_ours(deployment):
        yield StepDone(
            name="stop ours", outcome=await stop_manager(client, namespace, seconds=seconds)
        )
        yield StepDone(name="free the Lease", outcome=await free_lease(client, namespace))
    written = [
        key_of(obj)
        for resource in (*OF_CLUSTER, *IN_NAMESPACE)
        for obj in _of_installation(before, resource)
        if resource is not DEPLOYMENTS and await _restore(client, resource, obj)
    ]
    removed = [key_of(obj) async for obj in _remove_ours(client, before, now)]
    told = f"{len(written)} objects restored, {len(removed)} removed"
    yield StepDone(name="restore", outcome=told if written or removed else "")
    started = []
    for obj in before.of("Deployment"):
        spec = {**mapping(obj, "spec"), "replicas": replicas_of(obj)}
        if await _restore(client, DEPLOYMENTS, {**obj, "spec": spec}):
            started.append(key_of(obj))
    yield StepDone(name="start upstream", outcome=", ".join(started))


def find_own_objects(now: Installation) -> list[str]:
    """Return the objects of kinds that upstream does not know, which stay and do nothing there."""
    own = (o for o in now.objects if text(o.get("apiVersion")).startswith("multiqueue.dev/"))
    return [key_of(obj) for obj in own]


def find_missing(before: Installation, now: Installation) -> list[str]:
    """Return queues, flavors and the like of the backup that do not exist any more."""
    there = set(map(key_of, now.objects))
    return [
        key_of(obj)
        for obj in before.objects
        if text(obj.get("apiVersion")).startswith(f"{GROUP}/")
        and obj.get("kind") != "Workload"
        and key_of(obj) not in there
    ]


def _of_installation(found: Installation, resource: Resource) -> list[Mapping[str, Any]]:
    """Return its objects; definitions of our own kinds are not part of upstream."""
    return [obj for obj in found.of(resource.kind) if not name_of(obj).endswith(".multiqueue.dev")]


async def _restore(client: KubeClient, resource: Resource, obj: Mapping[str, Any]) -> bool:
    """Write an object as it is in the backup; return whether it was another one."""
    wanted = _without_state(obj)
    name, namespace = name_of(obj), text(mapping(obj, "metadata").get("namespace")) or None
    try:
        current = await client.get(resource, name, namespace=namespace)
    except NotFound:
        await client.create(resource, wanted, namespace=namespace)
        return True
    if _without_state(current) == wanted:
        return False
    version = current["metadata"]["resourceVersion"]
    body = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
    await client.replace(resource, name, body, namespace=namespace)
    return True


async def _remove_ours(
    client: KubeClient, before: Installation, now: Installation
) -> AsyncIterator[Mapping[str, Any]]:
    kept = set(map(key_of, before.objects))
    for resource in (*OF_CLUSTER, *IN_NAMESPACE):
        for obj in now.of(resource.kind) if resource.kind in REMOVED else ():
            if key_of(obj) in kept:
                continue
            namespace = text(mapping(obj, "metadata").get("namespace")) or None
            await client.delete(resource, name_of(obj), namespace=namespace)
            yield obj


def _without_state(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = mapping(obj, "metadata")
    kept = {name: metadata[name] for name in _KEPT_METADATA if name in metadata}
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": kept}
