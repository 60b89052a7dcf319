"""``multiqueue clusters drain``: what runs on a worker is moved elsewhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from multiqueue.cli.connect import Target, cluster_options, connect, run_async
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import MultiKueueCluster
    from multiqueue.cli.views.drains import Use
    from multiqueue.kube.client import KubeClient

UNSEEN_SECONDS = 10.0
"""How long a manager has to act on the order before the user is asked whether one runs."""


@click.command("drain")
@click.argument("name", metavar="NAME")
@click.option("--rate", metavar="N/min", help="Moves begun per minute (or N/h); 10/min by default.")
@click.option(
    "--at-once", type=click.IntRange(1, 1000), help="Moves under way at a time; 4 by default."
)
@click.option(
    "--grace", metavar="DURATION", help="Let what runs go on for so long (30m, 2h) before that."
)
@click.option(
    "--force",
    is_flag=True,
    help="Move also what no other cluster has room for, and what would lose its checkpoint.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be moved, and in which order.")
@click.option(
    "--wait/--no-wait", default=True, help="Wait for the end and show how far it is (default)."
)
@click.option("--timeout", metavar="DURATION", help="Wait no longer than this; the drain goes on.")
@cluster_options
@output_option
def command(  # noqa: PLR0913 - the options are the interface
    *,
    name: str,
    rate: str | None,
    at_once: int | None,
    grace: str | None,
    force: bool,
    dry_run: bool,
    wait: bool,
    timeout: str | None,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Move what runs on worker NAME elsewhere, a few at a time, and send nothing new there.

    Each job is stopped with all its grace, then runs on another worker that has room for it. One
    that no other worker can hold, or has room for, stays where it runs and says so. "uncordon" ends
    the drain. Interrupting this command does not.

    Ends with 0 when nothing runs there any more, with 1 when what is left needs somebody to act, or
    at the timeout.
    """
    target = Target(kubeconfig=kubeconfig, context=context)
    if dry_run:
        return run_async(_show(target, name, rate or "", at_once or 0, output))
    limit = _duration("--timeout", timeout)
    text = _order(rate or "", at_once or 0, _duration("--grace", grace), force=force)
    try:
        return run_async(_drain(target, name, text, limit if wait else timedelta(), output))
    except KeyboardInterrupt:
        echo(f'\nThe drain of {name} goes on; "multiqueue clusters uncordon {name}" ends it.')
        raise


def _duration(option: str, text: str | None) -> timedelta | None:
    from multiqueue.api.config import parse_duration

    if text is None:
        return None
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise UsageProblem(f"{option}: {error}") from error
    if duration < timedelta():
        raise UsageProblem(f'{option}: "{text}" is negative; write a time such as 30m')
    return duration


def _order(rate: str, at_once: int, grace: timedelta | None, *, force: bool) -> str:
    from multiqueue.multikueue.drains.orders import format_drain, parse_drain

    begins = datetime.now(UTC) + grace if grace is not None else None
    text = format_drain(rate=rate, at_once=at_once, not_before=begins, force=force)
    try:
        parse_drain(text)
    except ValueError as error:
        raise UsageProblem(f"--rate: {error}") from error
    return text


# ---------------------------------------------------------------- what would happen


async def _show(target: Target, name: str, rate: str, at_once: int, output: str) -> int:
    from multiqueue.api.v1beta2.meta import format_time
    from multiqueue.cli.cluster_marks import read_cluster
    from multiqueue.cli.find import decode_workload
    from multiqueue.cli.views.drains import MOVE_HEADERS, estimate_moves, plan_moves
    from multiqueue.kube.resources import JOBS, WORKLOADS
    from multiqueue.multikueue.drains.orders import parse_drain

    text = _order(rate, at_once, None, force=False)
    now = datetime.now(UTC)
    async with connect(target) as (client, _):
        await read_cluster(client, name)
        workloads = await client.list(WORKLOADS, decode=decode_workload)
        jobs = await client.list(JOBS)
    by_uid = {job["metadata"]["uid"]: job for job in jobs.items}
    moves = plan_moves(workloads.items, name, by_uid, now)
    pace = parse_drain(text).pace
    if output != "human":
        print_data([move.to_dict() for move in moves], output)
        return ExitCode.OK
    if not moves:
        echo(f"Nothing of this manager runs on {name}.")
        return ExitCode.OK
    print_table(MOVE_HEADERS, [move.row(now) for move in moves])
    lost = sum(move.lost_gpu_hours for move in moves)
    end = format_time(estimate_moves(moves, pace, now))
    echo()
    echo(
        f"{len(moves)} would be moved in this order, at most {pace.at_once} at a time and one "
        f"every {pace.every.total_seconds():g} s, each as soon as another worker has room for it. "
        f"At most {lost:.2f} GPU-hours of work would be lost. If there is room for all, the last "
        f"one has stopped at about {end}. Nothing was changed."
    )
    return ExitCode.OK


# ---------------------------------------------------------------- what happens


async def _drain(target: Target, name: str, text: str, limit: timedelta | None, output: str) -> int:
    """Order it, then follow it: without end (None), or for so long."""
    import asyncio

    from multiqueue.api.names import DRAIN
    from multiqueue.cli.cluster_marks import mark, read_cluster

    async with connect(target) as (client, _):
        changed = await mark(client, await read_cluster(client, name), {DRAIN: text})
        if output == "human":
            echo(f"{name} {'is being drained' if changed else 'is being drained already'}")
        if limit is not None and not limit:
            return ExitCode.OK
        use: Use | None = None
        seconds = limit.total_seconds() if limit is not None else None
        try:
            async with asyncio.timeout(seconds):
                use = await _follow(client, name, output)
        except TimeoutError:
            raise CliError(
                f"{name} is not drained after {seconds:g} s; where a manager runs the "
                'drain goes on, and "multiqueue clusters" shows how far it is'
            ) from None
    if output != "human":
        print_data(use.to_dict(), output)
    return ExitCode.OK if use.is_drained else ExitCode.FAILED


async def _follow(client: KubeClient, name: str, output: str) -> Use:
    """Show how far it is until it ends, or needs somebody; returns what was said last."""
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
    """Yield a MultiKueueCluster whenever it changes, until it is gone."""
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
    """One line that is written over on a terminal; elsewhere a line for each change."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._live = not silent and sys.stdout.isatty()
        self._last = ""

    def show(self, use: Use) -> None:
        """Show how far it is."""
        text = f"{use.state}: {use.message}" if use.message else use.state
        if self._silent or text == self._last:
            return
        if self._live:
            click.echo(f"\r\x1b[K{text}", nl=False)
        else:
            echo(text)
        self._last = text

    def ask_for_manager(self, name: str) -> None:
        """Say that nobody has acted on the order."""
        echo(f"no manager has acted on {name} yet; is one running?", err=True)

    def close(self) -> None:
        """Leave what was shown last."""
        if self._live and self._last:
            echo()
