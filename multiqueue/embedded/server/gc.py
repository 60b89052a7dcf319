"""Garbage collection by owner references: background, foreground, orphan, and owners that never
were.

Level-triggered on uids: every removal and every object with owners puts the uids concerned into a
queue; what to do is decided from the
store when their turn comes. Only the index of owners is read, never a whole collection.
"""

from typing import Any

from multiqueue.embedded.server.auth import GARBAGE_COLLECTOR
from multiqueue.embedded.server.background import Background
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.delete import FOREGROUND, ORPHAN, DeleteOptions, delete
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.kinds import JsonObject, Kind
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.status import StatusError
from multiqueue.embedded.server.target import target_of
from multiqueue.embedded.server.update import Change, update
from multiqueue.embedded.server.watch import Event


class OwnerCollector:
    """Deletes what lost its owners."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.background: Background[str] = Background("garbage-collector", self._collect)

    def observe(self, event: Event) -> None:
        """Notice whose turn it is."""
        entry, store = event.entry, self._objects.store
        if event.deleted:
            for dependent in store.dependents(entry.uid):
                self.background.add(dependent.uid)
            for owner in entry.owners:
                self._wake_if_waiting(owner)
            return
        if entry.deleting:
            self.background.add(entry.uid)
        if entry.owners and (event.previous is None or event.previous.owners != entry.owners):
            self.background.add(entry.uid)
        if event.previous is not None:
            for owner in event.previous.owners:
                self._wake_if_waiting(owner)

    def resume(self) -> None:
        """Look at everything with owners once: a stopped server may have left work behind."""
        store = self._objects.store
        for kind in self._objects.registry:
            for entry in store.collection(kind.key).entries():
                if entry.owners or entry.deleting:
                    self.background.add(entry.uid)

    def _wake_if_waiting(self, owner_uid: str) -> None:
        owner = self._objects.store.by_uid(owner_uid)
        if owner is not None and owner.deleting:
            self.background.add(owner_uid)

    async def _collect(self, uid: str) -> None:
        entry = self._objects.store.by_uid(uid)
        kind = self._objects.registry.get(*entry.collection) if entry else None
        if entry is None or kind is None:
            return
        call = self._objects.call(GARBAGE_COLLECTOR)
        try:
            if entry.deleting:
                await self._release(call, kind, entry)
            elif entry.owners:
                await self._judge(call, kind, entry)
        except StatusError as error:
            if error.code == 404:
                return
            if error.code == 409:
                self.background.add(uid)
                return
            raise

    async def _release(self, call: Call, kind: Kind, owner: StoredObject) -> None:
        """Deal with the dependents of an object whose deletion waits for that."""
        finalizers = owner.decode()["metadata"].get("finalizers") or ()
        dependents = self._objects.store.dependents(owner.uid)
        if ORPHAN in finalizers:
            for dependent in dependents:
                await self._drop_owners(call, dependent, {owner.uid})
            await self._drop_finalizer(call, kind, owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for dependent in dependents:
                if not dependent.deleting:
                    await self._delete(call, dependent, self._policy_below(dependent))
            if not any(
                _blocks(each, owner.uid) for each in self._objects.store.dependents(owner.uid)
            ):
                await self._drop_finalizer(call, kind, owner, FOREGROUND)

    async def _judge(self, call: Call, kind: Kind, dependent: StoredObject) -> None:
        """Delete an object whose owners are all gone or waiting for it; forget gone owners beside
        living ones.
        """
        obj = dependent.decode()
        references = obj["metadata"]["ownerReferences"]
        gone = {each["uid"] for each in references if self._is_gone(kind, dependent, each)}
        waiting = {each["uid"] for each in references if self._waits(each["uid"])} - gone
        if not gone and not waiting:
            return
        if gone | waiting != {each["uid"] for each in references}:
            await self._drop_owners(call, dependent, gone | waiting)
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if waiting:
            policy = self._policy_below(dependent)
        elif ORPHAN in finalizers:
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in finalizers else "Background"
        await self._delete(call, dependent, policy)

    def _is_gone(self, kind: Kind, dependent: StoredObject, reference: JsonObject) -> bool:
        """Whether an owner does not exist; kinds that are not served cannot be judged, so their
        objects count as living.
        """
        owner = self._objects.store.by_uid(reference["uid"])
        if owner is not None:
            return owner.namespace not in {"", dependent.namespace}
        group = reference.get("apiVersion", "").rpartition("/")[0]
        owner_kind = self._objects.registry.by_kind(group, reference.get("kind", ""))
        if owner_kind is None:
            return False
        return not (owner_kind.namespaced and not kind.namespaced)

    def _waits(self, owner_uid: str) -> bool:
        owner = self._objects.store.by_uid(owner_uid)
        if owner is None or not owner.deleting:
            return False
        return FOREGROUND in (owner.decode()["metadata"].get("finalizers") or ())

    def _policy_below(self, dependent: StoredObject) -> str:
        return "Foreground" if self._objects.store.has_dependents(dependent.uid) else "Background"

    async def _delete(self, call: Call, entry: StoredObject, policy: str) -> None:
        kind = self._objects.registry.get(*entry.collection)
        if kind is not None:
            options = DeleteOptions(propagation=policy, uid=entry.uid)
            await _ignore_missing(delete(self._objects, call, target_of(kind, entry), options))

    async def _drop_owners(self, call: Call, entry: StoredObject, uids: set[str]) -> None:
        kind = self._objects.registry.get(*entry.collection)
        if kind is None:
            return

        def without_owners(obj: JsonObject) -> JsonObject:
            kept = [
                each
                for each in obj["metadata"].get("ownerReferences") or ()
                if each["uid"] not in uids
            ]
            return _with_metadata(obj, "ownerReferences", kept)

        await _ignore_missing(
            update(self._objects, call, target_of(kind, entry), Change(produce=without_owners))
        )

    async def _drop_finalizer(
        self, call: Call, kind: Kind, entry: StoredObject, finalizer: str
    ) -> None:
        def without_finalizer(obj: JsonObject) -> JsonObject:
            kept = [each for each in obj["metadata"].get("finalizers") or () if each != finalizer]
            return _with_metadata(obj, "finalizers", kept)

        await _ignore_missing(
            update(self._objects, call, target_of(kind, entry), Change(produce=without_finalizer))
        )


async def _ignore_missing(operation: Any) -> None:
    try:
        await operation
    except StatusError as error:
        if error.code != 404:
            raise


def _with_metadata(obj: JsonObject, name: str, values: list[Any]) -> JsonObject:
    if values:
        obj["metadata"][name] = values
    else:
        obj["metadata"].pop(name, None)
    return obj


def _blocks(dependent: StoredObject, owner_uid: str) -> bool:
    references = dependent.decode()["metadata"].get("ownerReferences") or ()
    return any(each["uid"] == owner_uid and each.get("blockOwnerDeletion") for each in references)
