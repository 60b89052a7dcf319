"""``delete workload``: the jobs of Workloads go, and Workloads without a job."""

from __future__ import annotations

import sys
from typing import Any

import click

from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.connect import ClusterTarget, connect
from multiqueue.cli.declared_kinds import learn_kinds
from multiqueue.cli.errors import CliError
from multiqueue.cli.job_names import decode_workload
from multiqueue.cli.kueuectl.changes import print_object, title_of
from multiqueue.cli.kueuectl.options import DryRun
from multiqueue.dashboard.action_writer import ActionWriter
from multiqueue.dashboard.job_actions import ActionWrite
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Conflict, NotFound
from multiqueue.kube.job_objects import JobObject, UnknownJobKindError, list_job_objects
from multiqueue.kube.resources import WORKLOADS


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
        doomed = [(workload, list_doomed(workload)) for workload in workloads]
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


def list_doomed(workload: Workload) -> list[JobObject]:
    """Return the jobs of a Workload; the Workload itself if it has none.

    Raises:
        CliError: a job is of a kind that is not known here.
    """
    try:
        return list_job_objects(workload)
    except UnknownJobKindError as error:
        raise CliError(str(error)) from error


def _is_confirmed(doomed: list[tuple[Workload, list[JobObject]]], *, one_by_one: bool) -> bool:
    """Ask before jobs are deleted; no answer is a no."""
    jobs = [(w, found) for w, found in doomed if w.metadata.owner_references]
    if not jobs:
        return True
    if one_by_one:
        click.echo("This operation will also delete:")
        for workload, found in jobs:
            titles = ", ".join(title_of(each.resource, each.name) for each in found)
            click.echo(f"  - {titles} associated with the {workload.metadata.key} workload")
    else:
        click.echo("This operation will also delete the jobs associated with these workloads.")
    click.echo("Do you want to proceed (y/n)? ", nl=False)
    return sys.stdin.readline().strip().lower() == "y"


async def _delete(client: KubeClient, doomed: JobObject, *, output: str, dry_run: DryRun) -> None:
    resource, name, uid = doomed.resource, doomed.name, doomed.uid
    obj: dict[str, Any] = {"metadata": {"name": name, "namespace": doomed.namespace, "uid": uid}}
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    if dry_run is not DryRun.CLIENT:
        try:
            await ActionWriter(client).write(
                ActionWrite(target=doomed), dry_run=dry_run is DryRun.SERVER
            )
        except (Conflict, NotFound):
            return  # it is gone, and what has its name now is another object
    print_object(resource, obj, output, "deleted", dry_run)
