"""Completes names from the cluster, and answers kubectl when it completes the plugin."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

from multiqueue.cli.connect import ClusterTarget
from multiqueue.cli.connection_flags import take_flags

SECONDS_VARIABLE = "MULTIQUEUE_COMPLETION_SECONDS"
SECONDS = 0.3
"""How long names may take: people wait for a completion, and nothing is better than late."""
NO_FILES, DEFAULT = 4, 0
"""What kubectl makes of a list of completions: no files beside it, or what the shell does."""

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def names_of(plural: str) -> Complete:
    """Return a completion by the names of objects in the cluster.

    Args:
        plural: A collection of kueue.x-k8s.io, such as ``localqueues``; or ``jobs`` for the names
            of those that have a Workload.
    """

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        given = dict(context.params)
        target = ClusterTarget(
            kubeconfig=given.get("kubeconfig"),
            context=given.get("context"),
            namespace=given.get("namespace"),
            flags=take_flags(given),
        )
        return [name for name in _read_names(target, plural) if name.startswith(incomplete)]

    return complete


def _read_names(target: ClusterTarget, plural: str) -> list[str]:
    """Return the names; none if the cluster does not answer in time, or refuses."""
    import asyncio

    from multiqueue.cli.connect import connect, run_async
    from multiqueue.cli.errors import CliError
    from multiqueue.kube import client as _  # noqa: F401 - its import must not count as waiting
    from multiqueue.kube import resources

    collections = {
        each.plural: each
        for each in (
            resources.WORKLOADS,
            resources.LOCAL_QUEUES,
            resources.CLUSTER_QUEUES,
            resources.RESOURCE_FLAVORS,
            resources.MULTIKUEUE_CLUSTERS,
        )
    }

    async def read() -> list[str]:
        async with asyncio.timeout(_seconds()), connect(target) as (client, namespace):
            resource = collections["workloads" if plural == "jobs" else plural]
            where = namespace if resource.namespaced else None
            listed = await client.list(resource, namespace=where)
        named = [each["metadata"] for each in listed.items]
        if plural == "jobs":
            named = [owner for each in named for owner in each.get("ownerReferences") or ()]
        return sorted({each["name"] for each in named})

    try:
        return run_async(read())
    except (CliError, TimeoutError):
        return []


def _seconds() -> float:
    """Return how long names may take; the environment may say."""
    try:
        return float(os.environ.get(SECONDS_VARIABLE, SECONDS))
    except ValueError:
        return SECONDS


def main() -> int:
    """Answer ``kubectl_complete-multiqueue``, which kubectl runs to complete the plugin.

    The last argument is the word to complete. The answer is a line for each completion, with its
    help after a tab, and a last line with a directive.
    """
    from click.shell_completion import ShellComplete

    from multiqueue.cli.main import cli

    *before, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(cli, {}, "kubectl multiqueue", "").get_completions(before, incomplete)
    files = False
    for item in found:
        files = files or item.type != "plain"
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{DEFAULT if files else NO_FILES}")
    return 0
