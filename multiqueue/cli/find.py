"""Finds the Workload that a user means, by its own name or by the name of its job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.api.job_kinds import KnownKind, known_kinds
from multiqueue.api.names import QUEUE_NAME
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_finished
from multiqueue.cli.declared_kinds import learn_kinds, note_unknown
from multiqueue.cli.errors import CliError
from multiqueue.cli.job_names import WAIT_SECONDS, decode_workload, find_current
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import EVENTS, WORKLOADS, resource_of

IN_NO_QUEUE = (
    f"is in no queue: it has no label {QUEUE_NAME}; delete it, and submit it with the label or "
    "with `multiqueue submit --queue LOCALQUEUE`"
)


async def find_workload(
    client: KubeClient, namespace: str, name: str, *, wait_seconds: float = WAIT_SECONDS
) -> Workload:
    """Return the Workload called ``name``, or the newest one of the job with that name.

    Args:
        client: The cluster's client.
        namespace: The namespace, unless the name contains one.
        name: ``NAME``, ``KIND/NAME`` or ``NAMESPACE/NAME``.
        wait_seconds: How long to wait for the Workload of a job that has just taken over the name
            of another job.

    Raises:
        CliError: there is no such Workload.
    """
    await learn_kinds(client)
    kind, _, bare = name.rpartition("/")
    listed = await client.list(WORKLOADS, namespace=namespace, decode=decode_workload)
    found = pick_workload(listed.items, kind, bare)
    if found is None and kind:
        try:
            there = await client.list(WORKLOADS, namespace=kind, decode=decode_workload)
        except NotFound:
            there = None
        found = pick_workload(there.items, "", bare) if there else None
    if found is not None and found.metadata.name != bare:
        found = await find_current(client, found, bare, wait_seconds=wait_seconds)
    if found is None:
        note_unknown([("", kind)])
        told = await _explain_absence(client, namespace, kind.lower(), bare)
        raise CliError(
            told
            or f'no Workload or job "{name}" in namespace "{namespace}"; -n names another '
            "namespace, and `multiqueue workloads list -A` shows all Workloads"
        )
    note_unknown((o.api_version, o.kind) for o in found.metadata.owner_references)
    return found


async def _explain_absence(client: KubeClient, namespace: str, kind: str, name: str) -> str:
    """Return why a job has no Workload; empty if there is no such job."""
    rows = known_kinds()
    named = [row for row in rows if kind in {row.kind.lower(), row.plural}]
    if kind and not named:
        namespace = kind  # NAMESPACE/NAME
    for row in named or rows:
        if told := await _explain_job(row, client, namespace, name):
            return told
    return ""


async def _explain_job(row: KnownKind, client: KubeClient, namespace: str, name: str) -> str:
    """Return why a job has no Workload; empty if there is no such job."""
    from multiqueue.api.validation.unqueued import find_unqueued

    resource = resource_of(row.api_version, row.plural, row.kind)
    try:
        obj = await client.get(resource, name, namespace=namespace)
    except (Forbidden, NotFound):
        return ""
    title = f'{row.kind} "{namespace}/{name}"'
    found = find_unqueued({**obj, "apiVersion": resource.api_version, "kind": row.kind})
    if found is not None:
        return f"{title}: {found.what}; {found.todo}"
    queue = (obj["metadata"].get("labels") or {}).get(QUEUE_NAME)
    if not queue:
        return f"{title} {IN_NO_QUEUE}"
    why = await explain_unseen(client, namespace, queue, obj["metadata"]["uid"])
    return f"{title} has no Workload: {why}"


async def explain_unseen(client: KubeClient, namespace: str, queue: str, uid: str) -> str:
    """Return why a job with a queue name has no Workload: its last warning, or what is likely."""
    from multiqueue.cli.visibility import read_local_queue

    with contextlib.suppress(Forbidden):
        listed = await client.list(EVENTS, namespace=namespace)
        if warning := last_warning(listed.items, uid):
            return warning
    if (await read_local_queue(client, namespace, queue)).problem:
        return "no manager has looked at it; does one run?"
    return (
        "a manager runs and has not queued it; in its configuration, integrations.frameworks must "
        "list the kind, and managedJobsNamespaceSelector must select the namespace"
    )


def last_warning(events: Iterable[Mapping[str, Any]], uid: str) -> str:
    """Return reason and message of the newest warning about an object, or an empty string."""
    about = [
        event
        for event in events
        if event.get("type") == "Warning" and event["involvedObject"].get("uid") == uid
    ]
    newest = max(about, key=_event_time, default=None)
    return f"{newest.get('reason')}: {newest.get('message')}" if newest else ""


def _event_time(event: Mapping[str, Any]) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"))
    time: str = next(filter(None, times), event["metadata"]["creationTimestamp"])
    return time


def pick_workload(workloads: list[Workload], kind: str, name: str) -> Workload | None:
    """Return the Workload of that name, or the one of the job of that kind and name."""
    by_name = [w for w in workloads if w.metadata.name == name]
    if by_name and kind.lower() in {"", "workload", "wl"}:
        return by_name[0]
    owned = [
        w
        for w in workloads
        if any(
            owner.name == name
            and kind.lower() in {"", owner.kind.lower(), f"{owner.kind.lower()}s"}
            for owner in w.metadata.owner_references
        )
    ]
    # Of an elastic job's slices, take the unfinished one.
    return max(
        owned,
        key=lambda w: (not is_finished(w.status), w.metadata.creation_timestamp),
        default=None,
    )
