"""Reads a snapshot from a cluster with the user's rights, or from a file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiqueue import __version__
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Configuration
from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import MultiKueueCluster
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS
from multiqueue.whatif.contents import KINDS, SnapshotKind, keep_configuration
from multiqueue.whatif.snapshot import MANAGER, Snapshot, SnapshotError, unpack

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient  # a snapshot in a file needs no cluster

Json = dict[str, Any]


async def take_snapshot(
    client: KubeClient, *, system_namespace: str, config: Configuration | None = None
) -> Snapshot:
    """Read everything that the manager decides from; nothing is written.

    Args:
        client: The manager's cluster.
        system_namespace: Namespace of the manager, with the kubeconfigs of the workers.
        config: The manager's Configuration; by default it is read from the cluster.

    Raises:
        CliError: the user may not read a kind without which the snapshot would be wrong.
    """
    from multiqueue.workers.kubeconfigs.stored import CONFIG_MAP, read_config

    notes: list[str] = []
    found = config or await read_config(client, system_namespace)
    if found is None:
        notes.append(
            f"the manager's configuration could not be read (ConfigMap {CONFIG_MAP} in namespace "
            f"{system_namespace}): the defaults are assumed; name a file with --config"
        )
    snapshot = Snapshot(
        taken_at=datetime.now(UTC).replace(microsecond=0),
        program=f"multiqueue {__version__}",
        configuration=keep_configuration(found or Configuration()),
    )
    listed = await asyncio.gather(*(_list(client, kind, notes) for kind in KINDS))
    for obj in (obj for objects in listed for obj in objects):
        snapshot.put(obj)
    if not snapshot.of("Topology"):
        snapshot.of("Node").clear()  # without topologies, nodes decide nothing
    else:
        notes.append("pods that no topology placed are left out: nodes look emptier than they are")
    await _read_workers(client, snapshot, system_namespace, notes)
    return replace(snapshot, notes=tuple(notes))


def load_snapshot(path: str) -> Snapshot:
    """Read a file.

    Raises:
        UsageProblem: it cannot be read, or is no snapshot.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageProblem(f'cannot read "{path}": {error.strerror or error}') from error
    try:
        return unpack(data, path)
    except SnapshotError as error:
        raise UsageProblem(str(error)) from error


def submit_file(
    snapshot: Snapshot, source: str, namespace: str = "", default: str = "default"
) -> list[str]:
    """Submit the jobs of a file to a snapshot; return the keys of their Workloads.

    Args:
        snapshot: The snapshot to change.
        source: The file; ``-`` is standard input.
        namespace: The namespace of all jobs; by default that of each manifest.
        default: The namespace of manifests that have none.

    Raises:
        UsageProblem: the file cannot be read, or has no job.
        ChangeError: a job would be refused.
    """
    from multiqueue.cli.manifests import read_manifests
    from multiqueue.whatif.submission import submit_job

    objects = read_manifests(source)
    jobs = [obj for obj in objects if find_job_kind(obj["apiVersion"], obj["kind"]) is not None]
    if not jobs:
        raise UsageProblem(f'"{source}" has no job of a kind that is built in')
    return [
        submit_job(
            snapshot, job, namespace or (job.get("metadata") or {}).get("namespace") or default
        )
        for job in jobs
    ]


async def _list(client: KubeClient, kind: SnapshotKind, notes: list[str]) -> list[Json]:
    try:
        listed = await client.list(kind.resource)
    except (Forbidden, NotFound) as error:
        if kind.is_needed:
            raise CliError(
                f"a snapshot needs all {kind.resource.plural}, and you may not list them: {error}"
            ) from error
        if isinstance(error, Forbidden):
            notes.append(f"{kind.resource.plural} are left out: you may not list them")
        return []
    items: list[Json] = [{**obj, "kind": kind.name} for obj in listed.items]
    return [obj for obj in items if not _is_finished(obj)]


def _is_finished(obj: Json) -> bool:
    """Whether it is a Workload that has ended: it decides nothing any more."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return obj["kind"] == "Workload" and any(
        each.get("type") == WorkloadCondition.FINISHED and each.get("status") == "True"
        for each in conditions
    )


async def _read_workers(
    client: KubeClient, snapshot: Snapshot, namespace: str, notes: list[str]
) -> None:
    """Read the queues of all workers at once; a worker that does not answer is noted."""
    try:
        clusters = (await client.list(MULTIKUEUE_CLUSTERS)).items
    except (Forbidden, NotFound):
        return
    await asyncio.gather(
        *(_read_worker(client, cluster, snapshot, namespace, notes) for cluster in clusters)
    )


async def _read_worker(
    client: KubeClient, obj: Mapping[str, Any], snapshot: Snapshot, namespace: str, notes: list[str]
) -> None:
    from multiqueue.kube.client import KubeClient
    from multiqueue.workers.kubeconfigs.stored import WORKER_SECONDS, worker_credentials

    cluster = decode(MultiKueueCluster, obj)
    name = cluster.metadata.name
    assert name != MANAGER, "an object has a name"
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            credentials = await worker_credentials(client, cluster, namespace, datetime.now(UTC))
            async with KubeClient(credentials, default_timeout=WORKER_SECONDS) as worker:
                kinds = [kind for kind in KINDS if kind.on_workers]
                listed = await asyncio.gather(*(worker.list(kind.resource) for kind in kinds))
    except (KubeError, TimeoutError, ValueError) as error:
        # Errors name addresses and users, which a snapshot must not have.
        notes.append(
            f"worker {name} is left out, so it counts as able to hold anything "
            f"({type(error).__name__}; `multiqueue clusters` says why)"
        )
        return
    for kind, found in zip(kinds, listed, strict=True):
        for each in found.items:
            snapshot.put({**each, "kind": kind.name}, name)
