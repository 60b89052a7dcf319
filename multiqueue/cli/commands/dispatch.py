"""``multiqueue dispatch --dry-run``: where a job would go, before it is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data

if TYPE_CHECKING:
    from multiqueue.cli.decisions import Reviewed


@click.command("dispatch")
@click.option("-f", "--filename", "source", required=True, metavar="FILE|-", help="A manifest.")
@click.option("--dry-run", is_flag=True, help="Only say where it would go. This flag is required.")
@with_target
@output_option
def command(
    *,
    source: str,
    dry_run: bool,
    target: ClusterTarget,
    output: str,
) -> int:
    """Say where jobs would go if they were submitted now, and why: clusters, tiers, scores, starts.

    Nothing is changed. Ends with 1 if a job would be offered to no worker now.
    """
    from multiqueue.cli.manifests import read_manifests

    if not dry_run:
        raise UsageProblem("jobs are dispatched once they are submitted: add --dry-run, or submit")
    manifests = read_manifests(source)
    reviews = run_async(_review(target, manifests))
    if output != "human":
        print_data([_to_dict(manifest, review) for manifest, review in reviews], output)
    else:
        for index, (manifest, review) in enumerate(reviews):
            if index:
                echo()
            _show(manifest, review)
    nominated = [review.decision.nomination for _, review in reviews]
    return ExitCode.OK if all(n is not None and n.clusters for n in nominated) else ExitCode.FAILED


async def _review(
    target: ClusterTarget, manifests: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], Reviewed]]:
    from multiqueue.cli.decisions import review

    async with connect(target) as (client, default):
        return [
            (
                manifest,
                await review(
                    client,
                    manifest,
                    target.namespace
                    or (manifest.get("metadata") or {}).get("namespace")
                    or default,
                ),
            )
            for manifest in manifests
        ]


def _show(manifest: dict[str, Any], review: Reviewed) -> None:
    from multiqueue.cli.decisions import print_decision

    echo(f"{_name(manifest)}: quota of ClusterQueue {review.cluster_queue}: {review.quota}")
    for notice in review.notices:
        echo(f"note: {notice}")
    print_decision(review.decision)


def _to_dict(manifest: dict[str, Any], review: Reviewed) -> dict[str, Any]:
    from multiqueue.cli.views.decisions import to_dict

    return {
        "job": _name(manifest),
        "clusterQueue": review.cluster_queue,
        "quota": review.quota,
        "fits": review.fits,
        "notices": list(review.notices),
        "decision": to_dict(review.decision),
    }


def _name(manifest: dict[str, Any]) -> str:
    metadata = manifest["metadata"]
    return f"{manifest['kind']}/{metadata.get('name') or metadata.get('generateName', '')}"
