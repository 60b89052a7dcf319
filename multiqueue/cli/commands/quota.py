"""``multiqueue quota``: what a QuotaPlan proposes, and what a manifest would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import ClusterTarget, cluster_options, connect, run_async
from multiqueue.cli.errors import CliError
from multiqueue.cli.output import echo, form_option, output_option, print_data, print_table
from multiqueue.lib.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multiqueue.api.v1alpha1 import PlanMove, QuotaPlan
    from multiqueue.kube.client import KubeClient

TITLES = words("CLUSTERQUEUE FLAVOR RESOURCE FROM TO DEMAND UNMET BORROWS")


@click.group("quota")
def command() -> None:
    """Look at what a QuotaPlan proposes, agree to it, and take it back; compare a manifest."""


@command.command("diff", short_help="Show what a manifest would change of the quotas")
@click.option("-f", "--filename", "source", required=True, metavar="FILE|-", help="A manifest.")
@click.option(
    "--what-if", is_flag=True, help="Say who would start, wait longer or be stopped; of 20 fields."
)
@cluster_options
@output_option
def diff(*, source: str, what_if: bool, target: ClusterTarget, output: str) -> int:
    """Show how quotas of the ClusterQueues and Cohorts in a file differ from the cluster's.

    Nothing is written. With --what-if the manager tries the change on a copy; it ends with 1 if a
    job could never start any more.

    \b
    Examples:
      multiqueue quota diff -f queues.yaml
      multiqueue quota diff -f queues.yaml --what-if
    """  # noqa: D301 - click reads the backspace
    from multiqueue.cli.quota_diff import show_diff

    return run_async(show_diff(target, source, output, what_if=what_if))


@command.command("plan", short_help="Show what a plan proposes, and why")
@click.argument("name")
@form_option(
    "human",
    "patch",
    "json",
    "yaml",
    help_="How to print it; patch prints the ClusterQueues' new quotas, to be committed.",
)
@cluster_options
def plan(*, name: str, output: str, target: ClusterTarget) -> None:
    """Show what a QuotaPlan proposes, and what speaks for it.

    DEMAND is what is not exceeded for 50, 80 and 95 % of the time. UNMET is the demand above the
    queue's own quota in 14 days, in amounts times hours, with the quota of now and with the new
    one. BORROWS is what the queue's Workloads hold now above the new quota: they
    go on, and the queues that lend it may take it back by their own rules.
    """
    run_async(_plan(target, name, output))


@command.command("approve", short_help="Agree to what a plan proposes now")
@click.argument("name")
@cluster_options
def approve(*, name: str, target: ClusterTarget) -> None:
    """Agree to what a QuotaPlan proposes now; the manager applies it.

    If the proposal changes before the manager looks, nothing is applied.
    """
    run_async(_approve(target, name))


@command.command("rollback", short_help="Go back to the quotas before a change")
@click.argument("name")
@click.option(
    "--to",
    "number",
    type=click.IntRange(min=0),
    metavar="N",
    help="The state to go back to; without it, the one before the last change.",
)
@cluster_options
def rollback(*, name: str, number: int | None, target: ClusterTarget) -> None:
    """Go back to the quotas that an earlier change of a QuotaPlan left.

    The plan keeps its last ten states; state 0 is that before its first change.
    """
    run_async(_rollback(target, name, number))


# ---------------------------------------------------------------- what they do


async def _plan(target: ClusterTarget, name: str, output: str) -> None:
    from multiqueue.api.serde import encode

    async with connect(target) as (client, _):
        found = await _read(client, name)
        proposal = found.status.proposal
        if output == "patch":
            moves = _proposed(found)
            for patch in await _list_patches(client, moves):
                echo("---")
                print_data(patch, "yaml")
            return
    if output != "human":
        print_data(encode(found.status), output)
        return
    echo(f"{found.status.state or 'Not looked at yet'}: {found.status.message}")
    if proposal is not None:
        echo()
        print_table(TITLES, [_row(move) for move in proposal.moves])
    if found.status.states:
        echo()
        print_table(
            ("STATE", "SINCE", "AGREED TO BY", "QUOTAS"),
            [
                (
                    str(state.number),
                    state.since or "the beginning",
                    state.by or None,
                    ", ".join(f"{each.cluster_queue} {each.nominal}" for each in state.quotas),
                )
                for state in found.status.states
            ],
        )


async def _approve(target: ClusterTarget, name: str) -> None:
    async with connect(target) as (client, _):
        found = await _read(client, name)
        moves = _proposed(found)
        assert found.status.proposal is not None
        await _agree(client, name, found.status.proposal.hash, moves)


async def _rollback(target: ClusterTarget, name: str, number: int | None) -> None:
    from multiqueue.api.serde import decode
    from multiqueue.api.v1beta2 import ClusterQueue
    from multiqueue.controllers.quota_plan.changes import build_way_back, read_state, write_move
    from multiqueue.controllers.quota_plan.rules import read_nominal
    from multiqueue.kube.resources import CLUSTER_QUEUES

    async with connect(target) as (client, _):
        found = await _read(client, name)
        states = found.status.states
        if len(states) < 2 and number is None:
            raise CliError(f'QuotaPlan "{name}" has changed nothing yet; there is nothing to undo')
        wanted = states[-2].number if number is None else number
        known = {key.cluster_queue for key in read_state(states[-1])} if states else set()
        listed = (await client.list(CLUSTER_QUEUES)).items
        queues = [decode(ClusterQueue, q) for q in listed if q["metadata"]["name"] in known]
        try:
            back = build_way_back(name, found.status, wanted, read_nominal(found, queues))
        except ValueError as error:
            raise CliError(f'QuotaPlan "{name}": {error}') from None
        await _agree(client, name, back.hash, [write_move(move) for move in back.moves])


async def _read(client: KubeClient, name: str) -> QuotaPlan:
    from functools import partial

    from multiqueue.api.serde import decode
    from multiqueue.api.v1alpha1 import QuotaPlan
    from multiqueue.kube.errors import NotFound
    from multiqueue.kube.resources import QUOTA_PLANS

    try:
        return await client.get(QUOTA_PLANS, name, decode=partial(decode, QuotaPlan))
    except NotFound:
        raise CliError(f'there is no QuotaPlan "{name}"; see kubectl get quotaplans') from None


def _proposed(found: QuotaPlan) -> Sequence[PlanMove]:
    status = found.status
    if status.proposal is None:
        raise CliError(
            f'QuotaPlan "{found.metadata.name}" proposes nothing now. '
            f"{status.state or 'Not looked at yet'}: {status.message}"
        )
    return status.proposal.moves


async def _agree(client: KubeClient, name: str, hash_: str, moves: Sequence[PlanMove]) -> None:
    from multiqueue.kube.resources import QUOTA_PLANS

    await client.patch(QUOTA_PLANS, name, {"spec": {"approved": hash_}})
    for move in moves:
        echo(f"{move.cluster_queue}: {move.before} -> {move.after} {move.resource} ({move.flavor})")
    echo(f"agreed to {hash_}; multiqueue quota plan {name} shows what becomes of it")


async def _list_patches(client: KubeClient, moves: Sequence[PlanMove]) -> list[dict[str, Any]]:
    """Return the ClusterQueues with their new quotas; what is not named in them stays."""
    from multiqueue.kube.resources import CLUSTER_QUEUES

    new = {(m.cluster_queue, m.flavor, m.resource): m.after for m in moves}
    patches = []
    for name in sorted({move.cluster_queue for move in moves}):
        queue = await client.get(CLUSTER_QUEUES, name)
        groups = queue["spec"]["resourceGroups"]
        for group in groups:
            for flavor in group["flavors"]:
                for quota in flavor["resources"]:
                    place = (name, flavor["name"], quota["name"])
                    quota["nominalQuota"] = new.get(place, quota["nominalQuota"])
        patches.append(
            {
                "apiVersion": CLUSTER_QUEUES.api_version,
                "kind": CLUSTER_QUEUES.kind,
                "metadata": {"name": name},
                "spec": {"resourceGroups": groups},
            }
        )
    return patches


def _row(move: Any) -> tuple[str, ...]:
    return (
        move.cluster_queue,
        move.flavor,
        move.resource,
        move.before,
        move.after,
        f"{move.p50} {move.p80} {move.p95}",
        f"{move.unmet_before} {move.unmet_after}",
        move.borrows,
    )
