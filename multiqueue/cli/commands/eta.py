"""``multiqueue eta``: when a waiting job is expected to start, as the manager estimates it."""

from __future__ import annotations

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    namespace_option,
    run_async,
)
from multiqueue.cli.output import echo, output_option, print_data


@click.command("eta")
@click.argument("workload", metavar="WORKLOAD|JOB", shell_complete=names_of("jobs"))
@namespace_option
@cluster_options
@output_option
def command(
    *,
    workload: str,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Say when a waiting job is expected to start, and how sure that is.

    Four in five jobs start in the range in brackets. The manager computes it; no job is promised a
    start. Takes the name of a Workload or of its job: NAME, KIND/NAME or NAMESPACE/NAME.
    """
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
    run_async(_eta(target, workload, output))


async def _eta(target: ClusterTarget, name: str, output: str) -> None:
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.views.start import list_start_lines
    from multiqueue.cli.visibility import explain_workload
    from multiqueue.views.phase import find_phase

    async with connect(target) as (client, namespace):
        found = await find_workload(client, namespace, name)
        metadata = found.metadata
        queue = found.spec.queue_name
        answer = await explain_workload(client, metadata.namespace, metadata.name, queue)
    if output != "human":
        print_data({"workload": metadata.key, "start": dict(answer.start) or None}, output)
        return
    if answer.start:
        echo(f"Workload {metadata.key}")
        for line in list_start_lines(answer.start):
            echo(f"  {line}")
        return
    words = find_phase(found).words
    problem = f"; {answer.problem}" if answer.problem else ""
    echo(f"Workload {metadata.key} does not wait for quota: {words}{problem}")
