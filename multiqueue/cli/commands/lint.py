"""``multiqueue lint``: pitfalls in manifests or in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data, print_table
from multiqueue.lib.words import count_of

if TYPE_CHECKING:
    from multiqueue.lint.finding import Finding
    from multiqueue.lint.rule import LintRule
    from multiqueue.lint.world import LintInput

_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command("lint")
@click.argument("sources", nargs=-1, metavar="[FILE|DIRECTORY|-]...")
@click.option("--cluster", is_flag=True, help="Look at a cluster, and at its workers.")
@click.option(
    "--worker",
    "worker_sources",
    multiple=True,
    metavar="NAME=PATH",
    help="Kubeconfig or manifests of a worker; repeat it. With --cluster the Secrets of the "
    "MultiKueueClusters are used if there is none.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The manager's configuration, which some rules look at.",
)
@click.option(
    "--severity",
    type=click.Choice(["error", "warning", "info"]),
    default="info",
    show_default=True,
    help="Least severity that is shown.",
)
@click.option("--rule", "only", multiple=True, metavar="ID", help="Only this rule; repeat it.")
@click.option("--ignore", multiple=True, metavar="ID", help="Not this rule; repeat it.")
@click.option("--list-rules", is_flag=True, help="Show the rules and what they find.")
@system_namespace_option
@cluster_options
@output_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    sources: tuple[str, ...],
    cluster: bool,
    worker_sources: tuple[str, ...],
    config_file: Path | None,
    severity: str,
    only: tuple[str, ...],
    ignore: tuple[str, ...],
    list_rules: bool,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Find pitfalls in manifests or in a cluster: what is odd, why it matters, what to do.

    Ends with 1 where something cannot work (an error); warnings alone end with 0.
    """
    rules = _pick_rules(only, ignore)
    if list_rules:
        _print_rules(rules, output)
        return ExitCode.OK
    if bool(sources) == cluster:
        raise UsageProblem("name files, directories or - for standard input, or pass --cluster")
    from multiqueue.cli.lint_read import Inputs, read_cluster_world, read_file_world
    from multiqueue.lint.finding import Severity
    from multiqueue.lint.run import lint

    inputs = Inputs(
        workers=_parse_workers(worker_sources),
        config_file=config_file,
        system_namespace=system_namespace,
    )

    async def check() -> tuple[list[Finding], LintInput, list[str]]:
        # The rules run where the kinds that JobKinds declare were learned.
        reading = (
            read_cluster_world(target, inputs) if cluster else read_file_world(sources, inputs)
        )
        world, skipped = await reading
        return lint(world, rules), world, skipped

    found, world, skipped = run_async(check())
    most = Severity(severity).rank
    findings = [f for f in found if f.severity.rank <= most]
    _print(findings, world, skipped, output)
    return ExitCode.FAILED if any(f.severity.rank == 0 for f in findings) else ExitCode.OK


def _pick_rules(only: Sequence[str], ignore: Sequence[str]) -> list[LintRule[LintInput]]:
    from multiqueue.lint.catalogue import RULES

    known = {rule.id for rule in RULES}
    for name in (*only, *ignore):
        if name not in known:
            raise UsageProblem(f'there is no rule "{name}"; --list-rules shows those there are')
    return [r for r in RULES if (not only or r.id in only) and r.id not in ignore]


def _parse_workers(sources: Sequence[str]) -> dict[str, str]:
    workers: dict[str, str] = {}
    for source in sources:
        name, equals, path = source.partition("=")
        if not (name and equals and path):
            raise UsageProblem(f'--worker "{source}": write NAME=PATH')
        workers[name] = path
    return workers


def _print_rules(rules: Sequence[LintRule[LintInput]], output: str) -> None:
    if output != "human":
        rows = [{"id": r.id, "severity": str(r.severity), "title": r.title} for r in rules]
        print_data([{**row, "why": r.why} for row, r in zip(rows, rules, strict=True)], output)
        return
    print_table(["RULE", "SEVERITY", "FINDS"], [[r.id, r.severity, r.title] for r in rules])


def _print(findings: Sequence[Finding], world: LintInput, skipped: list[str], output: str) -> None:
    if output != "human":
        data: dict[str, Any] = {
            "findings": [dict(f.to_dict()) for f in findings],
            "objects": world.count,
            "skipped": skipped,
        }
        print_data(data, output)
        return
    for finding in findings:
        _print_finding(finding)
    for text in skipped:
        echo(f"skipped: {text}", err=True)
    counts = [sum(f.severity == level for f in findings) for level in _COLOURS]
    words = ", ".join(f"{n} {level}" for n, level in zip(counts, _COLOURS, strict=True))
    if not world.count:
        echo("nothing was checked: no object is of a kind that a rule reads")
        return
    echo(f"{count_of(world.count, 'object')}: {words if findings else 'nothing found'}")


def _print_finding(finding: Finding) -> None:
    name = f"{finding.namespace}/{finding.name}" if finding.namespace else finding.name
    where = f' on worker "{finding.cluster}"' if finding.cluster else ""
    head = f'{finding.kind} "{name}"{where} [{finding.rule}]'
    source = f"{finding.source}: " if finding.source else ""
    level = click.style(finding.severity, fg=_COLOURS[finding.severity])
    echo(f"{source}{level}: {head}")
    path = f"{finding.path}: " if finding.path else ""
    echo(f"  what: {path}{finding.what}")
    echo(f"  why:  {finding.why}")
    echo(f"  do:   {finding.todo}")
