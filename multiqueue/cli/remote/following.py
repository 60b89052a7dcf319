"""Follows a job from cluster to cluster: its Workload here, and its pods or events there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.errors import CliError
from multiqueue.cli.job_names import decode_workload
from multiqueue.cli.remote.places import JobPlace, JobPlaces
from multiqueue.jobs.belongings import Json
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Conflict, Forbidden, Gone, KubeError, NotFound
from multiqueue.kube.resources import WORKLOADS
from multiqueue.kube.retries import FOLLOWED, RetryPolicy
from multiqueue.views.phase import AT_WORK, ENDED, Phase, find_phase

BACKLOG = 1000
"""How many changes may wait to be shown; above it, the clusters' streams pause."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenChange:
    """A change of the Workload, or of an object at a place.

    Attributes:
        workload: The Workload's newest state; None: it is deleted.
        place: The place of the pods; None while there is none, and for objects without a place.
        obj: A pod or an event; None if the Workload changed.
        deleted: Whether the object is deleted.
    """

    workload: Workload | None = None
    place: JobPlace | None = None
    obj: Json | None = None
    deleted: bool = False


class Follower:
    """Follows one job.

    Args:
        client: The manager's client.
        workload: The job's Workload.
        places: Finds the place of the job's pods.
        tell: Gets lines for people about what happens to the job.
        retries: When a cluster is asked again.
    """

    def __init__(
        self,
        client: KubeClient,
        workload: Workload,
        places: JobPlaces,
        tell: Tell,
        *,
        retries: RetryPolicy = FOLLOWED,
    ) -> None:
        self.workload: Workload | None = workload
        self._client = client
        self._namespace, self._name = workload.metadata.namespace, workload.metadata.name
        self._places = places
        self._tell = tell
        self._retries = retries
        self._queue: asyncio.Queue[SeenChange | BaseException] = asyncio.Queue(BACKLOG)
        self._place: JobPlace | None = None
        self._watch: asyncio.Task[None] | None = None
        self._told = ""
        self._here = False

    @property
    def phase(self) -> Phase | None:
        """The job's phase; None: it is deleted."""
        return find_phase(self.workload) if self.workload is not None else None

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, or is deleted."""
        phase = self.phase
        return phase is None or phase.state in ENDED

    def is_at(self, place: JobPlace) -> bool:
        """Whether the pods are still at a place."""
        return self._place is place

    async def follow(self, what: str, *, here: bool = False) -> AsyncGenerator[SeenChange, None]:
        """Yield changes of ``pods`` or ``events`` until the job is over and no change is left.

        Args:
            what: ``pods`` or ``events``.
            here: Whether to include those of the user's cluster, wherever the job is.

        Raises:
            CliError: the job cannot be followed.
        """
        assert self.workload is not None, "it is followed once"
        tasks = [asyncio.create_task(self._reporting(self._follow_workload()))]
        self._here = here
        if here:
            own = self._follow_place(self._places.here(self.workload), what)
            tasks.append(asyncio.create_task(self._reporting(own)))
        try:
            while True:
                seen = await self._queue.get()
                if isinstance(seen, BaseException):
                    raise seen
                if seen.obj is None:
                    self.workload = seen.workload
                    await self._go_along(what)
                yield seen
                if self.is_over and self._queue.empty():
                    return
        finally:
            tasks += [self._watch] if self._watch is not None else []
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _go_along(self, what: str) -> None:
        """Watch the cluster that has the pods now; report where the job went."""
        phase = self.phase
        if phase is None:
            self._say("the job is gone")
            return
        workload = self.workload
        assert workload is not None
        is_placed = phase.state in AT_WORK | ENDED
        self._say(phase.words + (f": {phase.why}" if phase.why and not is_placed else ""))
        if not is_placed:
            # The old watch continues, as the next place may be the same one.
            self._place = None
            return
        if self._place is not None and self._place.cluster == phase.worker:
            return
        if self._here and not phase.worker:
            return  # this cluster is followed anyway
        if self._watch is not None:
            self._watch.cancel()
        self._place = await self._places.find(workload)
        watch = self._follow_place(self._place, what)
        self._watch = asyncio.create_task(self._reporting(watch))

    def _say(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._tell(text)

    async def _reporting(self, work: Coroutine[Any, Any, None]) -> None:
        """Pass an error of a task to the reader of the changes."""
        try:
            await work
        except (CliError, KubeError) as error:
            await self._queue.put(error)

    async def _follow_workload(self) -> None:
        selector = f"metadata.name={self._name}"
        pauses = self._retries.pauses()
        while True:
            try:
                listed = await self._client.list(
                    WORKLOADS,
                    namespace=self._namespace,
                    field_selector=selector,
                    decode=decode_workload,
                )
                await self._queue.put(SeenChange(workload=next(iter(listed.items), None)))
                pauses.reset()
                events = self._client.watch(
                    WORKLOADS,
                    namespace=self._namespace,
                    field_selector=selector,
                    resource_version=listed.resource_version,
                )
                async with aclosing(events):
                    async for event in events:
                        if event.type == "BOOKMARK":
                            continue
                        gone = event.type == "DELETED"
                        workload = None if gone else decode_workload(event.raw)
                        await self._queue.put(SeenChange(workload=workload))
            except Gone:
                continue
            except KubeError as error:
                if not error.retryable:
                    raise
                self._say(f"the manager does not answer, trying again: {error}")
                await asyncio.sleep(pauses.next())

    async def _follow_place(self, place: JobPlace, what: str) -> None:
        known: dict[str, str] = {}
        pauses = self._retries.pauses()
        while True:
            try:
                async with aclosing(place.watch(what)) as changes:
                    async for type_, obj in changes:
                        pauses.reset()
                        metadata = obj["metadata"]
                        version = metadata["resourceVersion"]
                        if type_ != "DELETED" and known.get(metadata["uid"]) == version:
                            continue  # a new watch repeats the objects that were shown before
                        known[metadata["uid"]] = version
                        await self._queue.put(
                            SeenChange(place=place, obj=obj, deleted=type_ == "DELETED")
                        )
            except (NotFound, Conflict, Gone):
                pass  # not there yet, or not any more: the Workload's change will show which
            except Forbidden as error:
                raise CliError(f"not allowed: {error.server_message}") from error
            except KubeError as error:
                self._say(
                    f"{place.cluster or 'the cluster'} does not answer, trying again: {error}"
                )
                await asyncio.sleep(pauses.next())
            await asyncio.sleep(self._retries.first)
