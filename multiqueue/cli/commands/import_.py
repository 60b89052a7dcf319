"""``multiqueue import``: running pods and Jobs become Workloads that hold quota."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multiqueue.api.config import Configuration
    from multiqueue.cli.importing.decide import ImportSettings
    from multiqueue.cli.importing.mapping import ImportRule
    from multiqueue.cli.importing.tally import ImportTally
    from multiqueue.kube.client import KubeClient
    from multiqueue.kube.limiter import RateLimiter


@click.command("import")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME[,NAME]",
    help="Namespaces to import from; by default those of --namespace-mapping.",
)
@click.option(
    "--queue-label", "--queuelabel", metavar="LABEL", help="The label that says where a job goes."
)
@click.option(
    "--queue-mapping",
    "--queuemapping",
    multiple=True,
    metavar="VALUE=QUEUE[,...]",
    help="LocalQueues by value of the label.",
)
@click.option(
    "--namespace-mapping",
    multiple=True,
    metavar="NAMESPACE=QUEUE[,...]",
    help="LocalQueues by namespace.",
)
@click.option(
    "--mapping-file",
    "--queuemapping-file",
    metavar="FILE",
    help="YAML rules: match (labels, priorityClassName, namespace), and toLocalQueue or skip.",
)
@click.option(
    "--add-labels",
    multiple=True,
    metavar="KEY=VALUE[,...]",
    help="Labels for the imported jobs and their Workloads.",
)
@click.option(
    "--kinds",
    type=click.Choice(["jobs,pods", "pods"]),
    default="jobs,pods",
    show_default=True,
    help="Import each Job as a whole, or each of its pods alone as upstream's importer does.",
)
@click.option(
    "--dry-run",
    type=bool,
    default=True,
    show_default=True,
    metavar="true|false",
    help="Check only; --dry-run=false imports if the check finds no problem.",
)
@click.option("--check", "check_only", is_flag=True, help="Check only; the same as --dry-run=true.")
@click.option(
    "-c",
    "--parallel",
    "--concurrent-workers",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="How many jobs are imported at a time.",
)
@click.option("--qps", type=float, default=50.0, show_default=True, help="Requests per second.")
@click.option("--burst", type=click.IntRange(1), default=50, show_default=True, help="Requests.")
@system_namespace_option
@cluster_options
@output_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    namespaces: tuple[str, ...],
    queue_label: str | None,
    queue_mapping: tuple[str, ...],
    namespace_mapping: tuple[str, ...],
    mapping_file: str | None,
    add_labels: tuple[str, ...],
    kinds: str,
    dry_run: bool,
    check_only: bool,
    parallel: int,
    qps: float,
    burst: int,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Put running pods and Jobs into queues without restarting them.

    Checks every job first, and changes nothing if one of them has a problem. An import that was
    stopped goes on where it was if it is run again. docs/import.md
    """
    from multiqueue.cli.importing.decide import ImportSettings
    from multiqueue.kube.limiter import RateLimiter

    if not (0 < qps < math.inf):
        raise UsageProblem(f"--qps: {qps} is not a positive number")
    rules, named = _read_rules(queue_label, queue_mapping, namespace_mapping, mapping_file)
    settings = ImportSettings(
        rules=rules, add_labels=_read_labels(add_labels), with_jobs="jobs" in kinds
    )
    wanted = [name for each in namespaces for name in each.split(",") if name] or named
    if not wanted:
        raise UsageProblem("name the namespaces to import from: --namespace NAME[,NAME]")
    request = _ImportRequest(
        target=target,
        namespaces=tuple(dict.fromkeys(wanted)),
        settings=settings,
        parallel=parallel,
        limiter=RateLimiter(rate=qps, burst=burst, max_in_flight=max(2, parallel)),
        system_namespace=system_namespace,
        writes=not (dry_run or check_only),
        output=output,
    )
    return run_async(_import(request))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ImportRequest:
    target: ClusterTarget
    namespaces: tuple[str, ...]
    settings: ImportSettings
    parallel: int
    limiter: RateLimiter
    system_namespace: str
    writes: bool
    output: str


# ---------------------------------------------------------------- options


def _read_rules(
    label: str | None,
    mappings: Sequence[str],
    namespace_mappings: Sequence[str],
    file: str | None,
) -> tuple[list[ImportRule], list[str]]:
    """Return the rules, and the namespaces that they name."""
    from multiqueue.cli.importing import mapping

    if bool(label) != bool(mappings):
        raise UsageProblem("--queue-label and --queue-mapping belong together: give both or none")
    rules: list[ImportRule] = []
    if label:
        _check_labels({label: ""}, "--queue-label")
        queues = mapping.parse_pairs(mappings, "--queue-mapping")
        rules += mapping.build_label_rules(label, queues)
    by_namespace = mapping.parse_pairs(namespace_mappings, "--namespace-mapping")
    rules += mapping.build_namespace_rules(by_namespace)
    if file:
        rules += _read_file(file)
    if not rules:
        raise UsageProblem(
            "say where jobs go: --queue-label with --queue-mapping, --namespace-mapping, or "
            "--mapping-file"
        )
    return rules, list(by_namespace)


def _read_file(file: str) -> list[ImportRule]:
    from multiqueue.cli.importing.mapping import read_rules
    from multiqueue.lib import bounded_yaml

    try:
        document = bounded_yaml.load(Path(file).read_bytes())
    except OSError as error:
        raise UsageProblem(f'cannot read "{file}": {error.strerror or error}') from error
    except bounded_yaml.YamlError as error:
        raise UsageProblem(f'"{file}" is not valid YAML: {error}') from error
    return read_rules(document, f'"{file}"')


def _read_labels(values: Sequence[str]) -> dict[str, str]:
    from multiqueue.cli.importing.mapping import parse_pairs

    labels = parse_pairs(values, "--add-labels")
    _check_labels(labels, "--add-labels")
    return labels


def _check_labels(labels: Mapping[str, str], option: str) -> None:
    from multiqueue.api import names
    from multiqueue.api.validation.names import check_label_value, check_qualified_name

    for key, value in labels.items():
        for message in (*check_qualified_name(key), *check_label_value(value)):
            raise UsageProblem(f'{option}: label "{key}={value}": {message}')
        if key in {names.QUEUE_NAME, names.MANAGED} and option == "--add-labels":
            raise UsageProblem(f'{option}: "{key}" is set by the import itself; leave it out')


# ---------------------------------------------------------------- the import


async def _import(request: _ImportRequest) -> int:
    from multiqueue.cli.importing.run import JobImport
    from multiqueue.cli.importing.tally import find_shortages
    from multiqueue.cli.importing.world import read_world
    from multiqueue.kube.errors import NotFound

    async with connect(request.target, limiter=request.limiter) as (client, _):
        config = await _read_config(client, request.system_namespace)
        try:
            world = await read_world(client, request.namespaces, config)
        except NotFound as error:
            raise CliError(f"{error.server_message}; create it, or check the name") from error
        job_import = JobImport(
            client, request.namespaces, request.settings, world, parallel=request.parallel
        )
        checked = await job_import.check()
        shortages = find_shortages(checked, world.cluster_queues)
        if checked.problems or not request.writes:
            _print(checked, "can be imported", shortages, request)
            if not checked.problems and request.output == "human":
                echo("Nothing was changed. Add --dry-run=false to import.")
            elif checked.problems:
                echo("Nothing was changed.", err=True)
            return ExitCode.FAILED if checked.problems else ExitCode.OK
        for text in shortages:
            _warn(text)
        done = await job_import.run(_show_progress(checked.planned.total()))
        _print(done, "imported", [], request)
        return ExitCode.FAILED if done.problems else ExitCode.OK


async def _read_config(client: KubeClient, namespace: str) -> Configuration:
    """Return the manager's configuration: it says which resources count."""
    from multiqueue.api.config import Configuration, ConfigurationError
    from multiqueue.workers.kubeconfigs.stored import read_config

    try:
        config = await read_config(client, namespace)
    except ConfigurationError as error:
        raise CliError(f"the manager's ConfigMap: {error}") from error
    return config or Configuration(namespace=namespace)


def _show_progress(total: int) -> Callable[[ImportTally], None]:
    """Return a function that says how far the import is; on a terminal only."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda tally: echo(f"{tally.planned.total()} of {total}", err=True)


def _print(
    tally: ImportTally, verb: str, shortages: Sequence[str], request: _ImportRequest
) -> None:
    if request.output != "human":
        data = {"dryRun": not request.writes, **tally.to_dict(), "shortages": list(shortages)}
        print_data(data, request.output)
        return
    counts = tally.to_dict()
    if counts["planned"]:
        rows = [
            [each["localQueue"], each["clusterQueue"], each["jobs"]] for each in counts["planned"]
        ]
        print_table(["LOCAL QUEUE", "CLUSTER QUEUE", "JOBS"], rows)
    for each in counts["usage"]:
        place = f'ClusterQueue "{each["clusterQueue"]}", flavor "{each["flavor"]}"'
        echo(f"  {place}: {each['amount']} {each['resource']}")
    for reason, count in counts["skipped"].items():
        echo(f"{count} skipped: {reason}")
    for each in counts["problems"]:
        label = click.style("problem", fg="red")
        echo(f"{label} of {each['jobs']}, such as {each['example']}: {each['message']}")
    for text in shortages:
        _warn(text)
    echo(f"{tally.total} found, {tally.planned.total()} {verb}, {tally.problems.total()} failed")


def _warn(text: str) -> None:
    echo(f"{click.style('warning', fg='yellow')}: too little quota: {text}", err=True)
