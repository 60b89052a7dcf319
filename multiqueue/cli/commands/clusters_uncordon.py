"""``multiqueue clusters uncordon``: use a worker again."""

from __future__ import annotations

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.output import echo


@click.command("uncordon")
@click.argument("name", metavar="NAME", shell_complete=names_of("multikueueclusters"))
@cluster_options
def command(name: str, target: ClusterTarget) -> None:
    """Use worker NAME again; ends a drain too.

    What a drain has already asked to move goes on to another worker, or comes back.
    """
    run_async(_uncordon(target, name))


async def _uncordon(target: ClusterTarget, name: str) -> None:
    from multiqueue.api.names import CORDON, DRAIN
    from multiqueue.cli.cluster_marks import mark, read_cluster

    async with connect(target) as (client, _):
        changed = await mark(client, await read_cluster(client, name), {CORDON: None, DRAIN: None})
    echo(f"{name} {'uncordoned' if changed else 'is in use already'}")
