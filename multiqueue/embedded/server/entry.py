"""One state of one stored object, in each version of its kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

import orjson

from multiqueue.embedded.server.kinds import GroupPlural, JsonObject, Kind, KindVersion
from multiqueue.embedded.server.managed.owners import Owners, encode
from multiqueue.embedded.server.versions import from_storage

HEAD = ["apiVersion", "kind", "metadata"]
LATELY_SHOWN = 32
"""Whole JSON of so many states is kept."""
METADATA = b'"metadata":{'


@dataclass(frozen=True, slots=True, eq=False)
class StoredObject:
    """One state of one object. Immutable: watchers, history and readers share it."""

    collection: GroupPlural
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str
    revision: int
    bare: bytes
    """JSON in the storage version, without managedFields; see :func:`encode_bare`."""
    managed: Owners
    """What managedFields says; kept apart, since most of it is shared between objects."""
    labels: Mapping[str, str]
    owners: tuple[str, ...]
    """uids of the owners."""
    deleting: bool
    admitted: KindVersion | None = None
    """The version whose schema the JSON came through as it is; None: not known."""
    versions: dict[str, bytes] = field(default_factory=dict)
    """Bare JSON in other versions, made when first asked for."""
    fields: dict[str, str] = field(default_factory=dict)
    """Values of selectable fields, likewise; see :meth:`select`."""

    def select(self, name: str, read: Callable[[JsonObject], str]) -> str:
        """The value of a selectable field, read once: most states are never selected by one."""
        value = self.fields.get(name)
        if value is None:
            value = self.fields[name] = read(self.decode_bare())
        return value

    @property
    def raw(self) -> bytes:
        """JSON in the storage version."""
        return _raw(self)

    def decode(self) -> JsonObject:
        """A fresh copy of the object in its storage version."""
        obj: JsonObject = orjson.loads(self.raw)
        return obj

    def decode_bare(self) -> JsonObject:
        """The same without managedFields."""
        obj: JsonObject = orjson.loads(self.bare)
        return obj


@lru_cache(maxsize=LATELY_SHOWN)
def _raw(entry: StoredObject) -> bytes:
    """A new state goes to the storage, to its author and to every watcher, all at once."""
    return with_owners(entry.bare, entry.managed)


def encode_bare(obj: JsonObject) -> bytes:
    """JSON that begins with apiVersion, kind and metadata, so that :func:`with_owners` finds its
    place; the object has no managedFields.
    """
    if list(islice(obj, len(HEAD))) != HEAD:
        obj = {**{name: obj[name] for name in HEAD}, **obj}
    return orjson.dumps(obj)


def with_owners(bare: bytes, owners: Owners) -> bytes:
    """Bare JSON with managedFields in its metadata."""
    if not owners:
        return bare
    place = bare.index(METADATA) + len(METADATA)
    return b"".join((bare[:place], b'"managedFields":', encode(owners), b",", bare[place:]))


def in_version(kind: Kind, version: KindVersion, entry: StoredObject) -> bytes:
    """An object's JSON in a version."""
    if version.storage:
        return entry.raw
    return with_owners(bare_in(kind, version, entry), entry.managed)


def bare_in(kind: Kind, version: KindVersion, entry: StoredObject) -> bytes:
    """The same without managedFields; made once per state."""
    if version.storage:
        return entry.bare
    key = kind.api_version(version.name)
    bare = entry.versions.get(key)
    if bare is None:
        converted = from_storage(kind, version, orjson.loads(entry.bare))
        bare = entry.versions[key] = encode_bare(converted)
    return bare


def decode_in(kind: Kind, version: KindVersion, entry: StoredObject) -> JsonObject:
    """A fresh copy of an object in a version."""
    obj: JsonObject = orjson.loads(in_version(kind, version, entry))
    return obj


def decode_bare_in(kind: Kind, version: KindVersion, entry: StoredObject) -> JsonObject:
    """The same without managedFields, which ``entry.managed`` has."""
    obj: JsonObject = orjson.loads(bare_in(kind, version, entry))
    return obj
