"""``multiqueue run``: the manager."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from multiqueue.cli.config_files import parse_config, read_config_text
from multiqueue.cli.connect import ClusterTarget, kubeconfig_options, load_credentials
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.logs import log_options, start_logging

if TYPE_CHECKING:
    from multiqueue.api.config import Configuration


@click.command("run")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file (config.kueue.x-k8s.io); defaults without one.",
)
@click.option(
    "--feature-gates",
    metavar="NAME=true|false,...",
    help="Feature gates; not together with those of the configuration file.",
)
@click.option(
    "--webhooks/--no-webhooks",
    default=None,
    help="Serve and register admission webhooks; by default where the API server can reach them: "
    "inside of a cluster, at webhook.host, or on this machine.",
)
@kubeconfig_options
@log_options
def command(
    *,
    config_file: Path | None,
    feature_gates: str | None,
    webhooks: bool | None,
    target: ClusterTarget,
    log_level: str,
    log_format: str,
) -> int:
    """Run the manager: admit jobs, and dispatch them to worker clusters, until SIGTERM or Ctrl-C.

    The cluster is that of the kubeconfig, or the one this pod runs in.
    """
    from multiqueue.runtime.process import Stopped, run_process

    config, warnings = _load_config(config_file, feature_gates)
    start_logging(log_level, log_format)
    _log_warnings(warnings)
    try:
        run_process(lambda: _run(target, config, webhooks))
    except Stopped:
        return ExitCode.OK
    except ExceptionGroup as group:
        raise _explain(group) from group
    return ExitCode.OK


def _log_warnings(warnings: list[str]) -> None:
    import structlog

    for text in warnings:
        structlog.get_logger("multiqueue.config").warning("configuration", problem=text)


async def _run(target: ClusterTarget, config: Configuration, webhooks: bool | None) -> None:
    from multiqueue.runtime.components import open_scope
    from multiqueue.runtime.manager import Manager, ManagerOptions
    from multiqueue.serving.server import DRAIN_SECONDS

    credentials = await load_credentials(target)
    options = ManagerOptions(webhooks=webhooks, drain_seconds=DRAIN_SECONDS)
    async with open_scope() as scope:
        await scope.start(Manager(config, credentials, options))


def _load_config(path: Path | None, feature_gates: str | None) -> tuple[Configuration, list[str]]:
    from multiqueue.api.config import ConfigurationError

    source = str(path) if path else ""
    try:
        text = read_config_text(source) if source else ""
        return parse_config(text, feature_gates, source=source)
    except ConfigurationError as error:
        where = f'"{path}": ' if path else ""
        raise UsageProblem(f"{where}{error}") from error


def _explain(group: ExceptionGroup[Exception]) -> CliError:
    from multiqueue.runtime.components import ComponentFailed

    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ComponentFailed | CliError):
        return CliError(str(error))
    raise group
