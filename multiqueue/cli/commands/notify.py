"""``multiqueue notify``: try the receivers of notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multiqueue.cli.config_files import read_config_file
from multiqueue.cli.connect import run_async
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.output import output_option, print_data, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multiqueue.api.config.types import NotificationReceiver

HEADERS = ("RECEIVER", "FORMAT", "SIGNED", "RESULT")


@click.group("notify")
def command() -> None:
    """Try the receivers of notifications about jobs."""


@command.command("test")
@click.option(
    "--config",
    "config_file",
    required=True,
    metavar="FILE",
    help="The manager's configuration; its receivers name files with URLs and keys.",
)
@click.option(
    "--receiver", "names", multiple=True, metavar="NAME", help="Only this receiver; repeat it."
)
@output_option
def test(config_file: str, names: tuple[str, ...], output: str) -> int:
    """Send one test to each receiver of a configuration, and say what came of it.

    Each is asked once, and its namespaces do not matter. URLs and keys are in files of the
    manager's pod, so run it there. Ends with 1 if a receiver did not take the test.

    \b
    Examples:
      kubectl exec -n kueue-system deploy/kueue-controller-manager -- \\
        multiqueue notify test --config /config/controller_manager_config.yaml
    """  # noqa: D301 - click reads the backspace
    config = read_config_file(config_file)
    assert config is not None, "the option is required"
    receivers = _choose(config.notifications.receivers, names)
    problems = run_async(_send(receivers, config.namespace))
    if output != "human":
        rows = [
            {"receiver": each.name, "sent": not problem, "problem": problem or None}
            for each, problem in zip(receivers, problems, strict=True)
        ]
        print_data(rows, output)
    else:
        print_table(
            HEADERS,
            [
                [each.name, each.format, "yes" if each.key_file else "no", problem or "sent"]
                for each, problem in zip(receivers, problems, strict=True)
            ],
        )
    return ExitCode.FAILED if any(problems) else ExitCode.OK


def _choose(
    receivers: Sequence[NotificationReceiver], names: Sequence[str]
) -> list[NotificationReceiver]:
    known = {each.name: each for each in receivers}
    if not known:
        raise UsageProblem("the configuration has no notifications.receivers; add one")
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise UsageProblem(f'--receiver: "{unknown}" is not known; choose from {", ".join(known)}')
    return [each for each in receivers if not names or each.name in names]


async def _send(receivers: Sequence[NotificationReceiver], namespace: str) -> list[str]:
    """Send to all at once; return what went wrong with each, empty if nothing did."""
    import asyncio
    from datetime import UTC, datetime

    import aiohttp

    from multiqueue.controllers.notifications.receiver import try_send
    from multiqueue.views.notifications import tell_test

    told = tell_test(namespace, datetime.now(UTC))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        tried = await asyncio.gather(*(try_send(session, each, told) for each in receivers))
    return [problem for problem, _ in tried]
