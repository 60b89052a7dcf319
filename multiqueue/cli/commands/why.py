"""``multiqueue why``: where a job stands, what it waits for, with the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multiqueue.cli.connect import (
    Target,
    cluster_options,
    connect,
    namespace_option,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.output import echo, output_option, print_data, print_table, style_state

if TYPE_CHECKING:
    from datetime import datetime

    from multiqueue.cli.views.explanation import Explanation


@click.command("why")
@click.argument("workload", metavar="WORKLOAD|JOB")
@click.option(
    "--clusters",
    "about_clusters",
    is_flag=True,
    help="Why it was dispatched as it was: per cluster tier, score and estimated start.",
)
@system_namespace_option
@namespace_option
@cluster_options
@output_option
def command(
    *,
    workload: str,
    about_clusters: bool,
    system_namespace: str,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Explain where a job stands: its queue, the quota it needs, its checks and the workers.

    Takes the name of a Workload or of its job: NAME, KIND/NAME or NAMESPACE/NAME.
    """
    target = Target(kubeconfig=kubeconfig, context=context, namespace=namespace)
    if about_clusters:
        run_async(_why_clusters(target, workload, output))
        return
    run_async(_why(target, workload, system_namespace, output))


async def _why_clusters(target: Target, name: str, output: str) -> None:
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


async def _why(target: Target, name: str, system_namespace: str, output: str) -> None:
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.mirror import load_mirror
    from multiqueue.cli.requests import read_requests
    from multiqueue.cli.views.checks import has_provisioning
    from multiqueue.cli.views.explanation import explain
    from multiqueue.cli.workers import read_remote_states

    async with connect(target) as (client, namespace):
        workload = await find_workload(client, namespace, name)
        mirror = await load_mirror(client)
        workload = mirror.workloads.get(workload.metadata.key, workload)
        status = workload.status
        offered = [*status.nominated_cluster_names, *filter(None, [status.cluster_name])]
        remote = await read_remote_states(
            client,
            [mirror.clusters[name] for name in offered if name in mirror.clusters],
            workload.metadata.key,
            system_namespace=system_namespace,
        )
        requests = (
            await read_requests(client, workload) if has_provisioning(mirror, workload) else []
        )
    explanation = explain(mirror, workload, remote, requests)
    if output != "human":
        print_data(explanation.to_dict(), output)
        return
    _show(explanation, mirror.now)
    if mirror.hidden:
        echo(f"\nNot readable for you, so some numbers may lack: {', '.join(mirror.hidden)}")


def _show(explanation: Explanation, now: datetime) -> None:
    from multiqueue.cli.views.ages import format_age

    view = explanation.view
    echo(f"Workload {view.key} ({view.job}), {view.gpus} GPUs, priority {view.priority}")
    cohort = f" in cohort {explanation.cohort}" if explanation.cohort else ""
    behind = explanation.cluster_queue or "no ClusterQueue: the LocalQueue does not exist"
    echo(f"  Queue:  {view.queue} -> {behind}{cohort}")
    place = (
        f", position {explanation.position} of {explanation.waiting}"
        if explanation.position
        else ""
    )
    since = view.phase.since
    age = f" for {format_age(since, now)}" if since else ""
    echo(f"  State:  {style_state(view.phase.words, str(view.state))}{place}{age}")
    for label, text in (
        ("Why", view.why),
        ("Stays", explanation.stays),
        ("Cause", explanation.cause),
        ("Pods", explanation.pods),
        ("Asks", explanation.asks),
        ("Order", explanation.order),
        ("Left", explanation.preempted),
        ("Next", explanation.next),
    ):
        if text:
            echo(f"  {f'{label}:':7} {text}")
    _show_rivals(explanation, now)
    if explanation.numbers:
        echo()
        print_table(
            ["FLAVOR", "RESOURCE", "ASKED", "NOMINAL", "USED", "FREE", "BORROWABLE", "VERDICT"],
            [
                [n.flavor, n.resource, n.asked, n.nominal, n.used, n.free, n.borrowable, n.verdict]
                for n in explanation.numbers
            ],
        )
    _show_checks(explanation, now)
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
    if explanation.conditions:
        echo()
        print_table(
            ["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"],
            [
                [c["type"], c["status"], c["reason"], c["since"], c["message"]]
                for c in explanation.conditions
            ],
        )


def _show_rivals(explanation: Explanation, now: datetime) -> None:
    from multiqueue.cli.views.checks import show_since

    if explanation.rivals:
        echo()
        rows = [
            [r.workload, r.job, r.cluster_queue, r.priority, show_since(r.since, now), r.state]
            for r in explanation.rivals
        ]
        print_table(["WAITS FOR", "JOB", "CLUSTERQUEUE", "PRIORITY", "SINCE", "STATE"], rows)


def _show_checks(explanation: Explanation, now: datetime) -> None:
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
