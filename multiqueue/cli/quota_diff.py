"""``multiqueue quota diff``: what a manifest would change of the quotas, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multiqueue.cli.connect import ClusterTarget, connect
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.manifests import read_manifests
from multiqueue.cli.output import echo, print_data, print_table
from multiqueue.cli.views.quota_changes import (
    CHANGE_HEADERS,
    EFFECT_HEADERS,
    TARGETS,
    QuotaChange,
    list_changes,
    list_effect_rows,
)
from multiqueue.cli.whatifs import try_changes

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient

Json = dict[str, Any]


async def show_diff(target: ClusterTarget, source: str, output: str, *, what_if: bool) -> int:
    """Print how the quotas of a file differ from the cluster's, and what the change would do.

    Returns:
        1 if a Workload could never start after it, else 0.
    """
    wanted = [each for each in read_manifests(source) if each["kind"] in TARGETS]
    if not wanted:
        raise UsageProblem(f'"{source}" has no ClusterQueue and no Cohort, so no quotas')
    async with connect(target) as (client, _):
        changes = [change for each in wanted for change in await _compare(client, each)]
        asked = [each for each in changes if what_if and each.tryable]
        tried = await try_changes(client, [each.request() for each in asked]) if asked else None
    left_out = [" ".join(each.row()[:4]) for each in changes if what_if and not each.tryable]
    if output != "human":
        fields = [dict(zip(CHANGE_HEADERS, each.row(), strict=True)) for each in changes]
        told = [{title.lower(): cell for title, cell in each.items()} for each in fields]
        print_data({"changes": told, "whatIf": tried, "notTried": left_out}, output)
    else:
        _show(changes, tried)
        if left_out:
            echo(f"Not tried, as a what-if adds and removes no quota: {', '.join(left_out)}.")
    return ExitCode.FAILED if tried is not None and tried["sums"]["never"] else ExitCode.OK


async def _compare(client: KubeClient, wanted: Json) -> list[QuotaChange]:
    from multiqueue.kube.errors import NotFound
    from multiqueue.kube.resources import CLUSTER_QUEUES, COHORTS

    resource = CLUSTER_QUEUES if wanted["kind"] == CLUSTER_QUEUES.kind else COHORTS
    try:
        stored = await client.get(resource, wanted["metadata"]["name"])
    except NotFound:
        stored = None
    return list_changes(stored, wanted)


def _show(changes: list[QuotaChange], tried: Json | None) -> None:
    if not changes:
        echo("The quotas are those of the cluster.")
        return
    print_table(CHANGE_HEADERS, [each.row() for each in changes])
    if tried is None:
        return
    echo()
    if tried["workloads"]:
        print_table(EFFECT_HEADERS, list_effect_rows(tried["workloads"]))
    else:
        echo("The same jobs start, stop and wait.")
    sums = tried["sums"]
    echo(
        f"\nStart now: {sums['starts']}, stopped: {sums['stopped']}, wait longer: "
        f"{sums['longer']}, can never start: {sums['never']}; {sums['gpuHoursLost']:g} GPU-hours "
        "of work are at stake"
    )
    if others := sum(tried["others"].values()):
        echo(f"{others} jobs of namespaces that you may not read are counted, and not shown.")
    echo(f"Left out: {', '.join(tried['leftOut'])}. Nothing was changed.")
