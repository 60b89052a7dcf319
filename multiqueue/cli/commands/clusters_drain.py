"""``multiqueue clusters drain``: move a worker's jobs to other workers."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.durations import DURATION
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.api.cluster_orders import DrainOrder
    from multiqueue.api.v1beta2 import MultiKueueCluster
    from multiqueue.cli.views.drains import Use
    from multiqueue.kube.client import KubeClient

UNSEEN_SECONDS = 10.0
"""How long a manager may take to act before the user is asked whether one runs."""


@click.command("drain")
@click.argument("name", metavar="NAME", shell_complete=names_of("multikueueclusters"))
@click.option("--rate", metavar="N/min", help="Moves begun per minute (or N/h); 10/min by default.")
@click.option(
    "--at-once", type=click.IntRange(1, 1000), help="Moves under way at a time; 4 by default."
)
@click.option(
    "--grace",
    type=DURATION,
    metavar="DURATION",
    help="Let what runs go on for so long (30m, 2h) before that; 0s ends an earlier grace.",
)
@click.option(
    "--force/--no-force",
    default=None,
    help="Move also what no other cluster has room for, and what would lose its checkpoint.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be moved, and in which order.")
@click.option(
    "--wait/--no-wait", default=True, help="Wait for the end and show how far it is (default)."
)
@click.option(
    "--timeout",
    type=DURATION,
    metavar="DURATION",
    help="Wait no longer than this (90s, 10m); the drain goes on.",
)
@system_namespace_option
@cluster_options
@output_option
def command(  # noqa: PLR0913 - the options are the interface
    *,
    name: str,
    rate: str | None,
    at_once: int | None,
    grace: timedelta | None,
    force: bool | None,
    dry_run: bool,
    wait: bool,
    timeout: timedelta | None,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Move what runs on worker NAME elsewhere, a few at a time, and send nothing new there.

    Each job is stopped with all its grace, then runs on another worker that has room for it. One
    that no other worker can hold, or has room for, stays where it runs and says so. "uncordon" ends
    the drain. Interrupting this command does not. Of a worker that is being drained already, only
    what is given changes: grace, pace and force of the first order go on to hold otherwise.

    Ends with 0 when nothing runs there any more, with 1 when what is left needs somebody to act, or
    at the timeout.
    """
    given = _Given(
        rate=_check_rate(rate),
        at_once=at_once or 0,
        grace=grace,
        force=force,
    )
    if dry_run:
        return run_async(_show(target, name, system_namespace, given, output))
    try:
        return run_async(_drain(target, name, given, timeout if wait else timedelta(), output))
    except KeyboardInterrupt:
        echo(f'\nThe drain of {name} goes on; "multiqueue clusters uncordon {name}" ends it.')
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The options that the user gave; others keep the values of an earlier order."""

    rate: str
    at_once: int
    grace: timedelta | None
    force: bool | None

    def text(self, cluster: MultiKueueCluster) -> str:
        """Return the order in the form of the annotation."""
        from multiqueue.api.cluster_orders import ANY_TIME, format_drain
        from multiqueue.api.names import DRAIN

        known = cluster.metadata.annotations.get(DRAIN, "")
        begins = None
        if self.grace is not None:
            begins = datetime.now(UTC) + self.grace if self.grace else ANY_TIME
        return format_drain(
            rate=self.rate, at_once=self.at_once, not_before=begins, force=self.force, known=known
        )

    def order(self, cluster: MultiKueueCluster) -> DrainOrder:
        """Return the order."""
        from multiqueue.api.cluster_orders import parse_drain

        return parse_drain(self.text(cluster))


def _check_rate(rate: str | None) -> str:
    from multiqueue.api.cluster_orders import parse_rate

    try:
        return rate if rate is not None and parse_rate(rate) else ""
    except ValueError as error:
        raise UsageProblem(f"--rate: {error}") from error


async def _show(
    target: ClusterTarget, name: str, system_namespace: str, given: _Given, output: str
) -> int:
    """Print the forecast of the drain."""
    from multiqueue.cli.cluster_marks import read_cluster
    from multiqueue.cli.declared_kinds import note_unknown
    from multiqueue.cli.queue_objects import owner_kinds
    from multiqueue.cli.views.drains import PLAN_HEADERS, list_plan_rows
    from multiqueue.drain.plan import build_plan
    from multiqueue.drain.plan_reading import read_surroundings

    now = datetime.now(UTC)
    async with connect(target) as (client, _):
        cluster = await read_cluster(client, name)
        around = await read_surroundings(client, name, system_namespace=system_namespace, now=now)
    note_unknown(owner_kinds(around.workloads))
    plan = await build_plan(name, around, given.order(cluster), now)
    if output != "human":
        print_data(plan.to_dict(), output)
        return ExitCode.OK
    if plan.moves:
        print_table(PLAN_HEADERS, list_plan_rows(plan))
        echo()
    for line in (*plan.sentences(), *(["Nothing was changed."] if plan.moves else [])):
        echo(line)
    return ExitCode.OK


# ---------------------------------------------------------------- what happens


async def _drain(
    target: ClusterTarget, name: str, given: _Given, limit: timedelta | None, output: str
) -> int:
    """Order the drain, then follow it up to a time limit (None: without one)."""
    import asyncio

    from multiqueue.api.names import DRAIN
    from multiqueue.cli.cluster_marks import mark, read_cluster
    from multiqueue.cli.views.drains import describe_order, view_use

    async with connect(target) as (client, _):
        cluster = await read_cluster(client, name)
        text = given.text(cluster)
        changed = await mark(client, cluster, {DRAIN: text})
        if output == "human":
            already = "" if changed else " already"
            echo(f"{name} is being drained{already}{describe_order(text)}")
        if limit is not None and not limit:
            if output != "human":
                print_data(view_use(await read_cluster(client, name)).to_dict(), output)
            return ExitCode.OK
        use: Use | None = None
        seconds = limit.total_seconds() if limit is not None else None
        try:
            async with asyncio.timeout(seconds):
                use = await _follow(client, name, output)
        except TimeoutError:
            raise CliError(
                f"{name} is not drained after {seconds:g} s; if a manager runs, the "
                'drain goes on, and "multiqueue clusters" shows how far it is'
            ) from None
    if output != "human":
        print_data(use.to_dict(), output)
    return ExitCode.OK if use.is_drained else ExitCode.FAILED


async def _follow(client: KubeClient, name: str, output: str) -> Use:
    """Show the progress until the drain ends or needs help; return the last state."""
    import asyncio
    from contextlib import aclosing

    from multiqueue.cli.views.drains import view_use

    screen = _Screen(silent=output != "human")
    unseen = asyncio.get_running_loop().call_later(UNSEEN_SECONDS, screen.ask_for_manager, name)
    try:
        async with aclosing(_watch(client, name)) as states:
            async for cluster in states:
                use = view_use(cluster)
                if not use.is_seen:
                    continue
                unseen.cancel()
                screen.show(use)
                if use.is_drained or use.needs_help:
                    return use
                if use.state in {"InUse", "Cordoned"}:
                    raise CliError(f"the drain of {name} was ended by somebody")
    finally:
        unseen.cancel()
        screen.close()
    raise CliError(f'MultiKueueCluster "{name}" is gone')


async def _watch(client: KubeClient, name: str) -> AsyncGenerator[MultiKueueCluster, None]:
    """Yield a MultiKueueCluster whenever it changes, until it is deleted."""
    from contextlib import aclosing
    from functools import partial

    from multiqueue.api.serde import decode
    from multiqueue.api.v1beta2 import MultiKueueCluster
    from multiqueue.kube.errors import Gone
    from multiqueue.kube.resources import MULTIKUEUE_CLUSTERS

    parse = partial(decode, MultiKueueCluster)
    while True:
        listed = await client.list(MULTIKUEUE_CLUSTERS, decode=parse)
        found = next((each for each in listed.items if each.metadata.name == name), None)
        if found is None:
            return
        yield found
        events = client.watch(MULTIKUEUE_CLUSTERS, resource_version=listed.resource_version)
        try:
            async with aclosing(events):
                async for event in events:
                    if event.type == "BOOKMARK":
                        continue
                    cluster = parse(event.raw)
                    if cluster.metadata.name != name:
                        continue
                    if event.type == "DELETED":
                        return
                    yield cluster
        except Gone:
            continue


class _Screen:
    """One line that is rewritten on a terminal; elsewhere a line for each change."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._live = not silent and sys.stdout.isatty()
        self._last = ""

    def show(self, use: Use) -> None:
        """Show the progress."""
        text = f"{use.state}: {use.message}" if use.message else use.state
        if self._silent or text == self._last:
            return
        if self._live:
            click.echo(f"\r\x1b[K{text}", nl=False)
        else:
            echo(text)
        self._last = text

    def ask_for_manager(self, name: str) -> None:
        """Say that no manager has acted on the order."""
        echo(f"no manager has acted on {name} yet; is one running?", err=True)

    def close(self) -> None:
        """End the line; what was shown last stays."""
        if self._live and self._last:
            echo()
