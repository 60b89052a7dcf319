"""``multiqueue worker-guard``: run the guard of a worker."""

from __future__ import annotations

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    is_in_cluster,
    kubeconfig_options,
    load_credentials,
    system_namespace_option,
)
from multiqueue.cli.errors import ExitCode
from multiqueue.cli.logs import log_options, start_logging


@click.command("worker-guard")
@click.option(
    "--host",
    default="",
    help="Listen on this address; outside of a cluster the API server is told to ask there "
    "(127.0.0.1 by default).",
)
@click.option("--port", default=9443, show_default=True, help="Listen on this port; 0 for any.")
@system_namespace_option
@kubeconfig_options
@log_options
def command(
    *,
    host: str,
    port: int,
    system_namespace: str,
    target: ClusterTarget,
    log_level: str,
    log_format: str,
) -> int:
    """Guard a worker cluster against managers that are not up to date, until SIGTERM or Ctrl-C.

    Run it on the worker. A copy or a job that a manager made for an older reservation than one that
    was seen there is refused. Optional: while it is away, nothing is.
    """
    from multiqueue.runtime.process import Stopped, run_process

    start_logging(log_level, log_format)
    try:
        run_process(lambda: _run(target, host, port, system_namespace))
    except Stopped:
        return ExitCode.OK
    return ExitCode.OK


async def _run(target: ClusterTarget, host: str, port: int, namespace: str) -> None:
    from multiqueue.jobs.setup import list_remote_kinds
    from multiqueue.kube.client import KubeClient
    from multiqueue.serving.server import DRAIN_SECONDS
    from multiqueue.webhooks.guard.service import GuardOptions, WorkerGuard

    by_url = bool(host) or not is_in_cluster()
    options = GuardOptions(
        namespace=namespace,
        host=host or ("127.0.0.1" if by_url else ""),
        port=port,
        by_url=by_url,
        drain_seconds=DRAIN_SECONDS,
    )
    kinds = [kind.integration for kind in list_remote_kinds()]
    async with KubeClient(await load_credentials(target), user_agent="multiqueue-guard") as client:
        await WorkerGuard(client, options, kinds=kinds).run()
