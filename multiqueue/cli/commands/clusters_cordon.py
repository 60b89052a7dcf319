"""``multiqueue clusters cordon``: send no new jobs to a worker."""

from __future__ import annotations

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import echo


@click.command("cordon")
@click.argument("name", metavar="NAME", shell_complete=names_of("multikueueclusters"))
@click.option("--reason", metavar="TEXT", help="Why, for whoever looks; as before by default.")
@cluster_options
def command(name: str, reason: str | None, target: ClusterTarget) -> None:
    """Send nothing new to worker NAME; what runs there goes on.

    What waits there without having started is offered elsewhere. "uncordon" ends it.
    """
    if reason is not None and reason.strip() in {"", "false"}:
        raise UsageProblem(f'--reason: "{reason}" is no reason; to end the cordon, use uncordon')
    run_async(_cordon(target, name, reason))


async def _cordon(target: ClusterTarget, name: str, reason: str | None) -> None:
    from multiqueue.api.cluster_orders import OFF, read_orders
    from multiqueue.api.names import CORDON
    from multiqueue.cli.cluster_marks import mark, read_cluster

    async with connect(target) as (client, _):
        cluster = await read_cluster(client, name)
        known = cluster.metadata.annotations.get(CORDON, OFF)
        value = reason or (known if known.strip() not in {OFF, ""} else "true")
        changed = await mark(client, cluster, {CORDON: value})
    why = f" ({value})" if value != "true" else ""
    told = f"{name} {'cordoned' if changed else 'already cordoned'}{why}"
    orders = read_orders(cluster.metadata.annotations)
    drained = orders.drain is not None or orders.problem
    echo(f'{told}; its drain goes on, "uncordon" ends both' if drained else told)
