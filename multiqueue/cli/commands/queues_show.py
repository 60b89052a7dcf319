"""``multiqueue queues show``: the numbers of one queue, and with --diagnose why jobs wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.errors import CliError
from multiqueue.cli.output import echo, output_option, print_data, print_table
from multiqueue.lib.words import count_of

if TYPE_CHECKING:
    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.cli.views.diagnosis import QueueFinding, WaitingWorkload
    from multiqueue.cli.views.quota_rows import QuotaRow
    from multiqueue.cli.visibility import Places
    from multiqueue.kube.client import KubeClient

ASKED = 10
"""About how many waiting Workloads the manager is asked; the reasons of the others are read."""


@click.command("show")
@click.argument("queue", metavar="QUEUE")
@click.option("--diagnose", is_flag=True, help="Say why Workloads wait here, and what to do.")
@with_target
@output_option
def command(
    queue: str,
    *,
    diagnose: bool,
    target: ClusterTarget,
    output: str,
) -> None:
    """Show one queue: its quota by flavor, and how many Workloads hold it or wait for it.

    QUEUE is a LocalQueue of the namespace, NAMESPACE/NAME, or else a ClusterQueue; lq/NAME and
    cq/NAME choose. With --diagnose: which of these it is, each with what to do: the queue is
    stopped or inactive, a head blocks the others, jobs are too large, the quota is too low, the
    share is too small, a worker is out of reach, a check does not answer.
    """
    run_async(_show(target, queue, output, diagnose=diagnose))


async def _show(target: ClusterTarget, name: str, output: str, *, diagnose: bool) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.cli.views.diagnosis import diagnose as find
    from multiqueue.cli.views.quota_rows import list_quota

    async with connect(target) as (client, namespace):
        objects = QueueObjects(now=datetime.now(UTC), namespace=namespace)
        kinds = ("local_queues", "cluster_queues", "workloads", "checks", "configs", "clusters")
        await objects.list(client, *kinds)
        local, cluster = _resolve(objects, name, namespace)
        findings: list[QueueFinding] = []
        problem = ""
        if diagnose:
            waiting, problem = await _read_waiting(client, objects, local, cluster)
            findings = find(objects, waiting, local_queue=local, cluster_queue=cluster)
    quota = list_quota(objects, cluster, local)
    if output != "human":
        told: dict[str, Any] = {"localQueue": local or None, "clusterQueue": cluster}
        told["quota"] = [row.to_dict() for row in quota]
        if diagnose:
            told |= {"findings": [each.to_dict() for each in findings], "problem": problem or None}
        print_data(told, output)
        return
    _print(objects, local, cluster, quota)
    if diagnose:
        _print_findings(findings)
    for note in _notes(objects, problem):
        echo(f"\nNote: {note}")


def _resolve(objects: QueueObjects, name: str, namespace: str) -> tuple[str, str]:
    """Return the LocalQueue, or an empty string, and the ClusterQueue that a user means.

    Raises:
        CliError: there is no such queue, or the user may not read it.
    """
    kind, _, bare = name.rpartition("/")
    if kind != "cq":
        key = f"{namespace}/{bare}" if kind in {"", "lq"} else name
        queue = objects.local_queues.get(key)
        if queue is not None:
            return key, queue.spec.cluster_queue
    if kind in {"", "cq"} and (bare in objects.cluster_queues or _serves(objects, bare)):
        return "", bare
    where = f'LocalQueue "{name}" in namespace "{namespace}"' if "/" not in name else f'"{name}"'
    more = "; you may not list ClusterQueues" if "clusterqueues" in objects.hidden else ""
    raise CliError(
        f"there is no {where}, and no such ClusterQueue{more}; `multiqueue queue -A` lists them"
    )


def _serves(objects: QueueObjects, cluster_queue: str) -> bool:
    """Whether a LocalQueue leads to a ClusterQueue that may not be read."""
    hidden = "clusterqueues" in objects.hidden
    queues = objects.local_queues.values()
    return hidden and any(queue.spec.cluster_queue == cluster_queue for queue in queues)


async def _read_waiting(
    client: KubeClient, objects: QueueObjects, local: str, cluster: str
) -> tuple[list[WaitingWorkload], str]:
    """Return the waiting Workloads in their order, the first ones with the manager's answers."""
    from multiqueue.api.names import split_key
    from multiqueue.cli.views.diagnosis import list_waiting
    from multiqueue.cli.visibility import explain_workload, read_cluster_queue, read_local_queue

    places: Places
    if local:
        places = await read_local_queue(client, *split_key(local))
    else:
        places = await read_cluster_queue(client, cluster)
    waiting = list_waiting(objects, places.by_key, local_queue=local, cluster_queue=cluster)
    asked = waiting[:ASKED]
    answers = await asyncio.gather(
        *(
            explain_workload(
                client,
                each.workload.metadata.namespace,
                each.workload.metadata.name,
                each.workload.spec.queue_name,
            )
            for each in asked
        )
    )
    for each, answer in zip(asked, answers, strict=True):
        each.answer = answer
    return waiting, next((answer.problem for answer in answers if answer.problem), "")


def _print(objects: QueueObjects, local: str, cluster: str, quota: list[QuotaRow]) -> None:
    found = objects.cluster_queues.get(cluster)
    cohort = f" in cohort {found.spec.cohort_name}" if found and found.spec.cohort_name else ""
    status = objects.local_queues[local].status if local else found.status if found else None
    echo(f"LocalQueue {local} -> {cluster}{cohort}" if local else f"ClusterQueue {cluster}{cohort}")
    if status is not None:
        holding, pending = status.reserving_workloads or 0, status.pending_workloads or 0
        echo(f"  {count_of(holding, 'Workload')} with quota, {pending} waiting")
    if quota:
        echo()
        headers = ["FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED"]
        print_table(headers, [[q.flavor, q.resource, q.nominal, q.used, q.borrowed] for q in quota])


def _print_findings(findings: list[QueueFinding]) -> None:
    echo()
    if not findings:
        echo("Nothing keeps Workloads waiting here.")
        return
    for each in findings:
        echo(f"{click.style(each.cause, fg='yellow')}: {each.what}")
        echo(f"  do: {each.todo}")


def _notes(objects: QueueObjects, problem: str) -> list[str]:
    notes = [f"{problem}; the reasons are those last written on the Workloads"] if problem else []
    if objects.narrowed:
        kinds = ", ".join(objects.narrowed)
        notes.append(f'of {kinds} you may list those in namespace "{objects.namespace}" only')
    if objects.hidden:
        notes.append(f"you may not list {', '.join(objects.hidden)}")
    return notes
