"""A row of an answer, and topics: what has rows, and which of them there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from multiqueue.visibility.fleet.journal import Journal
from multiqueue.visibility.fleet.resources import FleetResource

Json = dict[str, Any]

STEP = 20
"""Rows that are built before other tasks run; this takes one or two milliseconds."""
SHARE = 20
"""Derived rows are built at most one twentieth of the time."""
EVERY_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One row.

    Attributes:
        key: Its identity in the feed.
        metadata: Its identity as an object.
        status: Its fields, in the order of the resource's columns.
        encoded: The row as an array in JSON: the key and the fields.
    """

    key: str
    metadata: Json
    status: Json
    encoded: bytes

    @staticmethod
    def of(key: str, metadata: Json, status: Json) -> FleetRow:
        """Return a row; it is encoded here, once for all readers."""
        return FleetRow(key, metadata, status, orjson.dumps([key, *status.values()]))

    def as_item(self) -> Json:
        """Return the row as an item of a list."""
        return {"metadata": self.metadata, "status": self.status}


class RowSource(Protocol):
    """The rows of one resource; ``built`` counts how many were built since the start."""

    resource: FleetResource
    built: int

    async def refresh(self) -> None:
        """Bring the rows up to date, and note changed ones in the journal."""
        ...

    def list_keys(self) -> Iterable[str]:
        """Return the keys of all rows."""
        ...

    async def find_rows(self, keys: Sequence[str]) -> list[FleetRow]:
        """Return the rows of these keys that exist."""
        ...


class DerivedRows:
    """Rows that are computed from other things when somebody reads them.

    They are built again after at least a quarter of a second, and so rarely that it takes at most
    one twentieth of the time. Only rows that differ are noted as changed.

    Args:
        resource: What the rows are.
        journal: Where changes are noted.
        build: Yields all rows; other tasks run between two of its steps.
        prepare: Runs before ``build``.

    Attributes:
        built: How many rows were built since the start.
    """

    def __init__(
        self,
        resource: FleetResource,
        journal: Journal,
        build: Callable[[], Iterator[tuple[str, Json, Json]]],
        prepare: Callable[[], Any],
    ) -> None:
        self.resource = resource
        self._journal = journal
        self._build = build
        self._prepare = prepare
        self.built = 0
        self._rows: dict[str, FleetRow] = {}
        self._due_at = 0.0
        self._building = asyncio.Lock()

    async def refresh(self) -> None:
        """Build the rows again if that is due."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._due_at:
            return
        async with self._building:
            if loop.time() < self._due_at:
                return  # another reader has built them meanwhile
            await self._prepare()
            spent, rows = 0.0, {}
            begun = loop.time()
            for count, (key, metadata, status) in enumerate(self._build(), start=1):
                rows[key] = FleetRow.of(key, metadata, status)
                if count % STEP == 0:
                    spent += loop.time() - begun
                    await asyncio.sleep(0)
                    begun = loop.time()
            spent += loop.time() - begun
            self._due_at = loop.time() + max(EVERY_SECONDS, spent * SHARE)
            self.built += len(rows)
            self._take(rows)

    def _take(self, rows: dict[str, FleetRow]) -> None:
        for key in self._rows.keys() | rows.keys():
            old, new = self._rows.get(key), rows.get(key)
            if old is None or new is None or old.encoded != new.encoded:
                self._journal.note(self.resource.plural, key)
        self._rows = rows

    def list_keys(self) -> Iterable[str]:
        """Return the keys of all rows, in the order in which they were built."""
        return list(self._rows)

    async def find_rows(self, keys: Sequence[str]) -> list[FleetRow]:
        """Return the rows of these keys that exist."""
        return [self._rows[key] for key in keys if key in self._rows]
