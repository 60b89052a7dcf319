"""``multiqueue clusters verify``: report how workers differ from what the manager needs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.output import echo, output_option, print_data
from multiqueue.cli.projection.access import AdministratorAccess, access_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multiqueue.cli.projection.verify import VerifyScope
    from multiqueue.projection.report import Drift, WorkerReport


@click.command("verify")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-f",
    "--fleet",
    "fleet_file",
    metavar="FILE",
    help="The fleet file; by default the ConfigMap multiqueue-fleet, if there is one.",
)
@click.option(
    "--expires-within",
    "days",
    type=click.IntRange(min=0),
    default=14,
    show_default=True,
    metavar="DAYS",
    help="Credentials that end sooner are drift.",
)
@access_options
@system_namespace_option
@cluster_options
@output_option
def command(
    *,
    names: tuple[str, ...],
    fleet_file: str | None,
    days: int,
    access: AdministratorAccess,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Report where workers differ from what the manager needs there; of all, or of those named.

    Queues, namespaces, flavors, priority classes, kinds, rights, names that are taken, credentials:
    asked with what the manager has stored, and nothing is written. Ends with 0 if there is no
    drift, with 1 if there is some, with 2 if the command cannot find out.
    """
    from multiqueue.cli.projection.verify import VerifyScope
    from multiqueue.projection.report import ReportState, worst

    scope = VerifyScope(
        access=access,
        manager=target,
        namespace=system_namespace,
        expires_within=timedelta(days=days),
    )
    reports = run_async(_verify(target, fleet_file, names, scope))
    if output != "human":
        print_data([report.to_dict() for report in reports], output)
    else:
        for report in reports:
            _print(report)
    return {ReportState.IN_STEP: 0, ReportState.DRIFT: 1, ReportState.UNKNOWN: 2}[worst(reports)]


async def _verify(
    target: ClusterTarget, fleet_file: str | None, names: Sequence[str], scope: VerifyScope
) -> list[WorkerReport]:
    from multiqueue.cli.projection.observe import read_manager, warn_of_strangers
    from multiqueue.cli.projection.verify import verify_workers

    async with connect(target) as (client, _):
        view = await read_manager(client, namespace=scope.namespace, fleet_file=fleet_file)
        warn_of_strangers(view)
        return await verify_workers(client, view, view.clusters(names), scope)


def _print(report: WorkerReport) -> None:
    until = f", credentials end {report.expires_at:%Y-%m-%d}" if report.expires_at else ""
    words = {"InStep": "in step", "Drift": "differs", "Unknown": "cannot tell"}[report.state]
    colour = {"InStep": "green", "Drift": "yellow", "Unknown": "red"}[report.state]
    echo(f"{report.worker}: {click.style(words, fg=colour)}{until}")
    for text in report.unknown:
        echo(f"  unknown: {text}")
    for drift in report.drift:
        echo(f"  {_title(drift)}{drift.message}")
    for text in report.warnings:
        echo(f"  warning: {text}")


def _title(drift: Drift) -> str:
    if not drift.kind:
        return ""
    name = "/".join(filter(None, (drift.namespace, drift.name)))
    return f'{drift.kind} "{name}" ' if drift.field == "" else f'{drift.kind} "{name}": '
