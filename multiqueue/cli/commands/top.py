"""``multiqueue top``: the fleet in numbers, live."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import click

from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.errors import CliError
from multiqueue.cli.output import echo, output_option, print_data

if TYPE_CHECKING:
    from multiqueue.cli.views.top import Facts, Run, Screen
    from multiqueue.kube.client import KubeClient

HEIGHT_OF_ALL = 10_000
"""More lines than there are jobs on the screen."""


@click.command("top")
@click.option("--once", is_flag=True, help="Print once, also on a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two looks.",
)
@with_target
@output_option
def command(*, once: bool, interval: float, target: ClusterTarget, output: str) -> None:
    """Show how full queues and workers are and what jobs do, live on a terminal.

    SHARED is what a queue borrows from others, or lends to them. OFFERED counts the jobs that were
    offered to a worker and have not started there. Of the jobs that have not ended, the first 200
    are shown: of all namespaces, or of one if you may see no others.

    Live, j and k select a worker or a job. Then w shows why it waits, l its log, e its Events and p
    its pods; d cancels the job and c cordons its worker, which asks first. / finds jobs by the
    beginning of their name, s sorts them, and q ends it.
    """
    is_live = output == "human" and not once and sys.stdout.isatty()
    run_async(_top(target, output, interval if is_live else None))


async def _top(target: ClusterTarget, output: str, interval: float | None) -> None:
    from multiqueue.cli.views.top import Screen

    async with connect(target) as (client, namespace):
        if interval is not None:
            await _show_live(client, namespace, interval)
            return
        screen = Screen()
        facts = await _look(client, namespace, screen)
        if output == "human":
            echo("\n".join(_draw(screen, facts, height=HEIGHT_OF_ALL)[:-2]))
        else:
            print_data(
                {"totals": facts.totals, "quotas": facts.quotas, "workers": facts.workers}, output
            )


async def _show_live(client: KubeClient, namespace: str, interval: float) -> None:
    """Draw again after each key and each interval, until the user ends it.

    If the manager does not answer for a while, what it told last stays, with the reason.
    """
    from multiqueue.cli.keys import pressed_keys
    from multiqueue.cli.live import draw_over, whole_screen
    from multiqueue.cli.views.top import Quit, Screen
    from multiqueue.kube.errors import KubeError

    screen = Screen()
    facts = await _look(client, namespace, screen)
    while True:
        wish: Quit | Run | None = None
        with whole_screen(), pressed_keys() as keys:
            while wish is None:
                asked = screen.parameters
                try:
                    facts = await _look(client, namespace, screen)
                except (CliError, KubeError) as error:
                    facts = facts._replace(problems=[str(error)])
                while wish is None and asked == screen.parameters:
                    height = shutil.get_terminal_size().lines
                    draw_over("\n".join(_draw(screen, facts, height=height)))
                    try:
                        async with asyncio.timeout(interval):
                            wish = screen.press(await keys.get())
                    except TimeoutError:
                        break
        if isinstance(wish, Quit):
            return
        await _run(wish)


async def _run(wish: Run) -> None:
    """Run a command on the terminal, and wait until the user has read what it says."""
    from multiqueue.cli.keys import pressed_keys
    from multiqueue.cli.views.top import own_options

    arguments = (*wish.arguments, *own_options(sys.argv[1:]))
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C ends the command alone
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "multiqueue", *arguments
        )
        await process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    echo("\nPress a key to go back.")
    with pressed_keys() as keys:
        await keys.get()


async def _look(client: KubeClient, namespace: str, screen: Screen) -> Facts:
    """Ask the manager; who may not see the jobs of all namespaces sees those of one.

    Raises:
        CliError: It answers nothing.
    """
    from multiqueue.cli.fleet import try_list_rows
    from multiqueue.cli.views.top import Facts

    asked = [
        try_list_rows(client, "totals"),
        try_list_rows(client, "quotas"),
        try_list_rows(client, "workers"),
        try_list_rows(client, "standings", **screen.parameters),
    ]
    (totals, _), (quotas, _), (workers, _), (jobs, problem) = found = await asyncio.gather(*asked)
    problems = [each for _, each in found if each]
    if problem:
        jobs, still = await try_list_rows(
            client, "standings", namespace=namespace, **screen.parameters
        )
        problems[-1:] = [still] if still else []
        if still and len(problems) == len(asked):
            raise CliError(problem)
    return Facts(totals[:1], quotas, workers, jobs, problems)


def _draw(screen: Screen, facts: Facts, *, height: int) -> list[str]:
    from datetime import UTC, datetime

    from multiqueue.cli.output import format_table
    from multiqueue.cli.views.top import draw

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return draw(
        screen,
        facts,
        datetime.now(UTC),
        lambda headers, rows: format_table(headers, rows, width=width),
        width=width or HEIGHT_OF_ALL,
        height=height,
    )
