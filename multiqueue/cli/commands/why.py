"""``multiqueue why``: explain a job's state and why it waits, with the numbers.

`_show` prints the lines, and `cli/views/explanation.py` puts them together. The manager words what
is behind "Why": `visibility/pending_words.py`, or the message of the Workload's condition.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import (
    ClusterTarget,
    connect,
    run_async,
    system_namespace_option,
    with_target,
)
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import (
    echo,
    output_option,
    print_data,
    print_table,
    style_state,
    write_result,
)
from multiqueue.lib.words import count_of

if TYPE_CHECKING:
    from datetime import datetime

    from multiqueue.api.autoscaling import ProvisioningRequest
    from multiqueue.api.v1beta2 import Workload
    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.cli.views.explanation import WorkloadExplanation
    from multiqueue.cli.visibility import ManagerAnswer
    from multiqueue.kube.client import KubeClient


@click.command("why")
@click.argument("workload", metavar="WORKLOAD|JOB", shell_complete=names_of("jobs"))
@click.option(
    "--clusters",
    "about_clusters",
    is_flag=True,
    help="Why it was dispatched as it was: per cluster tier, score and estimated start.",
)
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write how it got here as a trace, for ui.perfetto.dev or chrome://tracing.",
)
@system_namespace_option
@with_target
@output_option
def command(
    *,
    workload: str,
    about_clusters: bool,
    trace_file: Path | None,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> None:
    """Explain where a job stands: its queue, the quota it needs, its checks and the workers.

    Takes the name of a Workload or of its job: NAME, KIND/NAME or NAMESPACE/NAME.
    """
    if trace_file is not None:
        if about_clusters or output != "human":
            raise UsageProblem("--trace writes a file only; leave --clusters and --output out")
        run_async(_write_trace(target, workload, trace_file))
        return
    if about_clusters:
        run_async(_why_clusters(target, workload, output))
        return
    run_async(_why(target, workload, system_namespace, output))


async def _why_clusters(target: ClusterTarget, name: str, output: str) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.decisions import fetch_decision, print_decision
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.views.decisions import to_dict

    async with connect(target) as (client, namespace):
        found = (await find_workload(client, namespace, name)).metadata
        decision = await fetch_decision(client, found.namespace, found.name)
    if output != "human":
        print_data(to_dict(decision), output)
        return
    print_decision(decision, datetime.now(UTC))


async def _write_trace(target: ClusterTarget, name: str, path: Path) -> None:
    from datetime import UTC, datetime

    import orjson

    from multiqueue.cli.find import find_workload
    from multiqueue.cli.fleet import read_story
    from multiqueue.views.trace_events import build_trace

    async with connect(target) as (client, namespace):
        workload = (await find_workload(client, namespace, name)).metadata
        story = await read_story(client, workload.namespace, workload.name)
    trace = build_trace(workload.key, story["spans"], datetime.now(UTC))
    write_result(path, orjson.dumps(trace, option=orjson.OPT_INDENT_2).decode())
    echo(f"{path}: {count_of(len(story['spans']), 'phase')}; open it in https://ui.perfetto.dev")


async def _why(target: ClusterTarget, name: str, system_namespace: str, output: str) -> None:
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.views.checks import has_provisioning
    from multiqueue.cli.views.explanation import explain

    async with connect(target) as (client, namespace):
        workload = await find_workload(client, namespace, name)
        objects, answer = await _read(client, workload)
        remote = await _read_copies(client, objects, workload, system_namespace)
        owner = await _read_owner(client, workload.metadata.namespace)
        requests: list[ProvisioningRequest] = []
        if has_provisioning(objects, workload):
            from multiqueue.cli.requests import read_requests

            requests = await read_requests(client, workload)
    explanation = explain(objects, workload, answer, remote=remote, requests=requests, owner=owner)
    if output != "human":
        print_data(explanation.to_dict(), output)
        return
    _show(explanation, objects.now)
    if objects.narrowed:
        echo(f"\nRead in this namespace only, for want of rights: {', '.join(objects.narrowed)}")
    if objects.hidden:
        echo(f"\nNot readable for you, so some rows may lack: {', '.join(objects.hidden)}")


async def _read(client: KubeClient, workload: Workload) -> tuple[QueueObjects, ManagerAnswer]:
    """Ask the manager about a waiting Workload, and read the objects that explain it."""
    from datetime import UTC, datetime

    from multiqueue.api.slices import replaced_key
    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.cli.views.rivals import waits_for_others
    from multiqueue.cli.visibility import explain_workload
    from multiqueue.views.phase import PhaseState, find_phase

    namespace, queue = workload.metadata.namespace, workload.spec.queue_name
    objects = QueueObjects(now=datetime.now(UTC), namespace=namespace)
    objects.add("workloads", [workload])
    reading = [
        objects.get(client, "local_queues", queue, namespace=namespace),
        objects.list(client, "checks", "configs", "clusters"),
        objects.get_job(client, workload),
    ]
    if replaced := replaced_key(workload).partition("/")[2]:
        reading.append(objects.get(client, "workloads", replaced, namespace=namespace))
    if find_phase(workload).state is PhaseState.QUEUED:
        asking = explain_workload(client, namespace, workload.metadata.name, queue)
    else:
        asking = _nothing()
    answer, _ = await asyncio.gather(asking, asyncio.gather(*reading))
    if behind := objects.cluster_queue_of(workload):
        await objects.get(client, "cluster_queues", behind)
    if waits_for_others(workload, answer.reason):
        await objects.list(client, "workloads", "local_queues")
    return objects, answer


async def _read_owner(client: KubeClient, namespace: str) -> str:
    """Return the owner of a namespace (P-121); its name if it may not be read."""
    from multiqueue.kube.errors import Forbidden, NotFound
    from multiqueue.kube.resources import NAMESPACES
    from multiqueue.model.owners import find_owner

    try:
        found = await client.get(NAMESPACES, namespace)
    except (Forbidden, NotFound):
        return namespace
    return find_owner(namespace, found["metadata"].get("labels"))


async def _nothing() -> ManagerAnswer:
    """Return the empty answer for a Workload that does not wait."""
    from multiqueue.cli.visibility import ManagerAnswer

    return ManagerAnswer()


async def _read_copies(
    client: KubeClient, objects: QueueObjects, workload: Workload, system_namespace: str
) -> dict[str, str]:
    """Return the states of a Workload's copies on workers."""
    status = workload.status
    offered = [*status.nominated_cluster_names, *filter(None, [status.cluster_name])]
    clusters = [objects.clusters[name] for name in offered if name in objects.clusters]
    if not clusters:
        return {}
    from multiqueue.cli.worker_access import read_remote_states

    return await read_remote_states(
        client, clusters, workload.metadata.key, system_namespace=system_namespace
    )


def _show(explanation: WorkloadExplanation, now: datetime) -> None:
    from multiqueue.views.ages import format_age

    view = explanation.view
    echo(
        f"Workload {view.key} ({view.job}), {count_of(view.gpus, 'GPU')}, priority {view.priority}"
    )
    cohort = f" in cohort {explanation.cohort}" if explanation.cohort else ""
    behind = explanation.cluster_queue or (
        "no ClusterQueue: the LocalQueue does not exist; "
        f"`kubectl get localqueues -n {view.namespace}` lists those that do"
    )
    echo(f"  Queue:  {view.queue} -> {behind}{cohort}")
    place = f", position {explanation.position}" if explanation.position else ""
    if place and explanation.waiting is not None:
        place += f" of {explanation.waiting}"
    since = view.phase.since
    age = f" for {format_age(since, now)}" if since else ""
    echo(f"  State:  {style_state(view.phase.words, str(view.state))}{place}{age}")
    for label, text in (
        ("Owner", "" if explanation.owner == view.namespace else explanation.owner),
        ("Why", view.why),
        ("Stays", explanation.stays),
        ("Cause", explanation.cause),
        ("Pods", explanation.pods),
        ("Asks", explanation.asks),
        ("Order", explanation.order),
        ("Share", explanation.share),
        ("Others", explanation.no_preemption),
        ("Left", explanation.preempted),
        ("Next", explanation.next),
    ):
        if text:
            echo(f"  {f'{label}:':7} {text}")
    _show_start(explanation)
    _show_rivals(explanation, now)
    _show_numbers(explanation)
    _show_checks(explanation, now)
    _show_workers(explanation)
    if explanation.conditions:
        echo()
        print_table(
            ["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"],
            [
                [c["type"], c["status"], c["reason"], c["since"], _message(c, explanation)]
                for c in explanation.conditions
            ],
        )
    if explanation.problem:
        echo(f"\nNote: {explanation.problem}. Everything else is read from the objects.")


def _message(condition: dict[str, Any], explanation: WorkloadExplanation) -> str:
    """Return a condition's message; an older one than the manager's answer is not repeated."""
    is_answered = explanation.position is not None and not explanation.problem
    if is_answered and (condition["type"], condition["status"]) == ("QuotaReserved", "False"):
        return "now: see Why above"
    return str(condition["message"])


def _show_start(explanation: WorkloadExplanation) -> None:
    if explanation.start:
        from multiqueue.cli.views.start import list_start_lines

        for line in list_start_lines(explanation.start, explanation.view.why):
            echo(f"  {line}")


def _show_numbers(explanation: WorkloadExplanation) -> None:
    if explanation.numbers:
        echo()
        print_table(
            ["FLAVOR", "RESOURCE", "ASKED", "NOMINAL", "USED", "FREE", "BORROWABLE", "VERDICT"],
            [
                [n.flavor, n.resource, n.asked, n.nominal, n.used, n.free, n.borrowable, n.verdict]
                for n in explanation.numbers
            ],
        )


def _show_workers(explanation: WorkloadExplanation) -> None:
    if explanation.workers:
        echo()
        print_table(
            ["WORKER", "CONNECTED", "ROLE", "THERE"],
            [
                [
                    worker.name,
                    "Connected" if worker.connected else "Disconnected",
                    worker.role,
                    "; ".join(filter(None, (worker.there, worker.reason))),
                ]
                for worker in explanation.workers
            ],
        )


def _show_rivals(explanation: WorkloadExplanation, now: datetime) -> None:
    from multiqueue.cli.views.checks import show_since

    if explanation.rivals:
        echo()
        rows = [
            [r.workload, r.job, r.cluster_queue, r.priority, show_since(r.since, now), r.state]
            for r in explanation.rivals
        ]
        print_table(["WAITS FOR", "JOB", "CLUSTERQUEUE", "PRIORITY", "SINCE", "STATE"], rows)


def _show_checks(explanation: WorkloadExplanation, now: datetime) -> None:
    from multiqueue.cli.views.checks import show_since

    if explanation.checks:
        echo()
        rows = [
            [c.name, c.state, show_since(c.since, now), c.retries, c.inactive or c.message]
            for c in explanation.checks
        ]
        print_table(["CHECK", "STATE", "SINCE", "RETRIES", "MESSAGE"], rows)
    if explanation.requests:
        echo()
        print_table(
            ["PROVISIONINGREQUEST", "CLASS", "STATE", "MESSAGE"],
            [[r.name, r.provisioning_class, r.state, r.message] for r in explanation.requests],
        )
