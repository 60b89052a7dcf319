"""``multiqueue usage``: what teams, queues and clusters reserved and ran."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from multiqueue.api.durations import parse_duration
from multiqueue.cli.config_files import read_config_file
from multiqueue.cli.connect import (
    ClusterTarget,
    connect,
    run_async,
    system_namespace_option,
    with_target,
)
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.output import echo, form_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.api.config import Configuration
    from multiqueue.kube.client import KubeClient
    from multiqueue.views.usage_prices import Prices

BY = ("owner", "namespace", "queue", "localqueue", "cluster", "flavor", "cause", "day")


@click.command("usage")
@click.option(
    "--by",
    default="owner",
    show_default=True,
    metavar="|".join(BY),
    help="What rows are added up by; several with commas.",
)
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How far to go back, such as 30d or 12h; counted in whole days (UTC).",
)
@click.option(
    "--price",
    "with_prices",
    is_flag=True,
    help="Show what it costs, by the prices of the configuration (usage.prices).",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The configuration with the prices; by default that of the manager's ConfigMap.",
)
@system_namespace_option
@form_option(
    "human",
    "wide",
    "csv",
    "json",
    "yaml",
    help_="How to print the result; wide has all columns, csv, json and yaml have seconds.",
)
@with_target
def command(
    *,
    by: str,
    since: str,
    with_prices: bool,
    config_file: str | None,
    system_namespace: str,
    output: str,
    target: ClusterTarget,
) -> None:
    """Show what was reserved, and what ran: time of each device.

    RESERVED is CHECKS, STARTING and RUNNING together: from the reservation of quota to the
    admission, from there until all pods are ready (if known), and the rest. Of RUNNING, KEPT is
    of Workloads that ended well, LOST of those that were stopped, FAILED of those that failed. Of
    LOST, REDONE is what has to be done again if a DisruptionPolicy says what a stop costs. CHARGED
    is RESERVED, but what is redone is charged to the owner for whom the Workload was stopped.

    Without --namespace, all namespaces count that you may read. Jobs without devices count in
    cores. The past comes from UsageReports, which the manager writes every five minutes.
    """
    columns, days = _read_by(by), _read_days(since)
    if config_file is not None and not with_prices:
        raise UsageProblem("--config: it is read for prices only; add --price")
    config = read_config_file(config_file)
    read_prices = partial(_read_prices, config, system_namespace) if with_prices else None
    run_async(_usage(target, columns, days, output, read_prices))


def _read_by(text: str) -> list[str]:
    columns = [name.strip().lower() for name in text.split(",")]
    unknown = next((name for name in columns if name not in BY), None)
    if unknown is not None:
        raise UsageProblem(f'--by: "{unknown}" is not known; choose from {", ".join(BY)}')
    return list(dict.fromkeys(columns))


def _read_days(text: str) -> float:
    """Return a number of days."""
    number = text.removesuffix("d")
    try:
        days = float(number) if number != text else parse_duration(text).total_seconds() / 86400
    except ValueError:
        days = -1.0
    if not 0 <= days <= 3650:
        raise UsageProblem(f'--since: "{text}" is no time; write 7d or 12h')
    return days


async def _read_prices(
    config: Configuration | None, system_namespace: str, client: KubeClient
) -> Prices:
    """Return the prices of a configuration; None: of the manager's.

    Raises:
        CliError: It cannot be read, or has none.
    """
    from multiqueue.views.usage_prices import Prices
    from multiqueue.workers.kubeconfigs.stored import read_config

    found = config or await read_config(client, system_namespace)
    if found is None:
        raise CliError(
            f"the manager's configuration in namespace {system_namespace} cannot be read, which "
            "has the prices; name a file with --config"
        )
    if not found.usage.prices:
        raise CliError("the configuration has no prices; write them into usage.prices")
    return Prices(found.usage.prices)


async def _usage(
    target: ClusterTarget,
    by: list[str],
    days: float,
    output: str,
    read_prices: Callable[[KubeClient], Awaitable[Prices]] | None,
) -> None:
    from datetime import UTC, datetime, timedelta

    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.cli.views.usage import describe_cost, list_table
    from multiqueue.dashboard.usage import read_owners
    from multiqueue.views.usage_sums import add_up, collect, list_dicts, write_csv

    now = datetime.now(UTC).replace(microsecond=0)
    since = (now - timedelta(days=days)).replace(hour=0, minute=0, second=0)
    async with connect(target) as (client, namespace):
        prices = await read_prices(client) if read_prices is not None else None
        objects = QueueObjects(now=now, namespace=namespace)
        where = target.namespace
        await objects.list(client, "usage_reports", "workloads", namespace=where)
        owners = await read_owners(client)
    rows, through = collect(
        objects.usage_reports.values(), objects.workloads.values(), owners, since=since, now=now
    )
    sums = add_up(rows, by, prices)
    told = list_dicts(sums, by, prices)
    if output == "csv":
        text = write_csv(told, by, since=since, now=now, priced=prices is not None)
        click.echo(text, nl=False)
        return
    if output not in {"human", "wide"}:
        gaps = sum(report.status.gap_seconds for report in objects.usage_reports.values())
        print_data(
            {
                "from": since.isoformat(),
                "to": now.isoformat(),
                "through": through.isoformat() if through else None,
                "gapSeconds": gaps,
                "rows": told,
            },
            output,
        )
        return
    if objects.narrowed:
        echo(f'You may read namespace "{namespace}" only; usage elsewhere is not shown.')
    if not sums:
        echo(f"Nothing was reserved since {since:%Y-%m-%d}.")
        return
    priced = prices is not None
    titles, table, unit = list_table(sums, wide=output == "wide", priced=priced)
    print_table((*(name.upper() for name in by), *titles), table, wide=output == "wide")
    echo(f"\n{unit} of each resource since {since:%Y-%m-%d} 00:00 UTC.")
    if prices is not None:
        echo(describe_cost(sums, prices.currency))
    echo(_describe_source(through))


def _describe_source(through: Any) -> str:
    if through is None:
        return (
            "There are no UsageReports yet: only Workloads that still exist count, each with its "
            "last reservation."
        )
    return (
        f"UsageReports count everything until {through:%Y-%m-%d %H:%M} UTC; after that, only "
        "Workloads that hold quota or have finished."
    )
