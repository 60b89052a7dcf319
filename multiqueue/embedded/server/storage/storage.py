"""The interface between the store and the storage of committed objects: memory or SQLite."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from multiqueue.embedded.server.kinds import GroupPlural


@dataclass(frozen=True, slots=True)
class Write:
    """One change: the object's new bytes in its storage version, or None if it is gone."""

    revision: int
    collection: GroupPlural
    namespace: str
    name: str
    raw: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a storage held when it was opened."""

    revision: int = 0
    objects: Iterable[tuple[GroupPlural, bytes]] = ()
    settings: Mapping[str, bytes] = field(default_factory=dict)
    """Small values that belong to the server: tokens, certificates."""


class StorageFailed(Exception):  # noqa: N818 - says what happened
    """The storage could not keep a change."""


class Storage(Protocol):
    """Keeps writes in their order. Called on the event loop only."""

    def open(self) -> Saved:
        """Read everything back."""

    def write(self, write: Write) -> None:
        """Keep a change; when this returns, it survives the end of the process.

        Raises:
            StorageFailed: it is not kept.
        """

    def save_setting(self, name: str, value: bytes) -> None:
        """Keep a small value."""

    def close(self) -> None:
        """Let go of files."""
