"""Whether a cluster can be a worker: version, a running Kueue, its clock, its identity."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import orjson

from multiqueue.api.names import DEFAULT_NAMESPACE
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.validation.access import Object, mapping, number, text
from multiqueue.cli.projection.access import WorkerError, identify, stored, with_worker
from multiqueue.cli.projection.observe import read_served
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import ApiError, KubeError
from multiqueue.kube.manager_names import DEPLOYMENT, DEPLOYMENTS, LEASE
from multiqueue.kube.resources import LEASES, MULTIKUEUE_CLUSTERS, Resource
from multiqueue.lint.world import name_of
from multiqueue.projection.checks import find_unserved

ALIVE = timedelta(minutes=2)
"""If a Lease was renewed within this time, its holder runs."""
SKEW = timedelta(seconds=5)
"""The allowed difference; the Date header has whole seconds, and requests take time."""
OLDEST_MINOR = 30


@dataclass(slots=True, kw_only=True)
class Prerequisites:
    """The findings about a cluster.

    Attributes:
        identity: The uid of the worker's kube-system.
        missing: Why it cannot be a worker.
        doubts: Possible problems.
        facts: Checks that succeeded.
    """

    identity: str = ""
    missing: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)


async def check_worker(
    name: str, worker: KubeClient, manager: KubeClient, namespace: str
) -> Prerequisites:
    """Check a cluster that will become a worker. Reads only."""
    found = Prerequisites(identity=await identify(worker))
    await _check_version(worker, found)
    served = await read_served(worker)
    unserved = find_unserved(served, [kind for kind, there in served.items() if there])
    found.missing.extend(drift.message for drift in unserved)
    if not found.missing:
        await _check_running(worker, found)
    await _check_clocks(worker, manager, found)
    await _check_identity(name, manager, namespace, found)
    return found


async def _check_version(worker: KubeClient, found: Prerequisites) -> None:
    version = orjson.loads((await worker.request("GET", "/version")).body)
    minor = re.match("[0-9]{0,9}", text(version.get("minor")))
    found.facts.append(f"Kubernetes {version.get('gitVersion')}")
    if minor and minor[0] and int(minor[0]) < OLDEST_MINOR:
        found.doubts.append(
            f"Kubernetes {version.get('gitVersion')} is older than 1.{OLDEST_MINOR}, which is the "
            "oldest that this is tried with"
        )


async def _check_running(worker: KubeClient, found: Prerequisites) -> None:
    """Check that a Kueue runs there, which must admit the copies; it may run elsewhere."""
    for sign in (await _lease(worker), await _deployment(worker)):
        if sign:
            found.facts.append(sign)
            return
    found.doubts.append(
        f'nobody seems to run Kueue there: no Lease "{LEASE}" is held and no Deployment '
        f'"{DEPLOYMENT}" is available in {DEFAULT_NAMESPACE}; jobs sent there would wait'
    )


async def _lease(worker: KubeClient) -> str:
    spec = mapping(await _get(worker, LEASES, LEASE), "spec")
    renewed = parse_time(text(spec.get("renewTime")))
    if renewed is not None and datetime.now(UTC) - renewed < ALIVE:
        return f"Kueue runs ({spec.get('holderIdentity')} leads)"
    return ""


async def _deployment(worker: KubeClient) -> str:
    status = mapping(await _get(worker, DEPLOYMENTS, DEPLOYMENT), "status")
    available = number(status.get("availableReplicas"))
    return f"Kueue runs ({available} replicas)" if available else ""


async def _get(worker: KubeClient, resource: Resource, name: str) -> Object:
    try:
        found: Object = await worker.get(resource, name, namespace=DEFAULT_NAMESPACE)
    except ApiError:
        return {}
    return found


async def _check_clocks(worker: KubeClient, manager: KubeClient, found: Prerequisites) -> None:
    ahead = await asyncio.gather(_ahead(worker), _ahead(manager))
    if ahead[0] is None or ahead[1] is None:
        return
    apart = abs(ahead[0] - ahead[1])
    if apart > SKEW:
        found.doubts.append(
            f"its clock and the manager's are {apart.total_seconds():.0f} s apart; have both "
            "follow NTP, or times and expiries mislead"
        )
    else:
        found.facts.append("clocks agree")


async def _ahead(client: KubeClient) -> timedelta | None:
    """Return how far a server's clock is ahead of ours; None if it is unknown."""
    asked = datetime.now(UTC)
    date = (await client.request("GET", "/version")).headers.get("Date")
    return parsedate_to_datetime(date) - asked if date else None


async def _check_identity(
    name: str, manager: KubeClient, namespace: str, found: Prerequisites
) -> None:
    if not found.identity:
        found.missing.append("these credentials may not even read its namespace kube-system")
        return
    if found.identity == await identify(manager):
        found.missing.append(
            "it is the manager's own cluster; a manager runs jobs here in a ClusterQueue without "
            "the MultiKueue check"
        )
    others = await read_identities(manager, namespace)
    for other in sorted(n for n, i in others.items() if i == found.identity and n != name):
        found.missing.append(
            f'it is registered as MultiKueueCluster "{other}" already, and a worker has one name'
        )
    if others.get(name) not in {None, "", found.identity}:
        found.missing.append(
            f'MultiKueueCluster "{name}" leads to another cluster; choose another name'
        )


async def read_identities(manager: KubeClient, namespace: str) -> dict[str, str]:
    """Return the identity of each registered worker; empty if it is unknown."""
    clusters = (await manager.list(MULTIKUEUE_CLUSTERS)).items
    found = await asyncio.gather(*(_identity(manager, each, namespace) for each in clusters))
    return dict(zip(map(name_of, clusters), found, strict=True))


async def _identity(manager: KubeClient, cluster: Object, namespace: str) -> str:
    try:
        kubeconfig = await stored(manager, cluster, namespace)
        credentials = await Credentials.from_kubeconfig_dict(kubeconfig.config)
        return await with_worker(credentials, identify)
    except (WorkerError, KubeError):
        return ""
