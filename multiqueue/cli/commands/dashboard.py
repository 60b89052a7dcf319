"""``multiqueue dashboard``: the fleet in a browser, with the rights of a kubeconfig."""

from __future__ import annotations

import asyncio
import contextlib
import webbrowser

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    connect,
    run_async,
    system_namespace_option,
    with_target,
)
from multiqueue.cli.errors import CliError, ExitCode
from multiqueue.cli.output import echo


@click.command("dashboard")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port on 127.0.0.1; by default a free one.",
)
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@click.option("--read-only", is_flag=True, help="Show a page without actions.")
@system_namespace_option
@with_target
def command(
    *,
    port: int,
    no_browser: bool,
    read_only: bool,
    system_namespace: str,
    target: ClusterTarget,
) -> int:
    """Show the fleet in a browser: queues, quota, workers, and the way of each job.

    The page has the rights of the kubeconfig: within them, its buttons hold and resume queues, stop
    and resume jobs, and cordon workers. The address is for this machine only and has a key;
    who has the address has these rights until Ctrl-C.

    \b
    Examples:
      multiqueue dashboard
      multiqueue dashboard -n research --port 8080 --no-browser
    """  # noqa: D301 - click reads the backspace
    with contextlib.suppress(KeyboardInterrupt):
        return run_async(
            _serve(
                target,
                port,
                opens=not no_browser,
                read_only=read_only,
                system_namespace=system_namespace,
            )
        )
    return ExitCode.OK


async def _serve(
    target: ClusterTarget, port: int, *, opens: bool, read_only: bool, system_namespace: str
) -> int:
    from multiqueue.dashboard.gateway import Gateway

    async with connect(target) as (client, namespace):
        about = {"context": target.context or "", "namespace": namespace, "demo": False}
        try:
            async with Gateway(
                client,
                about,
                port=port,
                read_only=read_only,
                system_namespace=system_namespace,
            ) as gateway:
                echo(gateway.address)
                echo("Ctrl-C ends it.", err=True)
                if opens:
                    await asyncio.to_thread(webbrowser.open, gateway.address)
                await asyncio.Event().wait()
        except OSError as error:
            raise CliError(f"cannot listen on port {port}: {error.strerror or error}") from error
    return ExitCode.OK
