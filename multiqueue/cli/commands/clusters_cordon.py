"""``multiqueue clusters cordon``: nothing new goes to a worker."""

from __future__ import annotations

import click

from multiqueue.cli.connect import Target, cluster_options, connect, run_async
from multiqueue.cli.output import echo


@click.command("cordon")
@click.argument("name", metavar="NAME")
@cluster_options
def command(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Send nothing new to worker NAME; what runs there goes on.

    What waits there without having started is offered elsewhere. "uncordon" ends it.
    """
    run_async(_cordon(Target(kubeconfig=kubeconfig, context=context), name))


async def _cordon(target: Target, name: str) -> None:
    from multiqueue.api.names import CORDON
    from multiqueue.cli.cluster_marks import mark, read_cluster

    async with connect(target) as (client, _):
        changed = await mark(client, await read_cluster(client, name), {CORDON: "true"})
    echo(f"{name} {'cordoned' if changed else 'already cordoned'}")
