"""One state of one stored object."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from multiqueue.apiserver.kinds import GroupPlural, JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One state of one object. Immutable: watchers, history and readers share it."""

    collection: GroupPlural
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str
    revision: int
    raw: bytes
    """JSON in the storage version."""
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """Values of selectable fields."""
    owners: tuple[str, ...]
    """uids of the owners."""
    deleting: bool
    versions: dict[str, bytes] = field(default_factory=dict)
    """JSON in other versions, made when first asked for."""

    def decode(self) -> JsonObject:
        """A fresh copy of the object in its storage version."""
        obj: JsonObject = orjson.loads(self.raw)
        return obj
