"""``multiqueue clusters cordon``: nothing new goes to a worker."""

from __future__ import annotations

import click

from multiqueue.cli.connect import Target, cluster_options, connect, run_async
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import echo


@click.command("cordon")
@click.argument("name", metavar="NAME")
@click.option("--reason", default="true", metavar="TEXT", help="Why, for whoever looks.")
@cluster_options
def command(name: str, reason: str, kubeconfig: str | None, context: str | None) -> None:
    """Send nothing new to worker NAME; what runs there goes on.

    What waits there without having started is offered elsewhere. "uncordon" ends it.
    """
    if reason.strip() == "false":
        raise UsageProblem('--reason: "false" would end the cordon; use uncordon')
    run_async(_cordon(Target(kubeconfig=kubeconfig, context=context), name, reason))


async def _cordon(target: Target, name: str, reason: str) -> None:
    from multiqueue.api.names import CORDON
    from multiqueue.cli.cluster_marks import mark, read_cluster

    async with connect(target) as (client, _):
        changed = await mark(client, await read_cluster(client, name), {CORDON: reason})
    echo(f"{name} {'cordoned' if changed else 'already cordoned'}")
