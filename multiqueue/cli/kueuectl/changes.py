"""Creates and patches one object for a command, and says so in kubectl's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multiqueue.cli.connect import ClusterTarget, connect
from multiqueue.cli.kueuectl.kinds import KueuectlKind
from multiqueue.cli.kueuectl.options import DryRun
from multiqueue.cli.output import echo, print_data

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient
    from multiqueue.kube.resources import Resource

Json = dict[str, Any]


def title_of(resource: Resource, name: str) -> str:
    """Return kubectl's title of an object: ``clusterqueue.kueue.x-k8s.io/gpus``."""
    group = f".{resource.group}" if resource.group else ""
    return f"{resource.kind.lower()}{group}/{name}"


def print_object(resource: Resource, obj: Json, output: str, done: str, dry_run: DryRun) -> None:
    """Print an object, its name, or what was done to it."""
    if output not in {"human", "name"}:
        print_data(obj, output)
        return
    title = title_of(resource, obj["metadata"]["name"])
    echo(title if output == "name" else f"{title}{done and f' {done}'}{dry_run.words}")


async def create_object(
    client: KubeClient, kind: KueuectlKind, obj: Json, *, output: str, dry_run: DryRun
) -> None:
    """Create an object, and print it."""
    if dry_run is not DryRun.CLIENT:
        made = await client.create(kind.resource, obj, dry_run=dry_run is DryRun.SERVER)
        obj = {**made, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    print_object(kind.resource, obj, output, "created", dry_run)


async def change_object(
    target: ClusterTarget,
    kind: KueuectlKind,
    name: str,
    spec: Json,
    *,
    done: str,
    output: str,
    dry_run: DryRun,
) -> None:
    """Change fields of an object's spec, and print the object.

    Args:
        target: The cluster and the namespace.
        kind: The kind of the object.
        name: Its name.
        spec: The fields to set.
        done: The verb of the message; empty prints the name alone.
        output: How to print.
        dry_run: What to do instead of the change.
    """
    async with connect(target) as (client, chosen):
        namespace = chosen if kind.namespaced else None
        obj: Json = await client.get(kind.resource, name, namespace=namespace)
        if dry_run is DryRun.CLIENT:
            obj = {**obj, "spec": {**obj["spec"], **spec}}
        else:
            obj = await client.patch(
                kind.resource,
                name,
                {"spec": spec},
                namespace=namespace,
                dry_run=dry_run is DryRun.SERVER,
            )
        print_object(kind.resource, obj, output, done, dry_run)
