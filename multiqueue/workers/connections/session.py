"""One connected period with one worker: live copies of our objects there, and our writes.

Nothing of it is kept for the next session, which lists everything again. All work runs in separate
tasks with timeouts: a worker that hangs delays no other worker (M-51, I-7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import msgspec
import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AnswerTooLarge, Forbidden, KubeError
from multiqueue.kube.informer import Informer
from multiqueue.kube.store import identify
from multiqueue.workers.connections.informers import (
    BY_WORKLOAD,
    WorkerInformers,
    list_workload_keys,
)
from multiqueue.workers.owner import ManagerIdentity

T = TypeVar("T")
P = TypeVar("P", bound="SessionPart")
Json = dict[str, Any]

REMOVE = "remove"
"""Work that deletes copies and jobs; see `WorkerSession.submit`."""
CREATE_JOB = "job"
"""Work that creates a job."""

log = structlog.get_logger("multiqueue.dispatch")


class SessionPart(Protocol):
    """State that another package keeps about a connected worker while the session lasts."""

    def take_over(self, old: Self) -> None:
        """Take over what the part of an earlier session to the same worker knows."""
        ...


class WorkerSession:
    """The operations on a connected worker.

    Attributes:
        client: The worker's client.
        informers: The worker's informers.
        owner: The identity that tells our objects from those of others.
    """

    def __init__(
        self,
        client: KubeClient,
        informers: WorkerInformers,
        adapters: Collection[MultiKueueAdapter],
        tasks: asyncio.TaskGroup,
        owner: ManagerIdentity,
    ) -> None:
        self.client = client
        self.informers = informers
        self.owner = owner
        self._parts: dict[type[SessionPart], SessionPart] = {}
        self._adapters = adapters
        self._tasks = tasks
        self._deleted: dict[str, str] = {}
        self._changed_at: dict[str, float] = {}
        self._in_flight: dict[tuple[str, str], asyncio.Future[Any]] = {}
        self._creating = 0
        self._closing = False
        self._blind_since: dict[GroupVersionKind, float] = {}
        self._followers: dict[GroupVersionKind, asyncio.Task[None]] = {}

    def add_part(self, part: SessionPart) -> None:
        """Add a part, which `find_part` finds by its class; call this before anything is listed."""
        self._parts[type(part)] = part

    def find_part(self, kind: type[P]) -> P | None:
        """Return the part of a class; None if nobody added one."""
        found = self._parts.get(kind)
        return found if isinstance(found, kind) else None

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run this until the session ends; if it fails, the session ends."""
        self._tasks.create_task(work, name=name)

    def serves(self, kind: GroupVersionKind) -> bool:
        """Whether the worker serves a job kind, as far as is known."""
        informer = self.informers.jobs.get(kind)
        return informer is not None and informer.available

    def knows_jobs(self, kind: GroupVersionKind) -> bool:
        """Whether the jobs of a kind are known and current."""
        informer = self.informers.jobs.get(kind)
        return informer is not None and informer.available and informer.synced.is_set()

    def hides(self, kind: GroupVersionKind) -> bool:
        """Whether the worker forbids listing jobs of a kind, instead of failing to list them."""
        informer = self.informers.jobs.get(kind)
        return (
            informer is None or not informer.available or isinstance(informer.last_error, Forbidden)
        )

    def blind_for(self, kind: GroupVersionKind) -> float | None:
        """Seconds since jobs of a kind could last be seen here; None while they can."""
        if self.knows_jobs(kind):
            return None
        now = asyncio.get_running_loop().time()
        return now - self._blind_since.get(kind, now)

    @property
    def excesses(self) -> list[str]:
        """Which answers of the worker exceed the size limits, in words."""
        errors = (informer.last_error for informer in self.informers.all)
        return [str(error) for error in errors if isinstance(error, AnswerTooLarge)]

    def watch_sight(self) -> None:
        """Record from now on since when jobs of each kind cannot be seen."""
        self._blind_since = dict.fromkeys(self.informers.jobs, asyncio.get_running_loop().time())
        for kind, informer in self.informers.jobs.items():
            informer.add_listener(partial(self._note_sight, kind))

    def follow_jobs(self, kind: GroupVersionKind, informer: Informer[Json]) -> None:
        """Follow jobs of one more kind from now on; add the handlers of the informer before."""
        if self._closing:
            return
        self.informers.jobs[kind] = informer
        self._blind_since[kind] = asyncio.get_running_loop().time()
        informer.add_listener(partial(self._note_sight, kind))
        name = f"worker {informer.resource.plural}"
        self._followers[kind] = self._tasks.create_task(informer.run(), name=name)

    def forget_jobs(self, kind: GroupVersionKind) -> None:
        """Do not follow jobs of a kind any more."""
        self.informers.jobs.pop(kind, None)
        self._blind_since.pop(kind, None)
        follower = self._followers.pop(kind, None)
        if follower is not None:
            follower.cancel()

    def _note_sight(self, kind: GroupVersionKind, _: Informer[Json]) -> None:
        if self.knows_jobs(kind):
            self._blind_since.pop(kind, None)
        else:
            self._blind_since.setdefault(kind, asyncio.get_running_loop().time())

    def find_copy(self, key: str) -> api.Workload | None:
        """Return our copy of a Workload; a copy that we delete counts as being deleted at once.

        A removal may take long, and may delete a copy that meanwhile looks like a winner.
        """
        found = self.read_copy(key)
        deleted = self._deleted.get(key)
        if deleted is not None and (found is None or found.metadata.uid != deleted):
            del self._deleted[key]
        if found is None:
            return None
        is_going = found.metadata.uid == deleted or (REMOVE, key) in self._in_flight
        return _going(found) if is_going else found

    def read_copy(self, key: str) -> api.Workload | None:
        """Return our copy of a Workload as the watch last showed it."""
        found = self.informers.workloads.store.get(key)
        return found if found is not None and self.owner.owns(found) else None

    def note_deleted(self, copy: api.Workload) -> None:
        """Record that we deleted a copy, which the watch will show later.

        Until then the copy must not win: it looks admitted, and is gone.
        """
        self._deleted[copy.metadata.key] = copy.metadata.uid

    def find_jobs(self, key: str) -> Iterator[tuple[GroupVersionKind, Json]]:
        """Yield our jobs there that belong to a Workload."""
        for kind, informer in self.informers.jobs.items():
            for job in informer.store.by_index(BY_WORKLOAD, key):
                if self.owner.owns_job(job):
                    yield kind, job

    def find_job(self, key: str) -> tuple[GroupVersionKind, Json] | None:
        """Return our job there that belongs to a Workload, made of all its objects."""
        found = list(self.find_jobs(key))
        if not found:
            return None
        kind = found[0][0]
        adapter = next((each for each in self._adapters if each.gvk == kind), None)
        objects = [job for each, job in found if each == kind]
        return kind, adapter.gather(objects) if adapter is not None else objects[0]

    def list_jobs(self, adapter: MultiKueueAdapter) -> list[Json]:
        """Return all our jobs of a kind."""
        informer = self.informers.jobs.get(adapter.gvk)
        jobs = informer.store.list() if informer is not None else ()
        return [job for job in jobs if self.owner.owns_job(job)]

    @property
    def copy_keys(self) -> list[str]:
        """Keys of all our copies."""
        store = self.informers.workloads.store
        return [copy.metadata.key for copy in store.list() if self.owner.owns(copy)]

    @property
    def twins(self) -> set[str]:
        """Stamps of other managers with our origin that have objects there."""
        found = {self.owner.find_twin(copy) for copy in self.informers.workloads.store.list()}
        for informer in self.informers.jobs.values():
            found.update(map(self.owner.find_job_twin, informer.store.list()))
        return found - {""}

    def note_change(self, key: str) -> None:
        """Record that the job of a Workload changed there."""
        self._changed_at.setdefault(key, asyncio.get_running_loop().time())

    def take_lag(self, key: str) -> float | None:
        """Return the seconds since its job changed there, and forget the change."""
        changed_at = self._changed_at.pop(key, None)
        return None if changed_at is None else asyncio.get_running_loop().time() - changed_at

    @property
    def keys(self) -> set[str]:
        """Keys of all Workloads with objects of ours there."""
        found = set(self.copy_keys)
        for adapter in self._adapters:
            for job in self.list_jobs(adapter):
                found.update(list_workload_keys(adapter, job))
        return found

    @property
    def job_count(self) -> int:
        """How many jobs with our origin are there or are being created.

        Cost: none, because every reconcile asks.
        """
        there = sum(len(informer.store) for informer in self.informers.jobs.values())
        return there + self._creating

    @property
    def is_empty(self) -> bool:
        """Whether no object of ours is there."""
        return not self.copy_keys and not any(map(self.list_jobs, self._adapters))

    def is_doing(self, what: str, key: str) -> bool:
        """Whether this work is in progress there."""
        return (what, key) in self._in_flight

    def submit(
        self, what: str, key: str, work: Callable[[], Awaitable[T]]
    ) -> asyncio.Future[T | KubeError]:
        """Do work on the worker in a task of its own; the same work only once at a time.

        The future gives the result of the work, or the `KubeError` that it raised. It is cancelled
        when the session ends; at once if the session is about to end.
        """
        slot = (what, key)
        known = self._in_flight.get(slot)
        if known is not None:
            return known
        future: asyncio.Future[T | KubeError] = asyncio.get_running_loop().create_future()
        if self._closing:
            future.cancel()
            return future
        task = self._tasks.create_task(self._work(slot, work, future), name=f"{what} {key}")
        self._in_flight[slot] = future
        self._creating += what == CREATE_JOB
        # Not in the task itself: a task that is cancelled before it begins would never do it.
        task.add_done_callback(lambda _: self._release(slot, future))
        return future

    def close(self) -> None:
        """Take no more work; work in progress is about to be cancelled."""
        self._closing = True

    async def finish(self, seconds: float) -> None:
        """Take no more work, and wait at most this long for work in progress."""
        self._closing = True
        if self._in_flight:
            await asyncio.wait(set(self._in_flight.values()), timeout=seconds)

    def take_over(self, old: WorkerSession) -> set[str]:
        """Know at least what an earlier session to the same worker knows.

        A list may be older than what the other session's watch has shown since. Going back in time
        would look as if a worker had withdrawn a change.

        Returns:
            Keys of the Workloads that look different in the two sessions.
        """
        changed = self._differing_keys(old) | old._differing_keys(self)
        _observe_all(self.informers.workloads, old.informers.workloads)
        for kind, informer in self.informers.jobs.items():
            if kind in old.informers.jobs:
                _observe_all(informer, old.informers.jobs[kind])
        for type_, part in self._parts.items():
            if type_ in old._parts:
                part.take_over(old._parts[type_])
        return changed

    def _differing_keys(self, other: WorkerSession) -> set[str]:
        """Return the keys of objects that the other session does not know in our state."""
        found = {
            copy.metadata.key
            for copy in _unknown_to(other.informers.workloads, self.informers.workloads)
        }
        for adapter in self._adapters:
            known = other.informers.jobs.get(adapter.gvk)
            mine = self.informers.jobs.get(adapter.gvk)
            if known is not None and mine is not None:
                for job in _unknown_to(known, mine):
                    found.update(list_workload_keys(adapter, job))
        return found

    async def _work(
        self,
        slot: tuple[str, str],
        work: Callable[[], Awaitable[T]],
        future: asyncio.Future[T | KubeError],
    ) -> None:
        try:
            result: T | KubeError = await work()
        except KubeError as error:
            result = error
        except Exception:  # a bug; the future is cancelled, because there is no result
            log.exception("work on a worker failed", what=slot[0], workload=slot[1])
            return
        # First, because the code that waits for the result may want the same work again.
        self._end(slot)
        if not future.done():
            future.set_result(result)

    def _release(self, slot: tuple[str, str], future: asyncio.Future[Any]) -> None:
        """Clean up after work that ended without a result."""
        if self._in_flight.get(slot) is future:
            self._end(slot)
        future.cancel()

    def _end(self, slot: tuple[str, str]) -> None:
        del self._in_flight[slot]
        self._creating -= slot[0] == CREATE_JOB


def _observe_all(new: Informer[Any], old: Informer[Any]) -> None:
    """Show one informer what another of the same collection knows; older states are ignored."""
    if new.synced.is_set():
        for obj in old.store.list():
            new.observe(obj)


def _unknown_to(informer: Informer[T], other: Informer[T]) -> Iterator[T]:
    """Yield the objects whose state in the other informer is unknown to this one."""
    for obj in other.store.list():
        meta = identify(obj)
        known = informer.store.get(meta.key)
        if known is None or identify(known) != meta:
            yield obj


def _going(copy: api.Workload) -> api.Workload:
    """Return a copy as it looks while it is being deleted."""
    metadata = copy.metadata
    if metadata.deletion_timestamp:
        return copy
    # The real time does not matter here, and only its server knows it.
    going = msgspec.structs.replace(metadata, deletion_timestamp=metadata.creation_timestamp or "0")
    return msgspec.structs.replace(copy, metadata=going)
