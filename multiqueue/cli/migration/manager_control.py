"""Stops a manager and frees its Lease; each step can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from multiqueue.api.validation.access import mapping, number, text
from multiqueue.cli.errors import CliError
from multiqueue.cli.migration.installation import REPLICAS_BEFORE
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.manager_names import DEPLOYMENT, DEPLOYMENTS, LEASE

POLL_SECONDS = 0.5
RENEWAL_SECONDS = 5.0
"""A holder that lives renews its Lease within this time, with the default settings twice."""


async def stop_manager(client: KubeClient, namespace: str, *, seconds: float) -> str:
    """Scale the Deployment to 0 and wait until its pods are gone; return what was done.

    Raises:
        CliError: the pods do not go in time.
    """
    deployment = await client.get(DEPLOYMENTS, DEPLOYMENT, namespace=namespace)
    replicas = number(mapping(deployment, "spec").get("replicas"), 1)
    if replicas:
        patch = {
            "metadata": {"annotations": {REPLICAS_BEFORE: str(replicas)}},
            "spec": {"replicas": 0},
        }
        await client.patch(DEPLOYMENTS, DEPLOYMENT, patch, namespace=namespace)
    labels = mapping(deployment, "spec", "selector", "matchLabels")
    selector = ",".join(f"{name}={value}" for name, value in labels.items())

    async def are_gone() -> bool:
        found = await client.list(resources.PODS, namespace=namespace, label_selector=selector)
        return not found.items

    if not await wait_until(are_gone, seconds):
        raise CliError(
            f"the pods of Deployment {namespace}/{DEPLOYMENT} are still there after {seconds:g} s; "
            "look at them (kubectl get pods), then run the same command again"
        )
    return f"scaled from {replicas} to 0" if replicas else ""


async def free_lease(client: KubeClient, namespace: str) -> str:
    """Give the Lease of a stopped leader back, so that the next one need not wait.

    Raises:
        CliError: somebody still renews it.
    """
    try:
        lease = await client.get(resources.LEASES, LEASE, namespace=namespace)
    except NotFound:
        return ""
    holder = text(mapping(lease, "spec").get("holderIdentity"))
    if not holder:
        return ""
    await asyncio.sleep(RENEWAL_SECONDS)
    later = await client.get(resources.LEASES, LEASE, namespace=namespace)
    renewed = [mapping(each, "spec").get("renewTime") for each in (lease, later)]
    if renewed[0] != renewed[1]:
        raise CliError(
            f"{holder} still renews the Lease {namespace}/{LEASE}, and is no pod of Deployment "
            f"{DEPLOYMENT}; stop it, then run the same command again"
        )
    version = mapping(later, "metadata").get("resourceVersion")
    patch = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": ""}}
    await client.patch(resources.LEASES, LEASE, patch, namespace=namespace)
    return f"was held by {holder}, which is gone"


async def wait_until(look: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Look again and again until it is true, or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            while not await look():  # noqa: ASYNC110 - what others do cannot be awaited
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return False
    return True
