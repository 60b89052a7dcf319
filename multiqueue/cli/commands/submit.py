"""``multiqueue submit``: apply manifests and follow the jobs in them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from multiqueue.api.job_kinds import KnownKind, find_job_kind
from multiqueue.api.names import QUEUE_NAME
from multiqueue.cli.awaiting import FollowedJob, follow, follow_to_verdict, has_ended
from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.manifests import check_namespace, read_manifests
from multiqueue.cli.output import echo, output_option, print_data, style_state

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import Workload
    from multiqueue.kube.client import KubeClient
    from multiqueue.runtime.manifests import ApplyResult
    from multiqueue.views.workloads import WorkloadRow

WORKLOAD_SECONDS = 5.0
"""How long to wait until the manager sees a new job."""


@dataclass(slots=True, kw_only=True)
class _Submitted(FollowedJob):
    """One manifest and its outcome."""

    title: str
    outcome: str
    message: str = ""
    queue: str = ""
    position: int | None = None

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "object": self.title,
            "namespace": self.namespace or None,
            "outcome": self.outcome,
        }
        if self.message:
            data["message"] = self.message
        if self.queue:
            data["queue"] = self.queue
        if self.view is not None:
            data.update(self.view.to_dict(), position=self.position)
        return data


@click.command("submit")
@click.option(
    "-f",
    "--filename",
    required=True,
    multiple=True,
    metavar="FILE|DIRECTORY|-",
    help="Manifests to apply; of a directory its *.yaml, *.yml and *.json.",
)
@click.option("--queue", metavar="LOCALQUEUE", help="Put the jobs into this LocalQueue.")
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until every job has ended; exit 1 if one failed or cannot run.",
)
@with_target
@output_option
def command(
    filename: tuple[str, ...],
    queue: str | None,
    *,
    wait: bool,
    target: ClusterTarget,
    output: str,
) -> int:
    """Apply manifests as they are, and say for each job its Workload, queue and position."""
    manifests = [manifest for name in filename for manifest in read_manifests(name)]
    if not manifests:
        raise UsageProblem("nothing to submit: the files hold no objects")
    for manifest in manifests:
        check_namespace(manifest, target.namespace)
    return run_async(_submit(target, manifests, queue=queue, wait=wait, output=output))


async def _submit(
    target: ClusterTarget,
    manifests: list[dict[str, Any]],
    *,
    queue: str | None,
    wait: bool,
    output: str,
) -> int:
    from multiqueue.cli.declared_kinds import learn_kinds, note_unknown

    async with connect(target) as (client, namespace):
        await learn_kinds(client)
        for manifest in manifests if queue else ():
            _put_into(manifest, queue or "")
        note_unknown((m["apiVersion"], m["kind"]) for m in manifests if queue or _names_queue(m))
        results = [await _apply(client, namespace, manifest) for manifest in manifests]
        jobs = [result for result in results if result.queue and result.uid]
        await asyncio.gather(
            *(follow(client, result, _is_judged, seconds=WORKLOAD_SECONDS) for result in jobs)
        )
        await _find_positions(client, jobs)
        await _explain_unseen(client, jobs)
        if output == "human":
            for result in results:
                _show(result)
        if wait:
            await asyncio.gather(*(_wait_for_end(client, result, output) for result in jobs))
        if output != "human":
            print_data([result.to_dict() for result in results], output)
    failed = any(result.outcome == "refused" for result in results) or (
        wait and any(_has_failed(result) for result in jobs)
    )
    return ExitCode.FAILED if failed else ExitCode.OK


async def _apply(client: KubeClient, namespace: str, manifest: dict[str, Any]) -> _Submitted:
    from multiqueue.api.validation.unqueued import find_unqueued
    from multiqueue.cli.find import IN_NO_QUEUE
    from multiqueue.kube.errors import ApiError, Unauthorized
    from multiqueue.runtime.manifests import Applier, UnservedKind

    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    title = f"{manifest['kind'].lower()}/{name}"
    row = _job_kind(manifest)
    applier = Applier(client, namespace=namespace)
    try:
        # Whether Pods are queued is shown by what the manager's webhook makes of this one.
        is_pod = row is not None and row.framework == "pod"
        unqueued = find_unqueued(await applier.try_out(manifest) if is_pod else manifest)
        if unqueued is not None:
            # It is not applied: it would run at once, past the queue that the user chose.
            return _Submitted(
                title=title,
                namespace=metadata.get("namespace") or namespace,
                outcome="refused",
                message=f"{unqueued.what}; {unqueued.todo}",
            )
        result: ApplyResult = await applier.apply(manifest)
    except Unauthorized:
        raise
    except (ApiError, UnservedKind) as error:
        return _Submitted(
            title=title,
            namespace=metadata.get("namespace") or namespace,
            outcome="refused",
            message=str(error),
        )
    found = result.obj["metadata"]
    queue = (found.get("labels") or {}).get(QUEUE_NAME, "")
    return _Submitted(
        title=f"{manifest['kind'].lower()}/{found['name']}",
        namespace=found.get("namespace", ""),
        outcome=str(result.outcome),
        message=f"it {IN_NO_QUEUE}" if not queue and _is_job(row) else "",
        uid=found["uid"] if row is not None and row.is_queued else "",
        queue=queue,
    )


def _is_job(row: KnownKind | None) -> bool:
    """Whether somebody who submits such an object means it to be queued."""
    return row is not None and row.is_queued and not row.is_service and row.framework != "pod"


def _put_into(manifest: dict[str, Any], queue: str) -> None:
    """Label a job, or the template of an object that makes Jobs; ignore other objects."""
    row = _job_kind(manifest)
    if row is None or row.is_service:
        return
    labelled = manifest
    for field in filter(None, row.template.split(".")):
        labelled = labelled.setdefault(field, {})
    labels = labelled.setdefault("metadata", {}).setdefault("labels", {})
    labels[QUEUE_NAME] = queue


def _names_queue(manifest: dict[str, Any]) -> bool:
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    return QUEUE_NAME in labels


def _job_kind(manifest: dict[str, Any]) -> KnownKind | None:
    return find_job_kind(str(manifest["apiVersion"]), str(manifest["kind"]))


def _is_judged(workload: Workload, _: WorkloadRow) -> bool:
    return bool(workload.status.conditions)


async def _find_positions(client: KubeClient, jobs: list[_Submitted]) -> None:
    from multiqueue.cli.visibility import read_local_queue
    from multiqueue.views.phase import PhaseState

    waiting = [job for job in jobs if job.view is not None and job.view.state is PhaseState.QUEUED]
    if not waiting:
        return
    queues = sorted({(job.namespace, job.view.queue) for job in waiting if job.view is not None})
    found = await asyncio.gather(*(read_local_queue(client, *queue) for queue in queues))
    places = dict(zip(queues, found, strict=True))
    for job in waiting:
        assert job.view is not None
        known = places[job.namespace, job.view.queue]
        place = known.by_key.get(job.view.key)
        job.position = place.in_local_queue if place else None
    for problem in dict.fromkeys(each.problem for each in found if each.problem):
        click.echo(f"note: {problem}", err=True)


async def _explain_unseen(client: KubeClient, jobs: list[_Submitted]) -> None:
    """Say why jobs have no Workload yet."""
    from multiqueue.cli.find import explain_unseen

    for job in jobs:
        if job.view is None and job.queue and job.uid and not job.message:
            job.message = await explain_unseen(client, job.namespace, job.queue, job.uid)


async def _wait_for_end(client: KubeClient, result: _Submitted, output: str) -> None:
    if result.view is None:
        raise CliError(
            f"{result.title}: no Workload appeared within {WORKLOAD_SECONDS:g} s in LocalQueue "
            f'"{result.namespace}/{result.queue}": {result.message}'
        )
    is_over = await follow_to_verdict(client, result, lambda _, view: has_ended(view))
    if output == "human" and not is_over:
        echo(f"{result.title} cannot run as things stand: {result.view.why}")
    elif output == "human":
        where = f" on {result.view.worker}" if result.view.worker else ""
        echo(f"{result.title} {style_state(str(result.view.state))}{where}: {result.view.why}")


def _has_failed(result: _Submitted) -> bool:
    return result.view is None or result.view.state != "Succeeded"


def _show(result: _Submitted) -> None:
    if result.outcome == "refused":
        echo(f"{result.title} {style_state('refused')}: {result.message}")
        return
    echo(f"{result.title} {result.outcome}")
    if not result.queue or not result.uid:
        if result.message:
            echo(f"  {result.message}")
        return
    view = result.view
    if view is None:
        echo(f"  LocalQueue {result.queue}: no Workload yet: {result.message}")
        return
    place = f", position {result.position}" if result.position else ""
    echo(
        f"  Workload {view.key} in LocalQueue {result.queue}{place}: "
        f"{style_state(str(view.state))}"
        + (f" on {view.worker}" if view.worker else "")
        + (f" ({view.why})" if view.why else "")
    )
