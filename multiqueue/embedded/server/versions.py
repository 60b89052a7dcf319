"""The same object in another version of its kind."""

import orjson

from multiqueue.embedded.server.entry import Entry, encode_bare, with_owners
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion


def is_stored_in(kind: Kind, version: KindVersion) -> bool:
    """Whether objects are kept exactly as this version shows them.

    Those that a webhook converts may be kept as an earlier storage version showed them.
    """
    return version.storage and kind.stored_as is None and kind.conversion is None


def noted_as_admitted(kind: Kind, version: KindVersion) -> KindVersion | None:
    """What an entry says of an object that this version admitted; see :attr:`Entry.admitted`."""
    return version if not kind.builtin and is_stored_in(kind, version) else None


def in_version(kind: Kind, version: KindVersion, entry: Entry) -> bytes:
    """An object's JSON in a version."""
    if is_stored_in(kind, version):
        return entry.raw
    return with_owners(bare_in(kind, version, entry), entry.managed)


def bare_in(kind: Kind, version: KindVersion, entry: Entry) -> bytes:
    """The same without managedFields; made once per state."""
    if is_stored_in(kind, version):
        return entry.bare
    key = kind.api_version(version.name)
    bare = entry.versions.get(key)
    if bare is None:
        converted = from_storage(kind, version, orjson.loads(entry.bare))
        bare = entry.versions[key] = encode_bare(converted)
    return bare


def decode_in(kind: Kind, version: KindVersion, entry: Entry) -> JsonObject:
    """A fresh copy of an object in a version."""
    obj: JsonObject = orjson.loads(in_version(kind, version, entry))
    return obj


def decode_bare_in(kind: Kind, version: KindVersion, entry: Entry) -> JsonObject:
    """The same without managedFields, which ``entry.managed`` has."""
    obj: JsonObject = orjson.loads(bare_in(kind, version, entry))
    return obj


def from_storage(kind: Kind, version: KindVersion, obj: JsonObject) -> JsonObject:
    """Convert from the storage version; takes the object over."""
    if is_stored_in(kind, version):
        return obj
    _check_converts_here(kind)
    if version.from_storage is not None:
        return version.from_storage(obj)
    return {**obj, "apiVersion": kind.api_version(version.name), "kind": kind.kind}


def to_storage(kind: Kind, version: KindVersion, obj: JsonObject) -> JsonObject:
    """Convert to the storage version; takes the object over."""
    if is_stored_in(kind, version):
        return obj
    _check_converts_here(kind)
    if version.to_storage is not None:
        return version.to_storage(obj)
    return {**obj, "apiVersion": kind.api_version(kind.storage_version.name), "kind": kind.kind}


def _check_converts_here(kind: Kind) -> None:
    if kind.conversion is not None:
        raise RuntimeError(f"{kind.resource} was not prepared: its webhook is to be asked before")


def convert(kind: Kind, given: KindVersion, wanted: KindVersion, obj: JsonObject) -> JsonObject:
    """Convert between two versions of a kind; takes the object over."""
    return obj if given is wanted else from_storage(kind, wanted, to_storage(kind, given, obj))
