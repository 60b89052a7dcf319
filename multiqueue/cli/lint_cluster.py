"""Reads a cluster and its workers for the linter, page by page; writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from multiqueue.api.job_kinds import known_kinds
from multiqueue.api.names import GROUP, OWN_GROUP, QUEUE_NAME
from multiqueue.api.validation.access import Object, mapping, text
from multiqueue.jobs.reading import is_over
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import Resource, resource_of
from multiqueue.lint.world import LintEntry, LintInput, LintSurroundings
from multiqueue.workers.kubeconfigs.credentials import KubeconfigRefusal
from multiqueue.workers.kubeconfigs.stored import read_stored

WORKER_SECONDS = 30.0
"""The time limit for all lists of one worker."""
BUDGETS = Resource(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    namespaced=True,
)
RESOURCE_QUOTAS = Resource(
    group="", version="v1", plural="resourcequotas", kind="ResourceQuota", namespaced=True
)
CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
)
WORKER_KINDS = (
    resources.ADMISSION_CHECKS,
    resources.CLUSTER_QUEUES,
    resources.COHORTS,
    resources.LOCAL_QUEUES,
    resources.MULTIKUEUE_CLUSTERS,
    resources.MULTIKUEUE_CONFIGS,
    resources.DISPATCH_PROFILES,
    resources.JOB_KINDS,
    resources.PROVISIONING_REQUEST_CONFIGS,
    resources.RESOURCE_FLAVORS,
    resources.TOPOLOGIES,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.JOBS,
    resources.LIMIT_RANGES,
    resources.NAMESPACES,
    resources.NODES,
    BUDGETS,
    resources.PRIORITY_CLASSES,
)
"""Workloads are left out: there are many, and each was checked when it was created."""
KINDS = (*WORKER_KINDS, RESOURCE_QUOTAS, CLUSTER_ROLES)
"""The access of a manager to its workers has no right to the last two."""


@dataclass(slots=True)
class ClusterReading:
    """The objects of one cluster.

    Attributes:
        complete: The kinds of which all objects were read.
        skipped: The kinds that were not read, and why.
    """

    entries: list[LintEntry] = field(default_factory=list)
    complete: set[str] = field(default_factory=set)
    skipped: list[str] = field(default_factory=list)

    def to_world(self) -> LintInput:
        """Return the input for the rules."""
        return LintInput(self.entries, LintSurroundings(complete=frozenset(self.complete)))


async def read_cluster(client: KubeClient, kinds: Sequence[Resource] = KINDS) -> ClusterReading:
    """List the kinds for the rules; kinds that are forbidden or not served are skipped."""
    reading = ClusterReading()
    for resource in kinds:
        try:
            await _list(client, resource, reading)
        except Forbidden:
            reading.skipped.append(f"{resource.kind}: not allowed to list {resource.plural}")
        except NotFound:
            if resource.group == OWN_GROUP:  # not served means no objects, as on workers
                reading.complete.add(resource.kind)
                continue
            reading.skipped.append(f"{resource.kind}: the cluster does not serve {resource.plural}")
        else:
            reading.complete.add(resource.kind)
    return reading


async def read_labelled(client: KubeClient, reading: ClusterReading) -> None:
    """List objects of all kinds beside Job that name a queue and have not ended."""
    for row in known_kinds():
        if row.framework == "batch/job":
            continue
        resource = resource_of(row.api_version, row.plural, row.kind)
        try:
            listed = await client.list(resource, label_selector=QUEUE_NAME)
        except Forbidden:
            reading.skipped.append(f"{row.kind}: not allowed to list {row.plural}")
        except NotFound:
            continue  # a cluster without this kind has none
        else:
            head = {"apiVersion": resource.api_version, "kind": row.kind}
            objects = ({**head, **obj} for obj in listed.items)
            reading.entries.extend(LintEntry(obj) for obj in objects if not is_over(obj))


async def _list(client: KubeClient, resource: Resource, reading: ClusterReading) -> None:
    try:
        listed = await client.list(resource)
    except NotFound:
        if resource.group != GROUP:
            raise
        listed = await client.list(replace(resource, version="v1beta1"))  # an old worker
    reading.entries.extend(LintEntry(obj) for obj in listed.items if not is_over(obj))


@dataclass(slots=True)
class LintWorkers:
    """The input of each worker, and why some are missing, by MultiKueueCluster."""

    worlds: dict[str, LintInput] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


async def read_workers(
    client: KubeClient, clusters: Sequence[Object], *, namespace: str
) -> LintWorkers:
    """Read all workers at once, each through the kubeconfig in its Secret."""
    workers = LintWorkers()
    await asyncio.gather(*(_read_worker(client, c, namespace, workers) for c in clusters))
    return workers


async def _read_worker(
    client: KubeClient, cluster: Object, namespace: str, workers: LintWorkers
) -> None:
    name = cluster["metadata"]["name"]
    source = mapping(cluster, "spec", "clusterSource", "kubeConfig")
    if source.get("locationType", "Secret") != "Secret":
        workers.unseen[name] = "its kubeconfig is no Secret"
        return
    location = text(source.get("location"))
    try:
        found = await read_stored(client, location, namespace, datetime.now(UTC))
    except Forbidden:
        workers.unseen[name] = f'not allowed to read Secret "{namespace}/{location}"'
        return
    if isinstance(found, KubeconfigRefusal):
        workers.refused[name] = found.message
        return
    try:
        await add_worker(name, await Credentials.from_kubeconfig_dict(found.config), workers)
    except KubeError as error:
        workers.unseen[name] = str(error)


async def add_worker(name: str, credentials: Credentials, workers: LintWorkers) -> None:
    """Read one worker within its time limit."""
    try:
        async with (
            asyncio.timeout(WORKER_SECONDS),
            KubeClient(credentials, user_agent="multiqueue-cli") as client,
        ):
            reading = await read_cluster(client, WORKER_KINDS)
    except TimeoutError:
        workers.unseen[name] = f"no answer within {WORKER_SECONDS:g} s"
    except KubeError as error:
        workers.unseen[name] = str(error)
    else:
        workers.worlds[name] = reading.to_world()
        workers.skipped.extend(f'worker "{name}": {text}' for text in reading.skipped)
