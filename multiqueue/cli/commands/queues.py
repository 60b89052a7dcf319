"""``multiqueue queues``: the ClusterQueues, and questions about one queue."""

from __future__ import annotations

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, run_async
from multiqueue.cli.lazy import LazyGroup, hand_down
from multiqueue.cli.output import wide_output_option

SUBCOMMANDS = {"show": "Show a queue in numbers; --diagnose says why its Workloads wait"}
"""Each is in a module of its own, ``queues_NAME``."""


@click.command(
    "queues",
    cls=LazyGroup,
    sections={"Commands": SUBCOMMANDS},
    modules="multiqueue.cli.commands.queues_{}",
    invoke_without_command=True,
)
@cluster_options
@wide_output_option
@click.pass_context
def command(ctx: click.Context, target: ClusterTarget, output: str) -> None:
    """List the ClusterQueues as "list clusterqueue" does; with "show", one queue in numbers."""
    if hand_down(ctx):
        return
    from multiqueue.cli.commands.list import list_kind
    from multiqueue.cli.kueuectl.kinds import CLUSTER_QUEUE

    run_async(list_kind(target, CLUSTER_QUEUE, {"output": output}))
