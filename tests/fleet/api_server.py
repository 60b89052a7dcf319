"""One cluster's API server in memory: what the program may rely on, and nothing more.

resourceVersions, optimistic concurrency, preconditions, status subresources, finalizers, owner
garbage collection, pages, and watches with history: what is too old is answered with 410. A request
is handled at once and as a whole; how requests get here is `network`'s business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import orjson

from tests.fleet.history import History
from tests.fleet.objects import (
    Json,
    begin,
    change,
    format_time,
    has_labels,
    is_over,
    merge,
    parse_selector,
    with_metadata,
)
from tests.fleet.paths import KINDS, Target, parse_path, parse_query
from tests.fleet.watches import Collection, Event, Stored, Watch

GC_SECONDS = 0.2
"""How long the garbage collector of a cluster takes to notice."""
FOREGROUND = "foregroundDeletion"


class RefusedError(Exception):
    """The server says no: a status code and its reason."""

    def __init__(self, status: int, reason: str, message: str = "", *, name: str = "") -> None:
        super().__init__(message or reason)
        self.status = status
        self.reason = reason
        self.details = {"name": name} if name else {}


@dataclass(frozen=True, slots=True)
class Backup:
    """All objects at one time, by collection and key."""

    version: int
    objects: dict[str, dict[str, Stored]]


class ApiServer:
    """An API server.

    Args:
        name: Of the cluster.
        now: Wall-clock time there.
        history: Told of every change.
        call_later: Does something after some seconds.
        page_size: Objects a page, where more are asked for.
    """

    def __init__(
        self,
        name: str,
        *,
        now: Callable[[], datetime],
        history: History,
        call_later: Callable[[float, Callable[[], None]], object],
        page_size: int = 500,
    ) -> None:
        self.name = name
        self.unserved: set[str] = set()
        self.tokens: set[str] = set()
        self.silent_ahead = False
        self.holds_foreground: Callable[[Json], bool] = lambda _: False
        self._now = now
        self._history = history
        self._call_later = call_later
        self._page_size = page_size
        self._version = 0
        self._uids = 0
        self._tokens = 0
        self._collections: dict[str, Collection] = {}
        self._dependents: dict[str, dict[tuple[str, str], None]] = {}
        self._live: set[str] = set()
        self._pages: dict[str, tuple[str, list[bytes]]] = {}
        self._actor = "cluster"

    # ------------------------------------------------------------ requests

    def handle(self, actor: str, method: str, target: str, body: bytes | None) -> bytes:
        """Do what a request asks for and return the body of the answer.

        Raises:
            RefusedError: the server says no.
        """
        path, params = parse_query(target)
        found = parse_path(path)
        if found.resource is None or found.resource.plural in self.unserved:
            return self._discover(found)
        parsed = orjson.loads(body) if body else {}
        if found.resource.plural == "events":
            return orjson.dumps(parsed)  # told to people, looked at by nobody here
        self._actor = actor
        try:
            return self._handle(method, found, params, parsed)
        finally:
            self._actor = "cluster"

    def _handle(self, method: str, target: Target, params: dict[str, str], body: Json) -> bytes:
        if method == "GET":
            return self._get(target).raw if target.name else self._list(target, params)
        if method == "POST":
            return self._create(target, body).raw
        if method == "DELETE":
            return self._delete(target, body)
        old = self._get(target)
        if method == "PATCH":
            body = merge(old.obj, body) if body else old.obj
            return self._update(target, old, body).raw
        if method == "PUT":
            return self._update(target, old, body).raw
        raise RefusedError(405, "MethodNotAllowed")

    def _discover(self, target: Target) -> bytes:
        served = target.resource is None or target.resource.plural not in self.unserved
        if not served or target.group_version in self.unserved:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return b"{}"

    # ------------------------------------------------------------ reading

    def find(self, plural: str, key: str) -> Json | None:
        """Return one object."""
        stored = self._collection(plural).objects.get(key)
        return stored.obj if stored is not None else None

    def list_all(self, plural: str) -> list[Json]:
        """Return all objects of a kind."""
        return [stored.obj for stored in self._collection(plural).objects.values()]

    def _get(self, target: Target) -> Stored:
        assert target.resource is not None
        stored = self._collection(target.resource.plural).objects.get(_key(target))
        if stored is None:
            words = f"{target.resource.plural} {target.name!r}"
            raise RefusedError(404, "NotFound", words, name=target.name)
        return stored

    def _list(self, target: Target, params: dict[str, str]) -> bytes:
        if "continue" in params:
            return self._page(params["continue"])
        pairs = parse_selector(params["labelSelector"]) if "labelSelector" in params else ()
        if "fieldSelector" in params:
            raise RefusedError(400, "BadRequest", "no field selectors here")
        assert target.resource is not None
        raws = [
            stored.raw
            for stored in self._collection(target.resource.plural).objects.values()
            if (not target.namespace or stored.obj["metadata"]["namespace"] == target.namespace)
            and (not pairs or has_labels(stored.obj, pairs))
        ]
        return self._answer_page(str(self._version), raws, "limit" in params)

    def _answer_page(self, version: str, raws: list[bytes], paged: bool) -> bytes:
        size = self._page_size if paged else len(raws)
        rest, token = raws[size:], b""
        if rest:
            self._tokens += 1
            name = f"page{self._tokens}"
            self._pages[name] = (version, rest)
            token = b',"continue":"%b"' % name.encode()
        return b'{"metadata":{"resourceVersion":"%b"%b},"items":[%b]}' % (
            version.encode(),
            token,
            b",".join(raws[:size]),
        )

    def _page(self, token: str) -> bytes:
        found = self._pages.pop(token, None)
        if found is None:
            raise RefusedError(410, "Expired", "the continue token is too old")
        return self._answer_page(*found, True)

    # ------------------------------------------------------------ watching

    def watch(self, target: str, on_line: Callable[[], None]) -> Watch:
        """Open a watch; what happened since its resourceVersion is there at once.

        Raises:
            RefusedError: too old, or not served.
        """
        path, params = parse_query(target)
        found = parse_path(path)
        if found.resource is None or found.resource.plural in self.unserved:
            raise RefusedError(404, "NotFound")
        collection = self._collection(found.resource.plural)
        since = int(params.get("resourceVersion") or 0)
        if since < collection.forgotten:
            raise RefusedError(410, "Expired", "too old resource version")
        if since > self._version and not self.silent_ahead:
            raise RefusedError(504, "Timeout", "Too large resource version")
        pairs = parse_selector(params["labelSelector"]) if "labelSelector" in params else ()
        watch = Watch(collection, found.namespace, pairs, since, on_line)
        for event in collection.events:
            watch.offer(event)
        collection.watches[watch] = None
        return watch

    def bookmark(self) -> bytes:
        """Return a line that tells how far the server is."""
        return b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}' % self._version

    def compact(self) -> None:
        """Forget the history of everything: whoever is behind has to list."""
        for collection in self._collections.values():
            collection.events.clear()
            collection.forgotten = self._version
        self._pages.clear()

    # ------------------------------------------------------------ writing

    def _create(self, target: Target, body: Json) -> Stored:
        assert target.resource is not None
        plural, metadata = target.resource.plural, body["metadata"]
        if target.resource.namespaced:
            self._check_namespace(target.namespace)
            body = with_metadata(body, namespace=target.namespace)
        key = f"{target.namespace}/{metadata['name']}" if target.namespace else metadata["name"]
        if key in self._collection(plural).objects:
            raise RefusedError(409, "AlreadyExists", f"{plural} {key!r} already exists")
        self._uids += 1
        uid = f"{self.name}-{self._uids}"
        if metadata["name"] == "kube-system":
            uid = f"{self.name}-system"
        new = begin(body, uid=uid, now=self._now(), version=self._version + 1)
        self._live.add(uid)
        for owner in new["metadata"].get("ownerReferences") or ():
            self._dependents.setdefault(owner["uid"], {})[plural, key] = None
            if owner["uid"] not in self._live:
                self._call_later(GC_SECONDS, partial(self._collect, owner["uid"]))
        return self._store(plural, key, None, new, "create")

    def _check_namespace(self, name: str) -> None:
        if name not in self._collection("namespaces").objects:
            raise RefusedError(404, "NotFound", f"namespaces {name!r} not found")

    def _update(self, target: Target, old: Stored, wanted: Json) -> Stored:
        assert target.resource is not None
        metadata, before = wanted.get("metadata") or {}, old.obj["metadata"]
        if metadata.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
            raise RefusedError(409, "Conflict", "the object has been modified")
        if metadata.get("uid", before["uid"]) != before["uid"]:
            raise RefusedError(409, "Conflict", "Precondition failed: UID")
        plural, subresource = target.resource.plural, target.subresource
        new = change(old.obj, wanted, subresource=subresource)
        if plural == "jobs" and is_over(old.obj) and not is_over(new):
            raise RefusedError(422, "Invalid", "status.conditions: cannot disable Complete")
        if new is old.obj:
            return old
        return self._write(plural, _key(target), old, new, subresource or "update")

    def _write(self, plural: str, key: str, old: Stored, new: Json, verb: str) -> Stored:
        metadata = new["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._remove(plural, key, old)
            return Stored(new, orjson.dumps(new))
        for owner in metadata.get("ownerReferences") or ():
            self._dependents.setdefault(owner["uid"], {})[plural, key] = None
        return self._store(
            plural, key, old, with_metadata(new, resourceVersion=str(self._version + 1)), verb
        )

    def _delete(self, target: Target, options: Json) -> bytes:
        assert target.resource is not None
        old = self._get(target)
        metadata, wanted = old.obj["metadata"], options.get("preconditions") or {}
        for name in ("uid", "resourceVersion"):
            if wanted.get(name, metadata[name]) != metadata[name]:
                raise RefusedError(409, "Conflict", f"Precondition failed: {name}")
        foreground = options.get("propagationPolicy") == "Foreground"
        self.mark_deleted(target.resource.plural, _key(target), foreground=foreground)
        return b'{"kind":"Status","status":"Success"}'

    def mark_deleted(self, plural: str, key: str, *, foreground: bool = False) -> None:
        """Delete an object, or begin to where something holds it."""
        old = self._collection(plural).objects[key]
        metadata = old.obj["metadata"]
        finalizers = list(metadata.get("finalizers") or ())
        waits = foreground and self.holds_foreground(old.obj)
        if waits and FOREGROUND not in finalizers:
            finalizers.append(FOREGROUND)
        if not finalizers:
            self._remove(plural, key, old)
        elif not metadata.get("deletionTimestamp"):
            at = format_time(self._now())
            new = with_metadata(old.obj, deletionTimestamp=at, finalizers=finalizers)
            new["metadata"]["generation"] = metadata["generation"] + 1
            self._write(plural, key, old, new, "delete")

    def finish_foreground(self, plural: str, key: str) -> None:
        """Let an object go whose dependents are gone."""
        old = self._collection(plural).objects.get(key)
        if old is None or FOREGROUND not in (old.obj["metadata"].get("finalizers") or ()):
            return
        left = [f for f in old.obj["metadata"]["finalizers"] if f != FOREGROUND]
        self._write(plural, key, old, with_metadata(old.obj, finalizers=left), "update")

    def add(self, plural: str, obj: Json, *, actor: str = "user") -> Json:
        """Create an object as somebody inside the cluster does.

        Raises:
            RefusedError: there is one of that name.
        """
        self._actor = actor
        try:
            return self._create(
                Target(KINDS[plural], obj["metadata"].get("namespace", "")), obj
            ).obj
        finally:
            self._actor = "cluster"

    def put(self, plural: str, obj: Json) -> None:
        """Store an object with its uid and times, as if it had always been there."""
        metadata = obj["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        self._live.add(metadata["uid"])
        new = with_metadata(obj, resourceVersion=str(self._version + 1))
        self._store(plural, key, None, new, "create")

    def edit(
        self,
        plural: str,
        key: str,
        patch: Json,
        *,
        subresource: str = "",
        actor: str = "user",
    ) -> Json | None:
        """Merge something into an object as somebody inside the cluster does; None: it is gone."""
        old = self._collection(plural).objects.get(key)
        if old is None:
            return None
        self._actor = actor
        try:
            wanted = merge(old.obj, patch)
            new = change(old.obj, wanted, subresource=subresource)
            if new is old.obj:
                return new
            return self._write(plural, key, old, new, subresource or "update").obj
        finally:
            self._actor = "cluster"

    def wipe(self, plurals: tuple[str, ...]) -> None:
        """Lose all objects of some kinds at once, finalizers or not: the cluster was made anew."""
        for plural in plurals:
            for key, stored in list(self._collection(plural).objects.items()):
                self._remove(plural, key, stored)
        self.compact()

    # ------------------------------------------------------------ backups

    def save(self) -> Backup:
        """Make a backup of everything."""
        objects = {
            plural: dict(collection.objects) for plural, collection in self._collections.items()
        }
        return Backup(self._version, objects)

    def restore(self, backup: Backup, *, silent: bool) -> None:
        """Be again as a backup says, with the resourceVersions of then.

        Args:
            backup: What was saved.
            silent: Whether a watch from a version that is not reached yet is silent, not refused.
        """
        self.silent_ahead = silent
        self._pages.clear()
        before = {plural: dict(each.objects) for plural, each in self._collections.items()}
        for plural, collection in self._collections.items():
            collection.objects = dict(backup.objects.get(plural, {}))
            collection.events.clear()
            collection.forgotten = backup.version
        self._version = backup.version
        self._live = {
            stored.obj["metadata"]["uid"]
            for each in self._collections.values()
            for stored in each.objects.values()
        }
        for plural, olds in before.items():
            now = self._collections[plural].objects
            for key in {**olds, **now}:
                old, new = olds.get(key), now.get(key)
                if old is not new:
                    self._tell_restored(plural, key, old, new)

    def _tell_restored(self, plural: str, key: str, old: Stored | None, new: Stored | None) -> None:
        before, after = (each.obj if each is not None else None for each in (old, new))
        for owner in (after or {"metadata": {}})["metadata"].get("ownerReferences") or ():
            self._dependents.setdefault(owner["uid"], {})[plural, key] = None
            if owner["uid"] not in self._live:
                self._call_later(GC_SECONDS, partial(self._collect, owner["uid"]))
        if before and after and before["metadata"]["uid"] != after["metadata"]["uid"]:
            self._history.change(self.name, "backup", "restore", plural, key, before, None)
            before = None
        self._history.change(self.name, "backup", "restore", plural, key, before, after)

    # ------------------------------------------------------------ storage

    def _collection(self, plural: str) -> Collection:
        found = self._collections.get(plural)
        if found is None:
            found = self._collections[plural] = Collection()
        return found

    def _store(self, plural: str, key: str, old: Stored | None, new: Json, verb: str) -> Stored:
        self._version += 1
        stored = Stored(new, orjson.dumps(new))
        collection = self._collection(plural)
        collection.objects[key] = stored
        before = old.obj if old is not None else None
        self._tell(collection, Event(self._version, before, new, stored.raw))
        self._history.change(self.name, self._actor, verb, plural, key, before, new)
        return stored

    def _remove(self, plural: str, key: str, old: Stored) -> None:
        self._version += 1
        collection = self._collection(plural)
        del collection.objects[key]
        last = with_metadata(old.obj, resourceVersion=str(self._version))
        self._tell(collection, Event(self._version, old.obj, None, orjson.dumps(last)))
        uid = old.obj["metadata"]["uid"]
        self._live.discard(uid)
        if uid in self._dependents:
            self._call_later(GC_SECONDS, lambda: self._collect(uid))
        self._history.change(self.name, self._actor, "remove", plural, key, old.obj, None)

    def _tell(self, collection: Collection, event: Event) -> None:
        collection.events.append(event)
        for watch in collection.watches:
            watch.offer(event)

    def _collect(self, owner: str) -> None:
        """Delete what has no owner any more."""
        if owner in self._live:
            return
        for plural, key in self._dependents.pop(owner, {}):
            stored = self._collection(plural).objects.get(key)
            if stored is None:
                continue
            owners = stored.obj["metadata"].get("ownerReferences") or ()
            if owners and all(o["uid"] not in self._live for o in owners):
                self.mark_deleted(plural, key)

    def __repr__(self) -> str:
        return f"ApiServer({self.name})"


def _key(target: Target) -> str:
    return f"{target.namespace}/{target.name}" if target.namespace else target.name
