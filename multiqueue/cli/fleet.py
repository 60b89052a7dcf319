"""Asks the manager's fleet API, with the user's rights."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from multiqueue.cli.errors import CliError
from multiqueue.cli.visibility import ask, describe_problem
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, RequestTimeout

FLEET = "/apis/fleet.multiqueue.dev/v1alpha1"
PAGE = "1000"

Json = dict[str, Any]


async def list_rows(
    client: KubeClient, resource: str, *, namespace: str = "", **params: str
) -> list[Json]:
    """Return all rows of a resource; the first ones if ``limit`` is given.

    Args:
        client: The cluster's client.
        resource: The plural, such as ``workers``.
        namespace: The namespace; empty: all, or a resource of the cluster.
        params: Parameters of the list, such as ``fieldSelector``.

    Raises:
        CliError: The manager does not answer, or the user may not ask.
    """
    where = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    rows: list[Json] = []
    query = {"limit": PAGE, **params}
    while True:
        try:
            answer = await ask(client, f"{FLEET}/{where}{resource}", **query)
        except (ApiError, RequestTimeout) as error:
            raise CliError(f"{resource} cannot be read: {describe_problem(error)}") from error
        rows += answer["items"]
        rest = answer["metadata"].get("continue")
        if not rest or "limit" in params:
            return rows
        query["continue"] = rest


async def read_story(client: KubeClient, namespace: str, name: str) -> Json:
    """Return the story of a Workload.

    Raises:
        CliError: The manager does not answer, or the user may not ask.
    """
    where = f"namespaces/{quote(namespace, safe='')}/stories/{quote(name, safe='')}"
    try:
        story: Json = (await ask(client, f"{FLEET}/{where}"))["status"]
    except (ApiError, RequestTimeout) as error:
        raise CliError(f"the story cannot be read: {describe_problem(error)}") from error
    return story


async def try_list_rows(
    client: KubeClient, resource: str, *, namespace: str = "", **params: str
) -> tuple[list[Json], str]:
    """Return all rows of a resource, and why there are none if they cannot be read."""
    try:
        return await list_rows(client, resource, namespace=namespace, **params), ""
    except CliError as error:
        return [], str(error)


async def list_standings(client: KubeClient, **params: str) -> tuple[list[Json], str]:
    """Return where the Workloads stand, and what is missing.

    If the manager does not say it, all Workloads that the user may list are read, without position
    and start; whoever calls selects among them.

    Args:
        client: The cluster's client.
        params: Parameters of the list, such as ``fieldSelector``; only the manager heeds them.
    """
    rows, problem = await try_list_rows(client, "standings", **params)
    if not problem:
        return rows, ""
    own = await read_standings(client)
    return own or [], problem if own is None else ""


async def read_standings(client: KubeClient, namespace: str = "") -> list[Json] | None:
    """Return where the Workloads stand as they say themselves, without position and start.

    Args:
        client: The cluster's client.
        namespace: The namespace; empty: all.

    Returns:
        The rows; None if the user may not list Workloads there.
    """
    from datetime import UTC, datetime

    from multiqueue.cli.queue_objects import QueueObjects
    from multiqueue.views.standing import view_standing

    objects = QueueObjects(now=datetime.now(UTC))
    await objects.list(client, "workloads", "local_queues", namespace=namespace or None)
    if "workloads" in objects.hidden:
        return None
    rows = []
    for _, each in sorted(objects.workloads.items()):
        queue = objects.cluster_queue_of(each)
        standing = view_standing(each, None, cluster_queue=queue, team="")
        status = standing.status(None, None, standing.why)
        rows.append({"metadata": standing.metadata(), "status": status})
    return rows
