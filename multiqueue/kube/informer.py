"""A live local copy of a collection: list, watch, and start again after every failure.

One task per informer (`run`) writes the store and calls the handlers, synchronously and in the
order of the API server. Guarantees: a handler sees every object at least once and ends with the
newest state. After a gap (410, a restart of the server, a restore from a backup) it gets the
difference, deletions included.
Failures are retried with jittered backoff, never in a hot loop. A kind that is not served is
reported and retried slowly.

`observe` makes our own writes visible at once. States are ordered by resourceVersion, which is a
number in every API server that we know. So a late answer or event never replaces a newer state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar, cast

import orjson
import structlog

from multiqueue.kube.backoff import Backoff
from multiqueue.kube.client import PAGE_SIZE, KubeClient
from multiqueue.kube.errors import (
    AnswerTooLarge,
    ApiError,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    RequestTimeout,
    TooManyRequests,
    Unauthorized,
)
from multiqueue.kube.informer_state import InformerState
from multiqueue.kube.resources import Resource
from multiqueue.kube.sizes import MemoryBudget
from multiqueue.kube.store import Indexer, ObjectKeyAndVersion, Store, identify, parse_version
from multiqueue.kube.wire import BOOKMARK, WatchEvent, build_loader, describe

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]

RETRY_SECONDS = 0.2
MAX_RETRY_SECONDS = 30.0
HEALTHY_SECONDS = 5.0
"""A stream that lasted this long resets the count of failures; a shorter one is a failure."""
STUBBORN_FAILURES = 3
"""Refused watches in a row after which the informer lists again."""
UNAVAILABLE_SECONDS = 30.0
"""Pause between two attempts for a kind that the server does not know."""
EXPECTED = (Gone, TooManyRequests)
"""Errors that are part of the protocol: list again, or wait for the server to open a storage.

That a kind is not served is normal, too: its CRD may be installed later, or never.
"""
OPEN_SECONDS = 10.0
"""How long a watch may take to open; the server has almost nothing to do for it."""
YIELD_EVERY = 200
"""Listed objects that are handled before the event loop gets a turn: some milliseconds."""

log = structlog.get_logger(component="kube")


class Informer(Generic[T]):
    """Keeps a store in step with one collection.

    Args:
        client: The client of the cluster to follow.
        resource: The collection.
        namespace: Only this namespace.
        label_selector: Only objects with these labels.
        field_selector: Only objects with these fields.
        decode: Decodes the bytes of an object; to dicts by default. An object that cannot be
            decoded or indexed is logged and left out.
        indexers: Name of an index -> the values under which an object is found there.
        meta: Returns key and version of a decoded object.
        on_restart: Called with the reason whenever list or watch begin again.
        on_failed_object: Called whenever an object was left out, or a handler raised for it.
        max_bytes: Memory that all objects together may take, as `estimate_memory` counts.

    Attributes:
        store: The known objects. Do not await between reads that belong together.
        synced: Set once every object was listed and handled.
        decode: Decodes the bytes of an object.
        settled: Set once synced, or once the kind is known to be unavailable. Wait for it at start.
        state: The state of the connection.
        last_error: Why the last attempt failed; None after a success.
    """

    def __init__(  # noqa: PLR0913 - each says one thing about the collection
        self,
        client: KubeClient,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], T] | None = None,
        indexers: Mapping[str, Indexer[T]] | None = None,
        meta: Callable[[T], ObjectKeyAndVersion] = identify,
        on_restart: Callable[[str], None] | None = None,
        on_failed_object: Callable[[], None] = lambda: None,
        max_bytes: int | None = None,
    ) -> None:
        self.resource = resource
        self.store: Store[T] = Store(indexers or {})
        self.synced = asyncio.Event()
        self.settled = asyncio.Event()
        self.state = InformerState.STARTING
        self.last_error: KubeError | None = None
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self.decode = decode or cast("Callable[[bytes], T]", build_loader(resource))
        self._meta = meta
        self._on_restart = on_restart
        self._on_failed_object = on_failed_object
        self._budget = MemoryBudget(max_bytes) if max_bytes is not None else None
        self._handlers: list[Handler[T]] = []
        self._listeners: list[Callable[[Informer[T]], None]] = []
        self._resource_version: str | None = None
        self._page_size = PAGE_SIZE
        self._opened_at = float("inf")
        self._progress = 0
        # Versions of our own writes that the watch has not shown yet.
        self._observed: dict[str, int] = {}

    @property
    def available(self) -> bool:
        """Whether the server serves this kind, by our last attempt."""
        return self.state is not InformerState.UNAVAILABLE

    def add_handler(self, handler: Handler[T]) -> None:
        """Call a handler with (old, new) for every object known now, and at every change.

        Old is None for a new object, new is None for a deleted one. Handlers must be quick and must
        not change the objects. An exception is logged with the object's key. If a handler is added
        again, for example by a component that restarts, it gets all known objects again, but is
        still called once for each change.
        """
        if handler not in self._handlers:
            self._handlers.append(handler)
        for key in self.store.keys():  # noqa: SIM118 - a copy: handlers may observe
            self._call(handler, key, None, self.store.get(key))

    def remove_handler(self, handler: Handler[T]) -> None:
        """Do not call a handler any more; one that was never added is no error."""
        if handler in self._handlers:
            self._handlers.remove(handler)

    def add_listener(self, listener: Callable[[Informer[T]], None]) -> None:
        """Call a listener whenever `state` changes, and after every failed attempt."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def observe(self, obj: T) -> None:
        """Put the answer of our own write into the store, before the watch shows it.

        It is ignored if the watch has shown the same or a later version. The object must belong to
        this informer's selection.
        """
        meta = self._meta(obj)
        if meta.version <= self._progress and meta.version:
            return
        old = self.store.get(meta.key)
        if old is not None and not _is_newer(meta, self._meta(old)):
            return
        self._observed[meta.key] = meta.version
        self._put(meta, old, obj)

    async def run(self) -> None:
        """List and watch until cancelled."""
        backoff = Backoff(base=RETRY_SECONDS, cap=MAX_RETRY_SECONDS)
        loop = asyncio.get_running_loop()
        while True:
            self._opened_at = float("inf")
            reason = await self._follow(backoff.failures)
            if loop.time() - self._opened_at >= HEALTHY_SECONDS:
                backoff.reset()
            wait = backoff.next()
            if not self.available:
                wait = max(wait, UNAVAILABLE_SECONDS)
            if self._on_restart is not None:
                self._on_restart(reason)
            await asyncio.sleep(wait)

    async def _follow(self, failures: int) -> str:
        """List if necessary, then watch; return why the watch ended."""
        listed = False
        try:
            if self._resource_version is None or await self._has_gone_back():
                await self._list()
            listed = True
            await self._watch(self._resource_version or "")
        except Gone as error:
            # The known version is too old, or a page came too late: list all at once.
            self._page_size = PAGE_SIZE if listed else 0
            self._resource_version = None
            self._note(self.state, error)
            return "gone"
        except NotFound as error:
            # The stored objects stay: if they were gone, deletions would have come first.
            self._resource_version = None
            self._note(InformerState.UNAVAILABLE, error)
            return "unavailable"
        except KubeError as error:
            if listed and _calls_for_list(error, failures):
                self._resource_version = None
            self._note(InformerState.RETRYING, error)
            return type(error).__name__
        except Exception as error:
            # After any other error, a list shows the current state.
            name = type(error).__name__
            log.exception("informer failed, listing again", resource=self.resource.plural)
            self._resource_version = None
            self._note(InformerState.RETRYING, KubeError(f"internal error: {name}: {error}"))
            return name
        return "closed"

    async def _has_gone_back(self) -> bool:
        """Whether the server has an older state than it showed: it was restored from a backup.

        It would take our version for a watch and tell nothing until it has reached that version
        again. One object of a list is enough to learn its version: any one, because a server may
        read all others until one has the labels. If the list fails or takes long, the watch may
        work all the same.
        """
        pages = self._client.pages(
            self.resource,
            namespace=self._namespace,
            limit=1,
            decode=bytes,
            field_selector=self._field_selector,
        )
        try:
            async with asyncio.timeout(OPEN_SECONDS), aclosing(pages):
                version = parse_version((await anext(pages)).resource_version)
        except (KubeError, TimeoutError):
            return False
        return 0 < version < self._progress

    async def _list(self) -> None:
        """Bring the store to the state of a list; objects that are not listed are deleted."""
        seen: set[str] = set()
        version = ""
        if self._budget is not None:
            self._budget.clear()  # what is not listed any more is about to go
        pages = self._client.pages(
            self.resource,
            namespace=self._namespace,
            limit=self._page_size,
            decode=bytes,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        async with aclosing(pages):
            async for page in pages:
                version = page.resource_version
                restored = parse_version(version) < self._progress
                if restored:
                    self._observed.clear()  # what we wrote may not be in the backup
                for count, raw in enumerate(page.items, start=1):
                    self._take_listed(raw, seen, restored=restored)
                    if count % YIELD_EVERY == 0:
                        await asyncio.sleep(0)
        self._progress = parse_version(version)
        self._observed = {k: v for k, v in self._observed.items() if v > self._progress}
        for key in self.store.keys():  # noqa: SIM118 - a copy: handlers may observe
            if key not in seen and key not in self._observed:
                self._remove(key)
        self._resource_version = version
        self._note(self.state, None)
        self.synced.set()
        self.settled.set()

    def _charge(self, key: str, raw: bytes, verb: str) -> None:
        if self._budget is not None:
            self._budget.charge(key, raw, describe(verb, self.resource, self._namespace))

    def _take_listed(self, raw: bytes, seen: set[str], *, restored: bool) -> None:
        found = self._try_read(raw)
        if found is None:
            key = _key_of(raw)
            # An object that cannot be read is not deleted.
            if key is not None:
                seen.add(key)
            return
        meta, obj = found
        self._charge(meta.key, raw, "LIST")
        seen.add(meta.key)
        old = self.store.get(meta.key)
        if old is not None:
            known = self._meta(old)
            is_known = known.version == meta.version and known.uid == meta.uid and known.version
            if is_known and not restored:  # after a restore, versions are given a second time
                return
            if known.version > meta.version and meta.key in self._observed:
                return
        self._put(meta, old, obj)

    async def _watch(self, resource_version: str) -> None:
        events = self._client.watch(
            self.resource,
            resource_version=resource_version,
            namespace=self._namespace,
            open_timeout=OPEN_SECONDS,
            on_open=self._on_open,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        async with aclosing(events):
            async for event in events:
                if event.type == BOOKMARK:
                    self._advance(_version_of(event.raw))
                else:
                    self._take_event(event)

    def _on_open(self) -> None:
        self._opened_at = asyncio.get_running_loop().time()
        self._note(InformerState.WATCHING, None)

    def _take_event(self, event: WatchEvent) -> None:
        found = self._try_read(event.raw)
        if found is None:
            self._advance(_version_of(event.raw))
            return
        meta, obj = found
        old = self.store.get(meta.key)
        if event.type == "DELETED":
            if old is not None and not 0 < meta.version < self._meta(old).version:
                self._observed.pop(meta.key, None)
                self._remove(meta.key)
        elif old is None or _is_newer(meta, self._meta(old)):
            self._charge(meta.key, event.raw, "WATCH")
            self._observed.pop(meta.key, None)
            self._put(meta, old, obj)
        self._advance(meta.version)

    def _advance(self, version: int) -> None:
        if version > self._progress:
            self._progress = version
            self._resource_version = str(version)

    def _put(self, meta: ObjectKeyAndVersion, old: T | None, obj: T) -> None:
        if old is not None and self._meta(old).uid != meta.uid:
            self._remove(meta.key)
            old = None
        try:
            self.store.put(meta.key, obj)
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the others
            self._leave_out(meta.key, error)
            return
        for handler in self._handlers:
            self._call(handler, meta.key, old, obj)

    def _remove(self, key: str) -> None:
        old = self.store.get(key)
        self.store.remove(key)
        if self._budget is not None:
            self._budget.release(key)
        for handler in self._handlers:
            self._call(handler, key, old, None)

    def _call(self, handler: Handler[T], key: str, old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:
            log.exception("informer handler failed", resource=self.resource.plural, object=key)
            self._on_failed_object()

    def _try_read(self, raw: bytes) -> tuple[ObjectKeyAndVersion, T] | None:
        try:
            obj = self.decode(raw)
            return self._meta(obj), obj
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the others
            self._leave_out(_key_of(raw), error)
            return None

    def _leave_out(self, key: str | None, error: Exception) -> None:
        log.error(
            "object cannot be read and is left out",
            resource=self.resource.plural,
            object=key,
            error=str(error),
        )
        self._on_failed_object()

    def _note(self, state: InformerState, error: KubeError | None) -> None:
        changed = state is not self.state or error is not None
        if error is not None and type(error) is not type(self.last_error):
            is_normal = isinstance(error, EXPECTED) or (
                isinstance(error, NotFound) and state is InformerState.UNAVAILABLE
            )
            told = log.info if is_normal else log.warning
            told("watch failed", resource=self.resource.plural, error=str(error))
        self.state, self.last_error = state, error
        if state is InformerState.UNAVAILABLE:
            self.settled.set()
        if changed:
            for listener in self._listeners:
                self._tell(listener)

    def _tell(self, listener: Callable[[Informer[T]], None]) -> None:
        try:
            listener(self)
        except Exception:
            log.exception("informer listener failed", resource=self.resource.plural)


def _calls_for_list(error: KubeError, failures: int) -> bool:
    """Tell whether to list again instead of repeating the same watch.

    A server that was restored from a backup answers a version that it has not reached with 504, or
    never; others answer 400. If watches keep failing while lists work, lists keep the store
    current.
    """
    if isinstance(error, Unauthorized | Forbidden | TooManyRequests):
        return False
    if isinstance(error, AnswerTooLarge):
        # The same event would come again; a list shows whether the objects are smaller now.
        return True
    if isinstance(error, ApiError) and not error.retryable:
        return True
    return failures >= STUBBORN_FAILURES and isinstance(error, ApiError | RequestTimeout)


def _is_newer(meta: ObjectKeyAndVersion, known: ObjectKeyAndVersion) -> bool:
    """Tell whether a state is newer; without versions, the one that arrives later is."""
    return meta.version > known.version or not (meta.version and known.version)


def _metadata_of(raw: bytes) -> dict[str, Any]:
    try:
        metadata = orjson.loads(raw)["metadata"]
    except (ValueError, KeyError, TypeError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _key_of(raw: bytes) -> str | None:
    metadata = _metadata_of(raw)
    named = isinstance(metadata.get("name"), str)
    return identify({"metadata": metadata}).key if named else None


def _version_of(raw: bytes) -> int:
    return parse_version(_metadata_of(raw).get("resourceVersion"))
