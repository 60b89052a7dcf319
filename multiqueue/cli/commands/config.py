"""``multiqueue config``: check and explain the manager's configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.config_files import (
    check_worker_kubeconfig,
    parse_config,
    read_config_text,
)
from multiqueue.cli.connect import ClusterTarget, cluster_options, run_async
from multiqueue.cli.errors import ExitCode
from multiqueue.cli.output import echo, output_option, print_data, print_table

if TYPE_CHECKING:
    from multiqueue.api.config.gate_support import GateRow


@click.group("config")
def command() -> None:
    """Check a configuration file, and show defaults and feature gates."""


@command.command("check")
@click.argument("source", metavar="FILE")
@click.option("--effective", is_flag=True, help="Print what holds, defaults included, as YAML.")
@click.option(
    "--feature-gates",
    metavar="NAME=true|false,...",
    help="As given to multiqueue run; not together with those of the file.",
)
@click.option(
    "--worker-kubeconfig",
    "kubeconfigs",
    multiple=True,
    metavar="FILE",
    help="Check a worker's kubeconfig, too, before it becomes a Secret; repeat it.",
)
@click.option(
    "--cluster",
    is_flag=True,
    help="Also look at the webhooks that are registered in a cluster, and at their certificate.",
)
@cluster_options
def check(
    *,
    source: str,
    effective: bool,
    feature_gates: str | None,
    kubeconfigs: tuple[str, ...],
    cluster: bool,
    target: ClusterTarget,
) -> int:
    """Check a Configuration (config.kueue.x-k8s.io, v1beta2 or v1beta1); - is standard input.

    Ends with 1 if the manager would not start with it, could dispatch nothing (the dispatcher is
    not installed here, or does not take its arguments), would refuse one of the kubeconfigs, or
    serves certificates that the API server does not trust. Each problem names its field and what to
    do; all of them are told at once. Warnings, on standard error, are about what is deprecated or
    does nothing.
    """
    from multiqueue.api.config import ConfigurationError
    from multiqueue.api.config.dump import dump_configuration
    from multiqueue.cli.dispatcher_check import check_dispatcher
    from multiqueue.cli.webhook_check import check_cluster, check_files

    text, config = read_config_text(source), None
    errors: list[str] = []
    warnings: list[str] = []
    try:
        config, warnings = parse_config(text, feature_gates, source=source)
    except ConfigurationError as error:
        errors.extend(error.errors)
    if config is not None:
        looked = run_async(check_cluster(target, config) if cluster else check_files(config))
        errors.extend(looked.errors)
        warnings.extend(looked.warnings)
    judged = check_dispatcher(text, config)
    errors.extend(judged.errors)
    proxies = config.multi_kueue.allowed_proxies if config is not None else ()
    errors.extend(filter(None, (check_worker_kubeconfig(path, proxies) for path in kubeconfigs)))
    for words in (*warnings, *judged.warnings):
        echo(f"{click.style('warning: ', fg='yellow')}{words}", err=True)
    for words in errors:
        echo(f"{click.style('error: ', fg='red')}{words}", err=True)
    if errors or config is None:
        return ExitCode.FAILED
    if effective:
        print_data(dump_configuration(config), "yaml")
    else:
        echo("OK")
    return ExitCode.OK


@command.command("defaults")
@output_option
def defaults(output: str) -> None:
    """Print the configuration that holds without a file."""
    from multiqueue.api.config import Configuration
    from multiqueue.api.config.dump import dump_configuration

    print_data(dump_configuration(Configuration()), "yaml" if output == "human" else output)


@command.command("gates")
@output_option
def gates(output: str) -> None:
    """List the feature gates: stage, default, what each requires, and what it does here."""
    from multiqueue.api.config.gate_support import rows

    listed = list(rows())
    if output != "human":
        print_data([_gate_data(row) for row in listed], output)
        return
    print_table(
        ["GATE", "STAGE", "DEFAULT", "REQUIRES", "HERE"],
        [
            [
                row.name,
                row.stage,
                str(row.default).lower(),
                ", ".join(row.requires),
                f"{row.support}: {row.why}" if row.why else row.support,
            ]
            for row in listed
        ],
    )


def _gate_data(row: GateRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "stage": row.stage,
        "default": row.default,
        "requires": list(row.requires),
        "history": row.history,
        "support": row.support,
        "why": row.why,
    }
