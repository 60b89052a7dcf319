"""What can be done from the page, with the credentials of its reader.

The browser names an object and an action of `page_actions`. The change is made here, so a page can
never send another one. It is made for the object that the reader saw, in the state that the reader
saw: if either differs by now, the answer is 409. Parity: S-9, S-38, S-39.

Deviates: S-39 makes the change depend on the ``resourceVersion`` that the reader saw. The status of
a busy queue changes every second. So the reader's ``uid`` and state are compared instead, and the
``resourceVersion`` is that of this comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from multiqueue.api.cluster_orders import DrainOrder
from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import JobKind
from multiqueue.api.v1beta2 import Workload, WorkloadPriorityClass
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.dashboard.action_writer import EVICTION_SECONDS, ActionWriter
from multiqueue.dashboard.page_actions import (
    ActionKind,
    PageAction,
    UnknownActionError,
    find_action,
    read_target,
)
from multiqueue.drain.plan import build_plan
from multiqueue.drain.plan_reading import read_surroundings
from multiqueue.jobs.reading import learn_job_kinds
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, Conflict, Forbidden, NotFound
from multiqueue.kube.job_objects import JobObject
from multiqueue.kube.resources import (
    JOB_KINDS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from multiqueue.views.stops import say_stops, sum_stops

TRIES = 3
"""Changes of an object's status between reading and patching that are borne."""
MAX_MOVES = 200
"""Jobs whose fate a question tells one by one."""

Json = dict[str, Any]


class ChangedMeanwhileError(Exception):
    """The object is not as the reader saw it; the message says how it is."""


class PageActions:
    """Describes and takes actions.

    Args:
        client: A client with the reader's credentials.
        now: The time of day.
        fleets: Is held while the Workloads of a fleet are read.
        system_namespace: The manager's namespace, with the kubeconfigs of the workers.
    """

    def __init__(
        self,
        client: KubeClient,
        now: Callable[[], datetime],
        fleets: asyncio.Semaphore,
        system_namespace: str,
    ) -> None:
        self._client = client
        self._writer = ActionWriter(client)
        self._now = now
        self._fleets = fleets
        self._system_namespace = system_namespace

    async def describe(self, query: Mapping[str, str]) -> Json:
        """Return what the reader can do with an object; with ``verb``, also what would happen.

        Shape: ``{"uid", "state", "actions": [{"verb", "title", "stops"}], "words", "choices",
        "whatIf", "plan"}``.
        ``actions`` is empty if the object is gone, or the reader has no right to read or to change
        it. ``choices`` are the WorkloadPriorityClasses ``{"name", "value"}`` of an action that
        wants one, ``whatIf`` is a change that the page What if can try before. ``plan`` is the
        forecast of a drain as ``multiqueue clusters drain --dry-run -o json`` prints it, with at
        most `MAX_MOVES` Workloads and the count of the ``more`` others.

        Raises:
            UnknownActionError: The query names no kind or verb of the table.
            KubeError: The object cannot be read, or what the verb would do is not told because it
                is not offered: `Forbidden` if the reader lacks a right, else `Conflict`.
        """
        kind, namespace, name = read_target(query)
        try:
            obj = await self._client.get(kind.resource, name, namespace=namespace or None)
        except (Forbidden, NotFound):
            if "verb" in query:
                raise
            return {"actions": []}
        state = kind.find_state(obj)
        offered = await self._list_offered(kind, obj, state)
        described: Json = {
            "uid": obj["metadata"]["uid"],
            "state": state,
            "actions": [
                {"verb": each.verb, "title": each.title, "stops": each.stops} for each in offered
            ],
        }
        if "verb" in query:
            action = find_action(kind, query["verb"])
            if action not in offered:
                raise _refuse(kind, action, obj, state)
            if action.drains:
                described |= await self._foresee_drain(action, name)
                described["whatIf"] = f"drain {name}"
            else:
                described["words"] = await self._say(kind, action, obj)
            if action.wants_class:
                classes = sorted(
                    await self._list_classes(), key=lambda c: (-c.value, c.metadata.name)
                )
                described["choices"] = [
                    {"name": each.metadata.name, "value": each.value} for each in classes
                ]
        return described

    async def _list_offered(
        self, kind: ActionKind, obj: Json, state: str | None
    ) -> list[PageAction]:
        """Return what changes the object, and the reader may write."""
        if state is None:
            return []
        await self._learn_kinds(obj)
        writes = {
            action.verb: action.list_writes(kind.resource, obj)
            for action in kind.actions
            if action.is_offered(state)
        }
        # A pod group has hundreds of pods: the first of each resource stands for all.
        wanted: dict[tuple[str, Resource], JobObject] = {}
        for write in chain.from_iterable(writes.values()):
            wanted.setdefault((write.verb, write.target.resource), write.target)
        may = await asyncio.gather(
            *(self._writer.may(verb, target) for (verb, _), target in wanted.items())
        )
        allowed = dict(zip(wanted, may, strict=True))
        return [
            action
            for action in kind.actions
            if (found := writes.get(action.verb))
            and all(allowed[each.verb, each.target.resource] for each in found)
        ]

    async def act(self, asked: Mapping[str, Any]) -> Json:
        """Take an action on the object that the reader saw, and return its new state.

        Args:
            asked: ``kind``, ``namespace``, ``name`` and ``verb``; ``uid`` and ``state`` as
                `describe` returned them; ``choice``: the name of one of its choices.

        Raises:
            UnknownActionError: Something of it is missing, or not in the table.
            ChangedMeanwhileError: The object is another one, or in another state.
            KubeError: The API server refuses it.
        """
        kind, namespace, name = read_target(asked)
        action = find_action(kind, asked.get("verb"))
        chosen = await self._find_class(asked.get("choice")) if action.wants_class else None
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
            await self._learn_kinds(obj)
            writes = action.list_writes(kind.resource, obj, chosen)
            if not writes:
                raise ChangedMeanwhileError(
                    f'{kind.resource.kind} "{name}" has changed meanwhile: "{action.title}" does '
                    "nothing to it now"
                )
            try:
                for write in writes:
                    await self._writer.write(write, obj)
            except Conflict:
                if number == TRIES:
                    raise
            else:
                break
        if action.verb == "evict" and not await self._writer.resume_evicted(writes[0].target):
            raise ChangedMeanwhileError(
                f'Workload "{name}" was not seen to be evicted within {EVICTION_SECONDS:g} s, and '
                "is resumed: it ended meanwhile, or no manager acts"
            )
        return {"state": action.leads_to or state}

    async def _learn_kinds(self, obj: Json) -> None:
        """Know the kind of a job that only a JobKind declares, for the rest of this request."""
        owners = obj["metadata"].get("ownerReferences") or ()
        if not all(find_job_kind(each["apiVersion"], each["kind"]) for each in owners):
            await self._learn_all_kinds()

    async def _learn_all_kinds(self) -> None:
        with suppress(Forbidden, NotFound):
            listed = await self._client.list(JOB_KINDS, decode=partial(decode, JobKind))
            learn_job_kinds(listed.items)

    async def _list_classes(self) -> list[WorkloadPriorityClass]:
        listed = await self._client.list(
            WORKLOAD_PRIORITY_CLASSES, decode=partial(decode, WorkloadPriorityClass)
        )
        return list(listed.items)

    async def _find_class(self, name: object) -> WorkloadPriorityClass:
        known = {each.metadata.name: each for each in await self._list_classes()}
        if not isinstance(name, str) or name not in known:
            raise UnknownActionError(
                f"choice: choose from {', '.join(sorted(known)) or 'no WorkloadPriorityClass'}"
            )
        return known[name]

    async def _say(self, kind: ActionKind, action: PageAction, obj: Json) -> str:
        if action.wants_class:
            return f"{action.words} {_say_priority(decode(Workload, obj))}"
        if not action.stops:
            return action.words
        try:
            async with self._fleets:
                workloads = await self._list_stopped(kind, obj)
        except Forbidden as error:
            return f"{action.words} How many that are is not known: {error.server_message}."
        return f"{action.words} Now: {say_stops(sum_stops(workloads, self._now()))}."

    async def _foresee_drain(self, action: PageAction, worker: str) -> Json:
        """Return ``words`` and ``plan``: who moves where, who stays and why, and what is lost."""
        now = self._now()
        await self._learn_all_kinds()
        try:
            async with self._fleets:
                around = await read_surroundings(
                    self._client, worker, system_namespace=self._system_namespace, now=now
                )
                plan = await build_plan(worker, around, DrainOrder(), now)
        except Forbidden as error:
            return {"words": f"{action.words} Which jobs is not known: {error.server_message}."}
        told = plan.to_dict()
        shown = told["workloads"][:MAX_MOVES]
        more = len(told["workloads"]) - len(shown)
        words = " ".join((action.words, *plan.sentences()))
        return {"words": words, "plan": {**told, "workloads": shown, "more": more}}

    async def _list_stopped(self, kind: ActionKind, obj: Json) -> list[Workload]:
        """Return the Workloads with quota that would stop, at once or one after the other."""
        metadata = obj["metadata"]
        if kind.resource is WORKLOADS:
            return [decode(Workload, obj)]
        listed = await self._client.list(
            WORKLOADS, namespace=metadata.get("namespace"), decode=partial(decode, Workload)
        )
        holders = [
            each for each in listed.items if has_quota(each.status) and not is_finished(each.status)
        ]
        name = metadata["name"]
        if kind.resource is LOCAL_QUEUES:
            return [each for each in holders if each.spec.queue_name == name]
        return [
            each
            for each in holders
            if each.status.admission is not None and each.status.admission.cluster_queue == name
        ]


def _refuse(kind: ActionKind, action: PageAction, obj: Json, state: str | None) -> ApiError:
    """Return why an action is not offered: it would change nothing, or a right is missing."""
    asked = f'{kind.resource.kind} "{obj["metadata"]["name"]}": "{action.title}"'
    if state is None or not action.is_offered(state) or not action.list_writes(kind.resource, obj):
        words = f'{asked} does nothing to it now: it is "{state or "finished"}"'
        return Conflict(409, reason="Conflict", message=words)
    words = f"{asked} is only for those who may write what it changes; ask for the right"
    return Forbidden(403, reason="Forbidden", message=words)


def _say_priority(workload: Workload) -> str:
    reference = workload.spec.priority_class_ref
    of = f" (class {reference.name})" if reference is not None else ""
    return f"Now: priority {workload.spec.priority or 0}{of}."
