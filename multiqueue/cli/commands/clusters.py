"""``multiqueue clusters``: the workers and their GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.lazy import LazyGroup, hand_down
from multiqueue.cli.output import echo, print_data, print_table, wide_output_option

if TYPE_CHECKING:
    from multiqueue.cli.workers import WorkerStatus


SUBCOMMANDS = {
    "show": "Show one worker: its flavors, its health, the jobs there",
    "cordon": "Send nothing new to a worker",
    "uncordon": "Use a worker again; ends a drain too",
    "drain": "Move what runs on a worker elsewhere, a few at a time",
    "bootstrap": "Make a cluster a worker: account, rights, kubeconfig",
    "verify": "Report where workers differ from what the manager needs there",
    "sync": "Bring queues, flavors, namespaces and priority classes to workers",
}
"""Each is in a module of its own, ``clusters_NAME``."""

HEADERS = ("WORKER", "CONNECTED", "STATE", "GPUS", "USED", "FREE", "RUNNING", "WAITING", "REASON")


@click.command(
    "clusters",
    cls=LazyGroup,
    sections={"Commands": SUBCOMMANDS},
    modules="multiqueue.cli.commands.clusters_{}",
    invoke_without_command=True,
)
@system_namespace_option
@cluster_options
@wide_output_option
@click.pass_context
def command(
    ctx: click.Context,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> None:
    """Show the worker clusters: connected or why not, GPUs in use and free, what runs there."""
    if not hand_down(ctx):
        run_async(_show(target, system_namespace, output))


async def _show(target: ClusterTarget, system_namespace: str, output: str) -> None:
    from multiqueue.cli.leader import find_absence
    from multiqueue.cli.workers import read_workers

    async with connect(target) as (client, _):
        workers = await read_workers(client, system_namespace=system_namespace)
        absence = await find_absence(client, system_namespace)
    if absence:
        echo(f"{click.style('warning: ', fg='yellow')}{absence}", err=True)
    if output not in {"human", "wide"}:
        print_data([{**worker.to_dict(), "stale": bool(absence)} for worker in workers], output)
        return
    if not workers:
        echo("No MultiKueueClusters; jobs run on this cluster only.")
        return
    if output == "wide":
        headers = [*HEADERS[:-1], "PROGRAM", "KUBERNETES", HEADERS[-1]]
        print_table(headers, [_wide_row(worker) for worker in workers], wide=True)
    elif print_table(HEADERS, [build_row(worker) for worker in workers]):
        echo('REASON is cut here; "multiqueue clusters -o wide" shows all of it.', err=True)


def _wide_row(worker: WorkerStatus) -> list[str | int]:
    found = worker.capabilities or {}
    told = [worker.reason, worker.problem, worker.use.told, *worker.warnings, *worker.stopped]
    versions = [found.get("program", ""), found.get("kubernetes", "")]
    return [*build_row(worker)[:-1], *versions, "; ".join(filter(None, told))]


def build_row(worker: WorkerStatus) -> list[str | int]:
    """Return one row of the table, in the order of `HEADERS`."""
    flavors = worker.flavors
    return [
        worker.name,
        "Connected" if worker.connected else "Disconnected",
        worker.use.words,
        ", ".join(f"{f.total} {f.flavor}" for f in flavors),
        ", ".join(str(f.used) for f in flavors),
        ", ".join(str(f.free) for f in flavors),
        len(worker.running),
        worker.waiting,
        worker.reason
        or worker.problem
        or worker.use.told
        or "; ".join(worker.warnings + worker.stopped),
    ]
