"""Send the clusters of views to a process, leaving out what the process already knows.

Most clusters change little between two questions. Both sides keep the same numbered rows: one for
each cluster, and one for each queue of a cluster. The manager encodes each row and sends it only if
its bytes differ from the last ones sent, so no change can be missed. Forecasts belong to the
Workload that is asked about and are always sent.

The process may change its rows at will: it has its own copies, which end with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Any, get_type_hints

import msgspec

from multiqueue.dispatcher_host.frozen import freeze
from multiqueue.plugins import ClusterView, Forecast, QueueView

MOST_ROWS = 4096
"""Most rows of a process (about 3 KiB each there); then all rows are sent again."""
NO_QUEUE = -1
_APART = ("queue", "forecast")
_NAMES = tuple(field.name for field in fields(ClusterView) if field.name not in _APART)
_TYPES = tuple(get_type_hints(ClusterView)[name] for name in _NAMES)

_values_of = attrgetter(*_NAMES)
_ENCODER = msgspec.msgpack.Encoder()
_CLUSTERS = msgspec.msgpack.Decoder(tuple[_TYPES])  # type: ignore[valid-type]
_QUEUES = msgspec.msgpack.Decoder(QueueView)


class ClusterRow(msgspec.Struct, array_like=True, frozen=True):
    """One cluster of a view.

    Attributes:
        number: Number of the cluster's row.
        cluster: New content of that row, without queue and forecast; empty: unchanged.
        queue_number: Number of its queue's row, or `NO_QUEUE`.
        queue: New content of that row; empty: unchanged.
        forecast: The forecast of the view.
    """

    number: int
    cluster: bytes
    queue_number: int
    queue: bytes
    forecast: Forecast | None


class RowWriter:
    """Writes clusters for one process, which must read everything in the same order."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._known: list[bytes] = []

    def write(self, clusters: Iterable[ClusterView]) -> tuple[ClusterRow, ...]:
        """Return the rows to send for these clusters."""
        if len(self._known) >= MOST_ROWS:
            self._numbers, self._known = {}, []
        return tuple(map(self._write, clusters))

    def _write(self, cluster: ClusterView) -> ClusterRow:
        queue = cluster.queue
        number, said = self._put((cluster.name, ""), _ENCODER.encode(_values_of(cluster)))
        queue_number, queue_said = NO_QUEUE, b""
        if queue is not None:
            # The slash keeps queue keys distinct from cluster keys.
            key = (cluster.name, f"/{queue.name}")
            queue_number, queue_said = self._put(key, _ENCODER.encode(queue))
        return ClusterRow(number, said, queue_number, queue_said, cluster.forecast)

    def _put(self, key: tuple[str, str], body: bytes) -> tuple[int, bytes]:
        """Return the number of a row, and the content to send (empty if unchanged)."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._known)
            self._known.append(body)
        elif self._known[number] == body:
            return number, b""
        else:
            self._known[number] = body
        return number, body


class Reader:
    """Reads the rows of one `RowWriter` into values that cannot be changed."""

    def __init__(self) -> None:
        self.rows: dict[int, Any] = {}

    def read(self, rows: Iterable[ClusterRow]) -> tuple[ClusterView, ...]:
        """Return the clusters of the view. After an error, nothing more can be read."""
        return tuple(map(self.read_row, rows))

    def read_row(self, row: ClusterRow) -> ClusterView:
        """Return the worker of a row; raises KeyError if its parts were never sent."""
        rows = self.rows
        if row.cluster:
            named = dict(zip(_NAMES, _CLUSTERS.decode(row.cluster), strict=True))
            frozen = freeze(ClusterView(**named))
            rows[row.number] = dict(zip(_NAMES, _values_of(frozen), strict=True))
        if row.queue:
            rows[row.queue_number] = freeze(_QUEUES.decode(row.queue))
        queue = rows[row.queue_number] if row.queue_number != NO_QUEUE else None
        return ClusterView(**rows[row.number], queue=queue, forecast=freeze(row.forecast))
