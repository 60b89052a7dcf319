"""``multiqueue snapshot``: everything that the manager decides from, in one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multiqueue.cli.config_files import read_config_file
from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import echo

if TYPE_CHECKING:
    from multiqueue.api.config import Configuration
    from multiqueue.whatif.snapshot import Snapshot


@click.command("snapshot")
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file to write; - is standard output.",
)
@click.option(
    "--anonymous",
    is_flag=True,
    help="Replace the names of namespaces, queues, jobs, workers and nodes; order is kept.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The manager's configuration; by default that of its ConfigMap.",
)
@system_namespace_option
@cluster_options
def command(
    *,
    path: Path,
    anonymous: bool,
    config_file: str | None,
    system_namespace: str,
    target: ClusterTarget,
) -> None:
    """Write what the manager decides from into one file, without Secrets, for `replay`.

    Reads with your own rights. Of pods, only what decides goes in: no images, commands or
    environment.

    \b
    Examples:
      multiqueue snapshot -o fleet.snapshot
      multiqueue snapshot -o fleet.snapshot --anonymous
    """  # noqa: D301 - click reads the backspace
    from multiqueue.whatif.snapshot import pack

    snapshot = run_async(_take(target, system_namespace, read_config_file(config_file)))
    if anonymous:
        from multiqueue.whatif.anonymous import anonymize

        snapshot = anonymize(snapshot)
    data = pack(snapshot)
    try:
        if str(path) == "-":
            sys.stdout.buffer.write(data)
        else:
            path.write_bytes(data)
    except OSError as error:
        raise UsageProblem(f'"{path}" cannot be written: {error.strerror or error}') from error
    for note in snapshot.notes:
        echo(f"note: {note}", err=True)
    kinds = {"Workload": "unfinished Workloads", "ClusterQueue": "ClusterQueues"}
    kinds["MultiKueueCluster"] = "workers"
    counts = (f"{len(snapshot.of(kind))} {words}" for kind, words in kinds.items())
    echo(f"{path}: {', '.join(counts)}, {len(data)} bytes", err=True)


async def _take(
    target: ClusterTarget, system_namespace: str, config: Configuration | None
) -> Snapshot:
    from multiqueue.cli.snapshots import take_snapshot

    async with connect(target) as (client, _):
        return await take_snapshot(client, system_namespace=system_namespace, config=config)
