"""What can be done from the page, with the credentials of its reader.

The browser names an object and an action of `page_actions`. The change is made here, so a page can
never send another one. It is made for the object that the reader saw, in the state that the reader
saw: if either differs by now, the answer is 409. Parity: S-9, S-38, S-39.

Deviates: S-39 makes the change depend on the ``resourceVersion`` that the reader saw. The status of
a busy queue changes every second. So the reader's ``uid`` and state are compared instead, and the
``resourceVersion`` is that of this comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.dashboard.page_actions import (
    ActionKind,
    PageAction,
    find_action,
    read_target,
)
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Conflict, Forbidden, NotFound
from multiqueue.kube.resources import (
    LOCAL_QUEUES,
    SELF_SUBJECT_ACCESS_REVIEWS,
    WORKLOADS,
    Resource,
)
from multiqueue.views.stops import say_stops, sum_stops

FIELD_MANAGER = "multiqueue-dashboard"
TRIES = 3
"""Changes of an object's status between reading and patching that are borne."""

Json = dict[str, Any]


class ChangedMeanwhileError(Exception):
    """The object is not as the reader saw it; the message says how it is."""


class PageActions:
    """Describes and takes actions.

    Args:
        client: A client with the reader's credentials.
        now: The time of day.
    """

    def __init__(self, client: KubeClient, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now

    async def describe(self, query: Mapping[str, str]) -> Json:
        """Return what the reader can do with an object; with ``verb``, also what would happen.

        Shape: ``{"uid", "state", "actions": [{"verb", "title", "stops"}], "words"}``. ``actions``
        is empty if the object is gone, or the reader has no right to read or to patch it.

        Raises:
            UnknownActionError: The query names no kind or verb of the table.
            KubeError: The object cannot be read.
        """
        kind, namespace, name = read_target(query)
        try:
            obj = await self._client.get(kind.resource, name, namespace=namespace or None)
        except (Forbidden, NotFound):
            if "verb" in query:
                raise
            return {"actions": []}
        state = kind.find_state(obj)
        can = state is not None and await self._may_patch(kind.resource, namespace, name)
        offered = [each for each in kind.actions if can and each.is_offered(state)]
        described: Json = {
            "uid": obj["metadata"]["uid"],
            "state": state,
            "actions": [
                {"verb": each.verb, "title": each.title, "stops": each.stops} for each in offered
            ],
        }
        if "verb" in query:
            action = find_action(kind, query["verb"])
            described["words"] = await self._say(kind, action, obj)
        return described

    async def act(self, asked: Mapping[str, Any]) -> Json:
        """Take an action on the object that the reader saw, and return its new state.

        Args:
            asked: ``kind``, ``namespace``, ``name`` and ``verb``; ``uid`` and ``state`` as
                `describe` returned them.

        Raises:
            UnknownActionError: Something of it is missing, or not in the table.
            ChangedMeanwhileError: The object is another one, or in another state.
            KubeError: The API server refuses it.
        """
        kind, namespace, name = read_target(asked)
        action = find_action(kind, asked.get("verb"))
        for number in range(1, TRIES + 1):
            obj = await self._client.get(kind.resource, name, namespace=namespace or None)
            state = kind.find_state(obj)
            if obj["metadata"]["uid"] != asked.get("uid"):
                raise ChangedMeanwhileError(
                    f'{kind.resource.kind} "{name}" was deleted and made again meanwhile'
                )
            if state != asked.get("state"):
                raise ChangedMeanwhileError(
                    f'{kind.resource.kind} "{name}" has changed meanwhile: it was '
                    f'"{asked.get("state")}" and is "{state or "finished"}" now'
                )
            try:
                await self._patch(kind.resource, namespace, obj, action)
            except Conflict:
                if number == TRIES:
                    raise
            else:
                break
        return {"state": action.leads_to}

    async def _patch(
        self, resource: Resource, namespace: str, obj: Json, action: PageAction
    ) -> None:
        seen = {name: obj["metadata"][name] for name in ("uid", "resourceVersion")}
        patch = {**action.patch, "metadata": {**action.patch.get("metadata", {}), **seen}}
        await self._client.patch(
            resource,
            obj["metadata"]["name"],
            patch,
            namespace=namespace or None,
            field_manager=FIELD_MANAGER,
        )

    async def _may_patch(self, resource: Resource, namespace: str, name: str) -> bool:
        """Ask the API server; a button without the right is not shown."""
        wanted = {
            "verb": "patch",
            "group": resource.group,
            "resource": resource.plural,
            "name": name,
            "namespace": namespace,
        }
        review = {
            "apiVersion": SELF_SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SELF_SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": wanted},
        }
        answer = await self._client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
        return bool(answer["status"]["allowed"])

    async def _say(self, kind: ActionKind, action: PageAction, obj: Json) -> str:
        if not action.stops:
            return action.words
        try:
            workloads = await self._list_stopped(kind, obj)
        except Forbidden as error:
            return f"{action.words} How many that are is not known: {error.server_message}."
        return f"{action.words} Now: {say_stops(sum_stops(workloads, self._now()))}."

    async def _list_stopped(self, kind: ActionKind, obj: Json) -> list[Workload]:
        metadata = obj["metadata"]
        if kind.resource is WORKLOADS:
            return [decode(Workload, obj)]
        listed = await self._client.list(
            WORKLOADS, namespace=metadata.get("namespace"), decode=partial(decode, Workload)
        )
        if kind.resource is LOCAL_QUEUES:
            return [each for each in listed.items if each.spec.queue_name == metadata["name"]]
        return [
            each
            for each in listed.items
            if each.status.admission is not None
            and each.status.admission.cluster_queue == metadata["name"]
        ]
