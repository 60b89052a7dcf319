"""``multiqueue clusters sync``: write what the manager declares to its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data
from multiqueue.cli.projection.access import AdministratorAccess, access_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multiqueue.cli.projection.sync import Synced, SyncRequest
    from multiqueue.projection.plan import Held, SyncStep


@click.command("sync")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-f",
    "--fleet",
    "fleet_file",
    metavar="FILE",
    help="The fleet file: flavors and quotas of the workers; by default the ConfigMap "
    "multiqueue-fleet of the manager, if there is one.",
)
@click.option("--diff", is_flag=True, help="Show what differs, line by line; write nothing.")
@click.option("--dry-run", is_flag=True, help="Have the workers check it all; write nothing.")
@click.option("--prune", is_flag=True, help="Delete what sync made and is not declared any more.")
@click.option("--force", is_flag=True, help="Take over what others made, and their fields.")
@access_options
@system_namespace_option
@cluster_options
@output_option
def command(
    *,
    names: tuple[str, ...],
    fleet_file: str | None,
    diff: bool,
    dry_run: bool,
    prune: bool,
    force: bool,
    access: AdministratorAccess,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Bring namespaces, queues, flavors and priority classes to workers; to all, or to those named.

    What the manager's own objects declare, and the fleet file: docs/projection.md. Needs an
    administrator's credentials of each worker; the manager's own may not write there. Ends with 1
    where something could not be brought in step; with --diff, where something differs.
    """
    from multiqueue.cli.projection.sync import SyncRequest

    if diff and dry_run:
        raise UsageProblem("--diff and --dry-run: take one of them")
    wanted = SyncRequest(
        access=access,
        manager=target,
        namespace=system_namespace,
        force=force,
        prune=prune,
        write=not diff,
        dry_run=dry_run,
    )
    results = run_async(_sync(target, fleet_file, names, wanted))
    if output != "human":
        print_data([_to_dict(each, diff=diff) for each in results], output)
    elif diff:
        _print_diffs(results)
    else:
        for each in results:
            _print(each, wanted)
    differs = diff and any(each.plan.steps for each in results)
    bad = differs or not all(each.is_good for each in results)
    return ExitCode.FAILED if bad else ExitCode.OK


async def _sync(
    target: ClusterTarget, fleet_file: str | None, names: Sequence[str], wanted: SyncRequest
) -> list[Synced]:
    from multiqueue.cli.projection.observe import read_manager, warn_of_strangers
    from multiqueue.cli.projection.sync import sync_workers

    async with connect(target) as (client, _):
        view = await read_manager(client, namespace=wanted.namespace, fleet_file=fleet_file)
        warn_of_strangers(view)
        if wanted.prune and view.fleet is None:
            raise UsageProblem(
                "--prune needs the fleet file (-f FILE): without it everything that it declared "
                "would look superfluous"
            )
        workers = view.clusters(names)
        strangers = sorted({*wanted.access.contexts, *wanted.access.kubeconfigs} - set(workers))
        if strangers:
            raise UsageProblem(
                f'credentials were named for "{strangers[0]}", which is none of the workers: '
                f"{', '.join(workers)}"
            )
        return await sync_workers(client, view, workers, wanted)


def _print_diffs(results: Sequence[Synced]) -> None:
    from multiqueue.projection.diff import diff_lines

    colours = {"+": "green", "-": "red", "@": "cyan"}
    for each in results:
        changes: tuple[SyncStep | Held, ...] = (*each.plan.steps, *each.plan.held)
        for change in changes:
            for line in diff_lines(each.worker, change):
                echo(click.style(line, fg=colours.get(line[0])))
        _print_rest(each)


def _print(synced: Synced, wanted: SyncRequest) -> None:
    note = " (dry run)" if wanted.dry_run else ""
    echo(f"{synced.worker}:")
    for outcome in synced.outcomes:
        words = f"{outcome.written}{note}" if outcome.is_done else f"{outcome.written}: "
        echo(f"  {_name(outcome.step.obj)} {_coloured(words, outcome.is_done)}{outcome.message}")
    if synced.plan.in_step:
        echo(f"  {synced.plan.in_step} in step")
    _print_rest(synced)


def _print_rest(synced: Synced) -> None:
    """Print what was held back, is unknown, or still differs."""
    for text in synced.warnings:
        echo(f"  {click.style('warning', fg='yellow')}: {text}")
    if synced.error:
        echo(f"  {click.style('failed', fg='red')}: {synced.error}")
        return
    for held in synced.plan.held:
        echo(f"  {_name(held.obj)} {click.style('held back', fg='yellow')}: {held.message}")
    for problem in synced.plan.problems:
        echo(f"  {click.style('unclear', fg='yellow')}: {problem}")
    if synced.after is not None and not synced.plan.held and not synced.plan.problems:
        for drift in synced.after.drift:
            name = "/".join(filter(None, (drift.namespace, drift.name)))
            echo(f"  {drift.kind.lower()}/{name} {drift.message}")


def _coloured(words: str, good: bool) -> str:
    return words if good else click.style(words, fg="red")


def _name(obj: Any) -> str:
    metadata = obj["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"{obj['kind'].lower()}/{name}"


def _to_dict(synced: Synced, *, diff: bool) -> dict[str, Any]:
    from multiqueue.projection.diff import diff_lines

    changes: list[dict[str, Any]] = [
        {
            "action": str(step.action),
            "object": _name(step.obj),
            "fields": [difference.path for difference in step.differences],
            **({"diff": list(diff_lines(synced.worker, step))} if diff else {}),
        }
        for step in synced.plan.steps
    ]
    for change, outcome in zip(changes, synced.outcomes, strict=False):
        change |= {"result": str(outcome.written), "message": outcome.message or None}
    return {
        "worker": synced.worker,
        "changes": changes,
        "inStep": synced.plan.in_step,
        "held": [
            {"object": _name(h.obj), "reason": str(h.reason), "message": h.message}
            for h in synced.plan.held
        ],
        "problems": list(synced.plan.problems),
        "warnings": synced.warnings,
        "error": synced.error or None,
        "after": synced.after.to_dict() if synced.after is not None else None,
    }
