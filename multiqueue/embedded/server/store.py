"""The objects of one server: memory for reading, a storage for keeping, one revision counter for
order.

Single writer: everything runs on the event loop, and nothing between reading and
:meth:`ObjectStore.put` awaits. A change is kept by the storage before anybody sees it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from multiqueue.embedded.server.entry import StoredObject, encode_bare
from multiqueue.embedded.server.kinds import GroupPlural, JsonObject, KindVersion
from multiqueue.embedded.server.managed.owners import Owners, take
from multiqueue.embedded.server.storage.storage import Storage, Write
from multiqueue.embedded.server.watch import MAX_PENDING, Event, Watcher, WatchHistory

FIRST_REVISION = 1000
"""A new server starts here, so that small revisions are "too old", as in any cluster that has lived
for a while.
"""


class Collection:
    """The objects of one kind, by namespace, with their recent history and those who watch."""

    def __init__(self, key: GroupPlural, *, floor: int, history_length: int) -> None:
        self.key = key
        self.history = WatchHistory(floor=floor, length=history_length)
        self._by_namespace: dict[str, dict[str, StoredObject]] = {}
        self._sorted_names: dict[str, list[str]] = {}
        self.changes = 0
        """Grows with every change: what is compiled from the objects compares it."""

    def get(self, namespace: str, name: str) -> StoredObject | None:
        """One object; namespace is empty for cluster-scoped kinds."""
        names = self._by_namespace.get(namespace)
        return names.get(name) if names else None

    def entries(
        self, namespace: str | None = None, after: tuple[str, str] | None = None
    ) -> Iterator[StoredObject]:
        """Objects by namespace and name (all namespaces if None), optionally only those behind
        (namespace, name).

        Must be consumed before anything is written.
        """
        namespaces = sorted(self._by_namespace) if namespace is None else (namespace,)
        for each in namespaces:
            names = self._by_namespace.get(each)
            if names and (after is None or each >= after[0]):
                order = self._order(each, names)
                start = (
                    bisect_right(order, after[1]) if after is not None and each == after[0] else 0
                )
                yield from map(names.__getitem__, order[start:] if start else order)

    def _order(self, namespace: str, names: Mapping[str, StoredObject]) -> list[str]:
        order = self._sorted_names.get(namespace)
        if order is None:
            order = self._sorted_names[namespace] = sorted(names)
        return order

    def set(self, entry: StoredObject) -> None:
        """Insert or replace."""
        self.changes += 1
        names = self._by_namespace.setdefault(entry.namespace, {})
        if entry.name not in names:
            self._sorted_names.pop(entry.namespace, None)
        names[entry.name] = entry

    def discard(self, entry: StoredObject) -> None:
        """Remove."""
        self.changes += 1
        names = self._by_namespace[entry.namespace]
        del names[entry.name]
        self._sorted_names.pop(entry.namespace, None)
        if not names:
            del self._by_namespace[entry.namespace]


class ObjectStore:
    """All collections and the indexes across them."""

    def __init__(
        self, storage: Storage, *, history_length: int, most_pending: int = MAX_PENDING
    ) -> None:
        self.most_pending = most_pending
        """Changes that may wait for one watcher."""
        self._storage = storage
        self._history_length = history_length
        self._collections: dict[GroupPlural, Collection] = {}
        self._by_uid: dict[str, StoredObject] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self.observers: list[Callable[[Event], None]] = []
        """Called with every change, in the order of revisions. Must be quick and not raise."""
        self._first_revision = FIRST_REVISION
        """The past before it is not known."""
        self._floors: dict[GroupPlural, int] = {}
        """The same for collections that were dropped and may come again."""
        self.revision = FIRST_REVISION

    def load(self, revision: int, objects: Sequence[tuple[GroupPlural, bytes]]) -> None:
        """Take over what a storage held."""
        self.revision = max(revision, FIRST_REVISION)
        self._first_revision = self.revision
        for key, raw in objects:
            obj = orjson.loads(raw)
            self._index(self._entry(key, obj, int(obj["metadata"]["resourceVersion"])))

    # ------------------------------------------------------------------ reading
    def collection(self, key: GroupPlural) -> Collection:
        """The collection of a kind, made when first asked for."""
        collection = self._collections.get(key)
        if collection is None:
            floor = self._floors.get(key, self._first_revision)
            collection = Collection(key, floor=floor, history_length=self._history_length)
            self._collections[key] = collection
        return collection

    def get(self, key: GroupPlural, namespace: str, name: str) -> StoredObject | None:
        """The newest state of an object."""
        collection = self._collections.get(key)
        return collection.get(namespace, name) if collection else None

    def by_uid(self, uid: str) -> StoredObject | None:
        """The object with this uid."""
        return self._by_uid.get(uid)

    def dependents(self, owner_uid: str) -> list[StoredObject]:
        """Objects with an owner reference to this uid."""
        return [self._by_uid[uid] for uid in self._dependents.get(owner_uid, ())]

    def has_dependents(self, owner_uid: str) -> bool:
        """Whether any object has an owner reference to this uid."""
        return owner_uid in self._dependents

    # ------------------------------------------------------------------ writing
    def put(
        self,
        key: GroupPlural,
        obj: JsonObject,
        managed: Owners | None = None,
        admitted: KindVersion | None = None,
    ) -> StoredObject:
        """Create or replace an object; stamps its resourceVersion.

        Args:
            key: the collection.
            obj: the object in its storage version; taken over.
            managed: who owns its fields; if None, what its managedFields says.
            admitted: the version whose schema it came through as it is.

        Raises:
            StorageFailed: nothing changed.
        """
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        entry = self._entry(key, obj, revision, managed, admitted)
        self._keep(entry, entry.raw)
        previous = self.get(key, entry.namespace, entry.name)
        if previous is not None:
            self._unindex_owners(previous)
        self._index(entry)
        self._publish(Event(entry=entry, previous=previous, deleted=False))
        return entry

    def remove(
        self, entry: StoredObject, last: JsonObject | None = None, managed: Owners | None = None
    ) -> StoredObject:
        """Remove an object; the answer is its last state (default: as stored) with the revision of
        the removal.

        Raises:
            StorageFailed: nothing changed.
        """
        revision, obj = self.revision + 1, last or entry.decode()
        last_entry = self.make_entry(entry.collection, obj, revision, managed)
        self._keep(last_entry, None)
        self.collection(entry.collection).discard(entry)
        self._by_uid.pop(entry.uid, None)
        self._unindex_owners(entry)
        self._publish(Event(entry=last_entry, previous=entry, deleted=True))
        return last_entry

    def forget_collection(self, key: GroupPlural) -> None:
        """Drop an empty collection whose kind is no longer served, and end its watches."""
        collection = self._collections.pop(key, None)
        if collection is not None:
            self._floors[key] = self.revision
            collection.history.close()

    def rewrite(self, key: GroupPlural, change: Callable[[bytes], bytes]) -> None:
        """Show the objects of a collection in another shape without a new revision, and end its
        watches.
        """
        collection = self.collection(key)
        for entry in list(collection.entries()):
            rewritten = self._entry(key, orjson.loads(change(entry.raw)), entry.revision)
            collection.set(rewritten)
            self._by_uid[entry.uid] = rewritten
        collection.history.restart(self.revision)

    def make_entry(
        self, key: GroupPlural, obj: JsonObject, revision: int, managed: Owners | None = None
    ) -> StoredObject:
        """A state that is not kept (dry run, last state); stamps its resourceVersion."""
        obj["metadata"]["resourceVersion"] = str(revision)
        return self._entry(key, obj, revision, managed)

    def changes_since(self, key: GroupPlural, revision: int) -> list[Event]:
        """Changes of a collection after a revision, oldest first."""
        return list(self.collection(key).history.since(revision))

    # ------------------------------------------------------------------ watching
    def watch(self, key: GroupPlural, watcher: Watcher) -> None:
        """Deliver changes from now on; past ones come from ``collection.history``."""
        self.collection(key).history.watchers.append(watcher)

    def unwatch(self, key: GroupPlural, watcher: Watcher) -> None:
        """Stop delivering."""
        collection = self._collections.get(key)
        if collection is not None and watcher in collection.history.watchers:
            collection.history.watchers.remove(watcher)

    def close_watches(self) -> None:
        """End every watch: the server stops."""
        for collection in self._collections.values():
            collection.history.close()

    # ------------------------------------------------------------------ private
    def _entry(
        self,
        key: GroupPlural,
        obj: JsonObject,
        revision: int,
        managed: Owners | None = None,
        admitted: KindVersion | None = None,
    ) -> StoredObject:
        metadata = obj["metadata"]
        if managed is None:
            managed = take(metadata)
        owners = metadata.get("ownerReferences")
        return StoredObject(
            collection=key,
            namespace=metadata.get("namespace") or "",
            name=metadata["name"],
            uid=metadata["uid"],
            revision=revision,
            bare=encode_bare(obj),
            managed=managed,
            labels=metadata.get("labels") or {},
            owners=tuple(owner["uid"] for owner in owners) if owners else (),
            deleting="deletionTimestamp" in metadata,
            admitted=admitted,
        )

    def _index(self, entry: StoredObject) -> None:
        self.collection(entry.collection).set(entry)
        self._by_uid[entry.uid] = entry
        for owner in entry.owners:
            self._dependents.setdefault(owner, {})[entry.uid] = None

    def _unindex_owners(self, entry: StoredObject) -> None:
        for owner in entry.owners:
            uids = self._dependents.get(owner)
            if uids is not None:
                uids.pop(entry.uid, None)
                if not uids:
                    del self._dependents[owner]

    def _keep(self, entry: StoredObject, raw: bytes | None) -> None:
        """Have the storage keep a change, which takes its revision."""
        self._storage.write(
            Write(entry.revision, entry.collection, entry.namespace, entry.name, raw)
        )
        self.revision = entry.revision

    def _publish(self, event: Event) -> None:
        """Tell watchers and observers."""
        collection = self._collections.get(event.entry.collection)
        if collection is not None:
            collection.history.publish(event)
        for observe in self.observers:
            observe(event)
