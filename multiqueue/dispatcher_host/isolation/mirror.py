"""Clusters of a view as they go to a process: what it knows already is not said again.

Between two questions little changes of most clusters. Each side keeps the same numbered rows: one
for each cluster, and one for each queue of a cluster. The manager writes what a row holds, and
sends it where it is other bytes than the last ones, so nothing depends on who changed what.
Forecasts belong to the Workload that is asked about and are always sent.

The process may do with its rows what it likes: they are its own, and go with it.
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
"""Of a process; then all is sent again, to the same rows. One takes about 3 KiB there."""
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
        number: Of the cluster's row.
        cluster: What is in it now, its queue and forecast left out; empty: what was there.
        queue_number: Of its queue's row, or `NO_QUEUE`.
        queue: What is in that now; empty: what was there.
        forecast: As in the view.
    """

    number: int
    cluster: bytes
    queue_number: int
    queue: bytes
    forecast: Forecast | None


class RowWriter:
    """Writes clusters for one process, which reads all that is written, in order."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._known: list[bytes] = []

    def write(self, clusters: Iterable[ClusterView]) -> tuple[ClusterRow, ...]:
        """Return what there is to say about them."""
        if len(self._known) >= MOST_ROWS:
            self._numbers, self._known = {}, []
        return tuple(map(self._write, clusters))

    def _write(self, cluster: ClusterView) -> ClusterRow:
        queue = cluster.queue
        number, said = self._put((cluster.name, ""), _ENCODER.encode(_values_of(cluster)))
        queue_number, queue_said = NO_QUEUE, b""
        if queue is not None:
            # A name of its own each: a queue without a name is none of Kubernetes'.
            key = (cluster.name, f"/{queue.name}")
            queue_number, queue_said = self._put(key, _ENCODER.encode(queue))
        return ClusterRow(number, said, queue_number, queue_said, cluster.forecast)

    def _put(self, key: tuple[str, str], body: bytes) -> tuple[int, bytes]:
        """Return the number of a row, and what is to be said of it."""
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
    """Reads what one `RowWriter` writes, into values that cannot be changed."""

    def __init__(self) -> None:
        self._rows: dict[int, Any] = {}

    def read(self, rows: Iterable[ClusterRow]) -> tuple[ClusterView, ...]:
        """Return the clusters of the view. Where it raises, nothing more can be read."""
        return tuple(map(self._read, rows))

    def _read(self, row: ClusterRow) -> ClusterView:
        rows = self._rows
        if row.cluster:
            named = dict(zip(_NAMES, _CLUSTERS.decode(row.cluster), strict=True))
            frozen = freeze(ClusterView(**named))
            rows[row.number] = dict(zip(_NAMES, _values_of(frozen), strict=True))
        if row.queue:
            rows[row.queue_number] = freeze(_QUEUES.decode(row.queue))
        queue = rows[row.queue_number] if row.queue_number != NO_QUEUE else None
        return ClusterView(**rows[row.number], queue=queue, forecast=freeze(row.forecast))
