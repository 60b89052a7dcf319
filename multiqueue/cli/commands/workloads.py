"""``multiqueue workloads``: where Workloads stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.errors import CliError
from multiqueue.cli.kueuectl.options import all_namespaces_option
from multiqueue.cli.output import echo, print_data, print_table, wide_output_option
from multiqueue.views.phase import PhaseState

if TYPE_CHECKING:
    from typing import Any

    from multiqueue.kube.client import KubeClient

    Json = dict[str, Any]


@click.group("workloads")
def command() -> None:
    """List Workloads with where they stand."""


@command.command("list")
@click.option("--waiting", is_flag=True, help="Only those that wait to start.")
@click.option(
    "--parked",
    is_flag=True,
    help="Only those that wait until something is changed: they ask for more than the quota can "
    "ever be, or for a flavor that is gone.",
)
@click.option(
    "--worker",
    metavar="NAME",
    default="",
    shell_complete=names_of("multikueueclusters"),
    help="Only those that this worker runs, ran or is offered.",
)
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice([str(each) for each in PhaseState], case_sensitive=False),
    metavar="PHASE",
    help=f"Only those in this phase, of {', '.join(PhaseState)}. It can be repeated.",
)
@all_namespaces_option
@with_target
@wide_output_option
def list_(
    *,
    waiting: bool,
    parked: bool,
    worker: str,
    phases: tuple[str, ...],
    all_namespaces: bool,
    target: ClusterTarget,
    output: str,
) -> None:
    """List Workloads: their job, phase, GPUs, and why they do not go on.

    -o wide adds queue, worker, priority, expected start and age.

    \b
    Examples:
      multiqueue workloads list -n team
      multiqueue workloads list -A --waiting -o wide
      multiqueue workloads list -A --worker worker-a100 --phase Running
    """  # noqa: D301 - click reads the backspace
    wanted = {"waiting": waiting, "parked": parked, "worker": worker, "phases": phases}
    run_async(_list(target, wanted, all_namespaces=all_namespaces, output=output))


async def _list(target: ClusterTarget, wanted: Json, *, all_namespaces: bool, output: str) -> None:
    from datetime import UTC, datetime

    from multiqueue.cli.views import standings as view

    async with connect(target) as (client, namespace):
        where = "" if all_namespaces else namespace
        rows = await _read(client, where, parked=wanted["parked"])
    found = view.select_standings(rows, **wanted)
    wide = output == "wide"
    if output not in {"human", "wide"}:
        print_data(found, output)
        return
    if not found:
        echo(f"No such Workload{f' in namespace {where!r}; -A shows all' if where else ''}.")
        return
    now = datetime.now(UTC)
    cells = view.list_standing_rows(found, now, with_namespace=all_namespaces, wide=wide)
    if wide:
        print_table(view.WIDE_HEADERS, cells, wide=True)
    else:
        print_table(view.HEADERS, cells)


async def _read(client: KubeClient, namespace: str, *, parked: bool) -> list[Json]:
    """Return the standings of a namespace, or of all; from the Workloads if no manager tells them.

    Raises:
        CliError: They cannot be read, or not whether they are parked.
    """
    from multiqueue.cli.fleet import read_standings, try_list_rows

    rows, problem = await try_list_rows(client, "standings", namespace=namespace)
    if not problem:
        return rows
    own = None if parked else await read_standings(client, namespace)
    if own is None:
        raise CliError(problem)
    echo(f"note: {problem}. The list is read from the Workloads, without starts.", err=True)
    return own
