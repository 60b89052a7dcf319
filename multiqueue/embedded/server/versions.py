"""The same object in another version of its kind."""

from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion


def noted_as_admitted(kind: Kind, version: KindVersion) -> KindVersion | None:
    """What an entry says of an object that this version admitted; see :attr:`Entry.admitted`."""
    return version if not kind.builtin and version.storage else None


def from_storage(kind: Kind, version: KindVersion, obj: JsonObject) -> JsonObject:
    """Convert from the storage version; takes the object over."""
    if version.storage:
        return obj
    if version.from_storage is not None:
        return version.from_storage(obj)
    return {**obj, "apiVersion": kind.api_version(version.name), "kind": kind.kind}


def to_storage(kind: Kind, version: KindVersion, obj: JsonObject) -> JsonObject:
    """Convert to the storage version; takes the object over."""
    if version.storage:
        return obj
    if version.to_storage is not None:
        return version.to_storage(obj)
    return {**obj, "apiVersion": kind.api_version(kind.storage_version.name), "kind": kind.kind}


def convert(kind: Kind, given: KindVersion, wanted: KindVersion, obj: JsonObject) -> JsonObject:
    """Convert between two versions of a kind; takes the object over."""
    return obj if given is wanted else from_storage(kind, wanted, to_storage(kind, given, obj))
