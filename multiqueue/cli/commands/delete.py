"""``multiqueue delete``: delete Workloads with their jobs; queues and flavors by kubectl."""

from __future__ import annotations

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, run_async, with_target
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.kueuectl.hand_over import make_hand_over
from multiqueue.cli.kueuectl.kinds import ALL, WORKLOAD, KindGroup
from multiqueue.cli.kueuectl.options import (
    DryRun,
    all_namespaces_option,
    dry_run_option,
    object_option,
)


@click.command("workload")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=names_of("workloads"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--all", "every", is_flag=True, help="All Workloads of the namespace.")
@all_namespaces_option
@dry_run_option
@object_option
@with_target
def delete_workload(
    *,
    target: ClusterTarget,
    names: tuple[str, ...],
    yes: bool,
    every: bool,
    all_namespaces: bool,
    dry_run: DryRun,
    output: str,
) -> None:
    """Delete Workloads and the jobs that they belong to; ask before jobs are deleted.

    The Workload of a job goes after its job.
    """
    if not every and not names:
        raise UsageProblem("name a Workload, or use --all")
    if every and names:
        raise UsageProblem("name Workloads, or use --all, not both")
    if all_namespaces and names:
        raise UsageProblem("a Workload cannot be named across all namespaces; use -n")
    from multiqueue.cli.kueuectl.deletion import delete_workloads

    run_async(
        delete_workloads(
            target,
            names,
            all_namespaces=all_namespaces,
            ask=not yes,
            output=output,
            dry_run=dry_run,
        )
    )


command = KindGroup(
    "delete",
    help_="Delete Workloads with their jobs; queues and flavors by kubectl delete.",
    kinds={
        kind: delete_workload if kind is WORKLOAD else make_hand_over("delete", kind)
        for kind in ALL
    },
)
