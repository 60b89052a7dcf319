"""The interface between the store and the storage of committed objects: memory or SQLite."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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


class Storage(Protocol):
    """Keeps writes in their order. Called on the event loop only."""

    def open(self) -> Saved:
        """Read everything back."""

    def start(
        self, on_durable: Callable[[int], None], on_failure: Callable[[Exception], None]
    ) -> None:
        """Begin to accept writes; the callbacks run on the event loop, ``on_durable`` with the
        highest safe revision.
        """

    def append(self, writes: Sequence[Write]) -> None:
        """Queue writes; never blocks."""

    def save_setting(self, name: str, value: bytes) -> None:
        """Keep a small value; durable when it returns."""

    def close(self) -> None:
        """Finish queued writes and let go of files."""
