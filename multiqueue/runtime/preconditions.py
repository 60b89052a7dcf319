"""The manager's preconditions: served kinds, its namespace, informers, reachable webhooks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

import orjson
import structlog

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.jobs.context import Informers
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.lib.addresses import is_loopback
from multiqueue.webhooks.setup import is_reached_by_url

REQUIRED_KINDS = frozenset(
    {"Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "AdmissionCheck"}
)
"""Kinds without which nothing can be queued; other kinds are used once they appear."""
GC_THRESHOLDS = (50_000, 20, 100)
"""Informers hold long-lived objects, so young garbage is collected less often than usual."""

log = structlog.get_logger("multiqueue.runtime")


async def find_missing_kinds(client: KubeClient) -> str | None:
    """Return what prevents the start, or None."""
    try:
        response = await client.request("GET", f"/apis/{names.V1BETA2}")
        served = {row["kind"] for row in orjson.loads(response.body).get("resources") or ()}
    except NotFound:
        served = set()
    except KubeError as error:
        if not error.retryable:
            raise
        return f"cannot reach the cluster: {error}"
    missing = sorted(REQUIRED_KINDS - served)
    if not missing:
        return None
    return (
        f"the cluster does not serve {', '.join(missing)} of {names.V1BETA2}; install the "
        "CustomResourceDefinitions: kubectl apply --server-side -k config/crd"
    )


async def ensure_namespace(client: KubeClient, namespace: str) -> None:
    """Make the namespace that holds the Lease and the kubeconfigs of workers, if it is missing."""
    try:
        await client.get(resources.NAMESPACES, namespace)
    except NotFound:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        try:
            await client.create(resources.NAMESPACES, body)
            log.info("created namespace", namespace=namespace)
        except AlreadyExists:
            return
    except Forbidden:
        # Least privilege: inside a cluster, this process runs in the namespace, so it exists.
        return


async def wait_until_settled(informers: Sequence[Informer[Any]], *, seconds: float) -> None:
    """Return once every informer has listed its kind, or knows that the kind is not served.

    Raises:
        TimeoutError: names the informers that have not.
    """
    try:
        async with asyncio.timeout(seconds):
            for informer in informers:
                await informer.settled.wait()
    except TimeoutError:
        missing = [
            f"{informer.resource.plural} ({informer.last_error or 'no answer'})"
            for informer in informers
            if not informer.settled.is_set()
        ]
        raise TimeoutError(
            f"not synced within {seconds:g} s: {', '.join(missing)}; check the API server and "
            "the permissions of this manager"
        ) from None


def list_informers(informers: Informers) -> list[Informer[Any]]:
    """Return every informer of a manager, once each."""
    found: list[Informer[Any]] = []
    for row in fields(informers):
        value = getattr(informers, row.name)
        found.extend([value] if isinstance(value, Informer) else value.values())
    return list(dict.fromkeys(found))


def can_reach_webhooks(server: str, config: Configuration, environment: Mapping[str, str]) -> bool:
    """Whether an API server can presumably reach the webhooks of this process.

    A webhook that is registered but out of reach makes the API server refuse every Job with a
    queue. So webhooks stay off unless they are known to be in reach; the manager is correct
    without them.
    """
    if config.webhook.host not in {"", "0.0.0.0", "::"}:  # noqa: S104 - read, not bound
        return True
    if not is_reached_by_url(config, environment):
        return True
    return is_loopback(urlsplit(server).hostname or "")


def tune_garbage_collector() -> None:
    """Exempt all loaded objects from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
