"""``multiqueue preempt --dry-run``: who would be stopped for a job, before it is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multiqueue.cli.config_files import read_config_file
from multiqueue.cli.connect import (
    ClusterTarget,
    connect,
    run_async,
    system_namespace_option,
    with_target,
)
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.output import output_option, print_data

if TYPE_CHECKING:
    from multiqueue.api.config import Configuration
    from multiqueue.whatif.snapshot import Snapshot


@click.command("preempt")
@click.option("-f", "--filename", "source", required=True, metavar="FILE|-", help="A manifest.")
@click.option("--dry-run", is_flag=True, help="Only say who would be stopped. Required.")
@click.option(
    "--snapshot",
    "snapshot_file",
    metavar="FILE",
    help="Ask this snapshot; by default the cluster is read.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The manager's configuration; by default that of its ConfigMap.",
)
@system_namespace_option
@with_target
@output_option
def command(
    *,
    source: str,
    dry_run: bool,
    snapshot_file: str | None,
    config_file: str | None,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Say who would be stopped if a job were submitted now: whose quota, age, work and reason.

    Nothing is written: the manager's engine decides on a copy of what the cluster holds. Ends with
    1 if the job would have to wait nevertheless.

    \b
    Examples:
      multiqueue preempt --dry-run -f job.yaml
      multiqueue preempt --dry-run -f job.yaml --snapshot fleet.snapshot -o json
    """  # noqa: D301 - click reads the backspace
    from multiqueue.cli.snapshots import load_snapshot

    if not dry_run:
        raise UsageProblem("a job preempts others once it is submitted: add --dry-run, or submit")
    if snapshot_file is not None and config_file is not None:
        raise UsageProblem("--config: a snapshot has its configuration; leave one of them out")
    if snapshot_file is not None:
        return _rehearse(load_snapshot(snapshot_file), source, target.namespace or "", output)
    snapshot, default = run_async(_take(target, system_namespace, read_config_file(config_file)))
    return _rehearse(snapshot, source, target.namespace or "", output, default)


async def _take(
    target: ClusterTarget, system_namespace: str, config: Configuration | None
) -> tuple[Snapshot, str]:
    from multiqueue.cli.snapshots import take_snapshot

    async with connect(target) as (client, namespace):
        found = await take_snapshot(client, system_namespace=system_namespace, config=config)
        return found, namespace


def _rehearse(
    snapshot: Snapshot, source: str, namespace: str, output: str, default: str = "default"
) -> int:
    from multiqueue.cli.snapshots import submit_file
    from multiqueue.cli.views.rehearsal import rehearsal_to_dict, show_rehearsal
    from multiqueue.whatif.change_request import ChangeError
    from multiqueue.whatif.snapshot import SnapshotError
    from multiqueue.whatif.trial import compare_worlds

    changed = snapshot.copy()
    try:
        keys = submit_file(changed, source, namespace, default)
        tried = compare_worlds(snapshot, changed, ())
    except ChangeError as error:
        raise CliError(str(error)) from error
    except SnapshotError as error:
        raise CliError(str(error)) from error
    if output != "human":
        print_data(rehearsal_to_dict(snapshot, tried, keys), output)
    else:
        show_rehearsal(snapshot, tried, keys)
    starts = all(tried.after.workloads[key].fate.has_quota for key in keys)
    return ExitCode.OK if starts else ExitCode.FAILED
