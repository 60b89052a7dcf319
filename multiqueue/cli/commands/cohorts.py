"""``multiqueue cohorts``: the tree of cohorts and queues, and who lends to whom."""

from __future__ import annotations

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.errors import CliError
from multiqueue.cli.lazy import hand_down
from multiqueue.cli.output import echo, print_data, print_table, wide_output_option


@click.group("cohorts", invoke_without_command=True)
@cluster_options
@wide_output_option
@click.pass_context
def command(ctx: click.Context, target: ClusterTarget, output: str) -> None:
    """Show the tree of Cohorts and ClusterQueues: quota, used, lent and borrowed by flavor.

    A Cohort's figures are those of everything below it. LENT is what a member lends to others now,
    BORROWED what it uses beyond its own quota. -o wide adds what is free, limits and shares.

    \b
    Examples:
      multiqueue cohorts
      multiqueue cohorts show research
    """  # noqa: D301 - click reads the backspace
    if not hand_down(ctx):
        run_async(_show(target, "", output))


@command.command("show")
@click.argument("cohort", metavar="COHORT")
@cluster_options
@wide_output_option
def show(cohort: str, target: ClusterTarget, output: str) -> None:
    """Show one Cohort with all below it, and who lends to whom there.

    An amount that is borrowed is split over the lenders by how much each of them could lend.
    """
    run_async(_show(target, cohort, output))


async def _show(target: ClusterTarget, cohort: str, output: str) -> None:
    from multiqueue.cli.fleet import list_rows
    from multiqueue.cli.views import cohorts as view

    async with connect(target) as (client, _):
        quotas = await list_rows(client, "quotas")
    tree = list(view.walk_tree(quotas, cohort))
    if cohort and not tree:
        raise CliError(f'there is no Cohort "{cohort}"; "multiqueue cohorts" shows all')
    if output not in {"human", "wide"}:
        told = [
            {"name": view.name_of(node["metadata"]["name"]), "level": level, **node["status"]}
            for level, node in tree
        ]
        print_data(told, output)
        return
    if not tree:
        echo("There is no ClusterQueue.")
        return
    rows = view.list_tree_rows(tree)
    if output == "wide":
        print_table(view.WIDE_HEADERS, rows, wide=True)
    else:
        print_table(view.HEADERS, [row[: len(view.HEADERS)] for row in rows])
    if cohort and (flows := view.list_flow_rows(tree)):
        echo("\nWho lends to whom:")
        print_table(view.FLOW_HEADERS, flows)
