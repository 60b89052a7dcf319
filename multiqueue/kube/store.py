"""The store of an informer: objects by key and by index. Only the informer writes it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

MAX_VERSION_DIGITS = 20
"""Digits of a resourceVersion: servers count in 64 bits, and long numbers are slow to parse."""

Indexer = Callable[[T], Iterable[str]]


class ObjectKeyAndVersion(NamedTuple):
    """An object's identity, and the version of its state.

    Attributes:
        key: ``namespace/name``, or the name of a cluster-scoped object.
        version: resourceVersion as a number, by which states are ordered; 0 if it is not a number.
        uid: Distinguishes an object from a later one of the same name.
    """

    key: str
    version: int
    uid: str


def identify(obj: Any) -> ObjectKeyAndVersion:
    """Return key and version of a dict or of one of our typed objects."""
    if isinstance(obj, Mapping):
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace"), metadata["name"]
        version, uid = metadata.get("resourceVersion"), metadata.get("uid", "")
    else:
        metadata = obj.metadata
        namespace, name = metadata.namespace, metadata.name
        version, uid = metadata.resource_version, metadata.uid
    key = f"{namespace}/{name}" if namespace else name
    return ObjectKeyAndVersion(key, parse_version(version), uid)


def parse_version(text: object) -> int:
    """Return a resourceVersion as a number; 0 if it is not one."""
    if not isinstance(text, str) or len(text) > MAX_VERSION_DIGITS or not text.isdecimal():
        return 0
    return int(text)


class Store(Generic[T]):
    """Objects by key, with indexes. Returned objects must not be changed."""

    def __init__(self, indexers: Mapping[str, Indexer[T]]) -> None:
        self._objects: dict[str, T] = {}
        self._indexers = dict(indexers)
        # Inner dicts are ordered sets: an index returns objects in order of arrival.
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in indexers}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        """Return one object, or None."""
        return self._objects.get(key)

    def list(self) -> builtins.list[T]:
        """Return all objects."""
        return list(self._objects.values())

    def keys(self) -> builtins.list[str]:
        """Return the keys of all objects."""
        return list(self._objects)

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """Return the objects for which the index gave this value.

        Raises:
            KeyError: there is no such index.
        """
        keys = self._indexes[index].get(value, ())
        return [self._objects[key] for key in keys]

    def put(self, key: str, obj: T) -> None:
        """Add or replace an object; if an indexer raises, nothing is changed."""
        old = self._objects.get(key)
        changes = []
        for name, indexer in self._indexers.items():
            before = set(indexer(old)) if old is not None else set()
            after = set(indexer(obj))
            if before != after:
                changes.append((name, before - after, after - before))
        self._objects[key] = obj
        for name, removed, added in changes:
            self._reindex(name, key, removed, added)

    def remove(self, key: str) -> None:
        """Remove an object that is here."""
        obj = self._objects.pop(key)
        for name, indexer in self._indexers.items():
            self._reindex(name, key, set(indexer(obj)), set())

    def _reindex(self, name: str, key: str, removed: set[str], added: set[str]) -> None:
        index = self._indexes[name]
        for value in removed:
            keys = index[value]
            del keys[key]
            if not keys:
                del index[value]
        for value in added:
            index.setdefault(value, {})[key] = None
