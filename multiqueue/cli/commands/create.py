"""``multiqueue create``: create queues and flavors from options, as kueuectl does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.kueuectl.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    KindGroup,
    KueuectlKind,
)
from multiqueue.cli.kueuectl.options import DryRun, dry_run_option, object_option

F = TypeVar("F", bound=Callable[..., Any])

QUOTAS = "FLAVOR:RESOURCE=QUANTITY;..."
PREEMPTION = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
RECLAIM = ("Never", "LowerPriority", "Any")


def _quota_option(name: str, help_: str) -> Callable[[F], F]:
    return click.option(f"--{name}", multiple=True, metavar=QUOTAS, help=help_)


@click.command("clusterqueue")
@click.argument("name")
@click.option("--cohort", default="", metavar="NAME", help="The cohort that it belongs to.")
@click.option(
    "--queuing-strategy",
    type=click.Choice(["StrictFIFO", "BestEffortFIFO"]),
    default="BestEffortFIFO",
    show_default=True,
    help="Whether a job that does not fit blocks those behind it.",
)
@click.option(
    "--namespace-selector",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="Labels of the namespaces that may use it; by default all may.",
)
@click.option(
    "--reclaim-within-cohort",
    type=click.Choice(RECLAIM),
    default="Never",
    show_default=True,
    help="Whom a job may preempt in other queues of the cohort.",
)
@click.option(
    "--preemption-within-cluster-queue",
    type=click.Choice(PREEMPTION),
    default="Never",
    show_default=True,
    metavar="POLICY",
    help=f"Whom a job may preempt in this queue: {', '.join(PREEMPTION)}.",
)
@_quota_option("nominal-quota", "What it owns, by flavor; flavors are separated by commas.")
@_quota_option("borrowing-limit", "What it may borrow at most.")
@_quota_option("lending-limit", "What it lends at most.")
@dry_run_option
@object_option
@with_target
def create_cluster_queue(
    *,
    target: ClusterTarget,
    name: str,
    cohort: str,
    queuing_strategy: str,
    namespace_selector: tuple[str, ...],
    reclaim_within_cohort: str,
    preemption_within_cluster_queue: str,
    dry_run: DryRun,
    output: str,
    **quotas: tuple[str, ...],
) -> None:
    """Create a ClusterQueue.

    \b
    multiqueue create clusterqueue research --cohort all \\
      --nominal-quota "a100:cpu=96;nvidia.com/gpu=8,h100:cpu=64;nvidia.com/gpu=4"
    multiqueue create cq research --dry-run client -o yaml
    """  # noqa: D301 - click reads the backspace
    from multiqueue.cli.kueuectl.manifests import build_cluster_queue
    from multiqueue.cli.kueuectl.specs import LIMITS, parse_pairs, parse_resource_groups

    obj = build_cluster_queue(
        name,
        cohort=cohort,
        strategy=queuing_strategy,
        namespace_labels=parse_pairs("namespace-selector", namespace_selector),
        reclaim=reclaim_within_cohort,
        preemption=preemption_within_cluster_queue,
        resource_groups=parse_resource_groups(
            {name: quotas[name.replace("-", "_")] for name in LIMITS}
        ),
    )
    run_async(_create(target, CLUSTER_QUEUE, obj, output=output, dry_run=dry_run))


@click.command("localqueue")
@click.argument("name")
@click.option(
    "-c",
    "--clusterqueue",
    required=True,
    metavar="NAME",
    shell_complete=names_of("clusterqueues"),
    help="Where its jobs go.",
)
@click.option(
    "-i", "--ignore-unknown-cq", is_flag=True, help="Create it though the ClusterQueue is missing."
)
@dry_run_option
@object_option
@with_target
def create_local_queue(
    *,
    target: ClusterTarget,
    name: str,
    clusterqueue: str,
    ignore_unknown_cq: bool,
    dry_run: DryRun,
    output: str,
) -> None:
    """Create a LocalQueue.

    \b
    multiqueue create localqueue jobs -c research -n team-a
    multiqueue create lq jobs -c later -i
    """  # noqa: D301 - click reads the backspace
    run_async(
        _create_local_queue(
            target,
            name,
            clusterqueue,
            ignore_unknown=ignore_unknown_cq,
            output=output,
            dry_run=dry_run,
        )
    )


@click.command("resourceflavor")
@click.argument("name")
@click.option("--node-labels", multiple=True, metavar="KEY=VALUE,...", help="Labels of its nodes.")
@click.option(
    "--node-taints", multiple=True, metavar="KEY[=VALUE]:EFFECT,...", help="Taints of its nodes."
)
@click.option(
    "--tolerations",
    multiple=True,
    metavar="KEY[=VALUE][:EFFECT],...",
    help="What its pods tolerate in addition.",
)
@dry_run_option
@object_option
@with_target
def create_resource_flavor(
    *,
    target: ClusterTarget,
    name: str,
    node_labels: tuple[str, ...],
    node_taints: tuple[str, ...],
    tolerations: tuple[str, ...],
    dry_run: DryRun,
    output: str,
) -> None:
    """Create a ResourceFlavor.

    \b
    multiqueue create resourceflavor a100 --node-labels gpu=a100 --tolerations gpu:NoSchedule
    multiqueue create rf spot --node-taints spot=true:NoSchedule
    """  # noqa: D301 - click reads the backspace
    from multiqueue.cli.kueuectl import specs
    from multiqueue.cli.kueuectl.manifests import build_resource_flavor

    obj = build_resource_flavor(
        name,
        node_labels=specs.parse_pairs("node-labels", node_labels),
        node_taints=specs.parse_node_taints(node_taints),
        tolerations=specs.parse_node_tolerations(tolerations),
    )
    run_async(_create(target, RESOURCE_FLAVOR, obj, output=output, dry_run=dry_run))


async def _create(
    target: ClusterTarget, kind: KueuectlKind, obj: Any, *, output: str, dry_run: DryRun
) -> None:
    from multiqueue.cli.kueuectl.changes import create_object, print_object

    if dry_run is DryRun.CLIENT:  # needs no cluster
        print_object(kind.resource, obj, output, "created", dry_run)
        return
    async with connect(target) as (client, _):
        await create_object(client, kind, obj, output=output, dry_run=dry_run)


async def _create_local_queue(
    target: ClusterTarget, name: str, cluster_queue: str, *, ignore_unknown: bool, **options: Any
) -> None:
    from multiqueue.cli.kueuectl.changes import create_object
    from multiqueue.cli.kueuectl.manifests import build_local_queue

    async with connect(target) as (client, namespace):
        if not ignore_unknown:
            await client.get(CLUSTER_QUEUE.resource, cluster_queue)
        obj = build_local_queue(name, namespace, cluster_queue)
        await create_object(client, LOCAL_QUEUE, obj, **options)


command = KindGroup(
    "create",
    help_="Create queues and flavors from options.",
    kinds={
        CLUSTER_QUEUE: create_cluster_queue,
        LOCAL_QUEUE: create_local_queue,
        RESOURCE_FLAVOR: create_resource_flavor,
    },
)
