"""``list pods``: the pods of a job, wherever they are, filtered as the server would."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from multiqueue.cli.commands.pods import check_watched_form, print_pods, watch_pods
from multiqueue.cli.find import find_workload
from multiqueue.cli.kueuectl.lists import ListQuery, find_for_object
from multiqueue.cli.output import echo
from multiqueue.cli.remote.following import Follower
from multiqueue.cli.remote.places import JobPlaces
from multiqueue.cli.remote.standing import list_pods
from multiqueue.kube.client import KubeClient
from multiqueue.lib.selectors import parse_label_selector

Json = Mapping[str, Any]


async def list_pods_of(
    client: KubeClient, query: ListQuery, for_object: str, system_namespace: str
) -> None:
    """Print the pods of a job here and on its worker.

    Raises:
        UsageProblem: a selector is malformed.
        CliError: the job has no Workload, or no pods.
    """
    labels = parse_label_selector(query.selector)
    fields = _parse_fields(query.field_selector)
    if query.watch:
        check_watched_form(query.output)

    def is_wanted(pod: Json) -> bool:
        return labels.matches(pod["metadata"].get("labels") or {}) and all(
            (_field(pod, path) == value) is equal for path, value, equal in fields
        )

    owner = await find_for_object(client, for_object, query.namespace)
    if owner is None:
        query.say_none()
        return
    metadata = owner["metadata"]
    kind = owner["kind"].lower()
    async with AsyncExitStack() as stack:
        workload = await find_workload(client, metadata["namespace"], f"{kind}/{metadata['name']}")
        places = JobPlaces(client, stack, system_namespace=system_namespace)
        if query.watch:
            follower = Follower(client, workload, places, lambda text: echo(text, err=True))
            await watch_pods(follower, query.output, is_wanted)
            return
        _, pods = await list_pods(workload, places)
    found = list(filter(is_wanted, pods))
    if not found and query.output in {"human", "wide"}:
        query.say_none()
        return
    print_pods(for_object, found, query.output)


def _parse_fields(text: str) -> list[tuple[str, str, bool]]:
    """Return path, value and whether it must be equal, for each requirement."""
    fields = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        path, _, value = item.partition("=")
        fields.append((path.removesuffix("!"), value.removeprefix("="), not path.endswith("!")))
    return fields


def _field(obj: Any, path: str) -> str:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, Mapping) else None
    return "" if obj is None else str(obj)
