"""``delete workload``: the jobs of Workloads go, and Workloads without a job."""

from __future__ import annotations

import sys
from typing import Any

import click

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import OwnerReference
from multiqueue.cli.connect import ClusterTarget, connect
from multiqueue.cli.declared_kinds import learn_kinds
from multiqueue.cli.errors import CliError
from multiqueue.cli.job_names import decode_workload
from multiqueue.cli.kueuectl.changes import print_object, title_of
from multiqueue.cli.kueuectl.options import DryRun
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Conflict, NotFound
from multiqueue.kube.resources import WORKLOADS, Resource, resource_of

Doomed = tuple[Resource, str, str, str]
"""Collection, namespace, name and uid of an object to delete."""


async def delete_workloads(
    target: ClusterTarget,
    names: tuple[str, ...],
    *,
    all_namespaces: bool,
    ask: bool,
    output: str,
    dry_run: DryRun,
) -> None:
    """Delete Workloads and their jobs.

    An object that took over the name of a job stays.

    Deviates: pods go with their job; upstream leaves those of a batch/v1 Job, which run on.

    Raises:
        CliError: a job is of a kind that is not known here.
    """
    async with connect(target) as (client, chosen):
        await learn_kinds(client)
        if names:
            workloads = [w for name in names if (w := await _get(client, chosen, name))]
        else:
            namespace = None if all_namespaces else chosen
            listed = await client.list(WORKLOADS, namespace=namespace, decode=decode_workload)
            workloads = list(listed.items)
        doomed = [(workload, _list_doomed(workload)) for workload in workloads]
        if dry_run is DryRun.NONE and ask and not _is_confirmed(doomed, one_by_one=bool(names)):
            click.echo("Deletion is canceled")
            return
        for _, objects in doomed:
            for each in objects:
                await _delete(client, each, output=output, dry_run=dry_run)


async def _get(client: KubeClient, namespace: str, name: str) -> Workload | None:
    try:
        return await client.get(WORKLOADS, name, namespace=namespace, decode=decode_workload)
    except NotFound as error:
        click.echo(str(error.server_message or error), err=True)
        return None


def _list_doomed(workload: Workload) -> list[Doomed]:
    """Return the jobs of a Workload; the Workload itself if it has none."""
    metadata = workload.metadata
    jobs = [(owner, _resource(owner)) for owner in metadata.owner_references]
    unknown = [owner for owner, resource in jobs if resource is None]
    if unknown:
        raise CliError(
            f'Workload "{metadata.key}" belongs to {unknown[0].kind} "{unknown[0].name}", and '
            f"{unknown[0].api_version} {unknown[0].kind} is no kind of jobs known here; delete it "
            "with kubectl"
        )
    found = [(r, metadata.namespace, o.name, o.uid) for o, r in jobs if r is not None]
    return found or [(WORKLOADS, metadata.namespace, metadata.name, metadata.uid)]


def _resource(owner: OwnerReference) -> Resource | None:
    row = find_job_kind(owner.api_version, owner.kind)
    return resource_of(owner.api_version, row.plural, row.kind) if row is not None else None


def _is_confirmed(doomed: list[tuple[Workload, list[Doomed]]], *, one_by_one: bool) -> bool:
    """Ask before jobs are deleted; no answer is a no."""
    jobs = [(w, found) for w, found in doomed if w.metadata.owner_references]
    if not jobs:
        return True
    if one_by_one:
        click.echo("This operation will also delete:")
        for workload, found in jobs:
            titles = ", ".join(title_of(resource, name) for resource, _, name, _ in found)
            click.echo(f"  - {titles} associated with the {workload.metadata.key} workload")
    else:
        click.echo("This operation will also delete the jobs associated with these workloads.")
    click.echo("Do you want to proceed (y/n)? ", nl=False)
    return sys.stdin.readline().strip().lower() == "y"


async def _delete(client: KubeClient, doomed: Doomed, *, output: str, dry_run: DryRun) -> None:
    resource, namespace, name, uid = doomed
    obj: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace, "uid": uid}}
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    if dry_run is not DryRun.CLIENT:
        try:
            await client.delete(
                resource,
                name,
                namespace=namespace,
                propagation="Background",
                uid=uid,
                dry_run=dry_run is DryRun.SERVER,
            )
        except (Conflict, NotFound):
            return  # it is gone, and what has its name now is another object
    print_object(resource, obj, output, "deleted", dry_run)
