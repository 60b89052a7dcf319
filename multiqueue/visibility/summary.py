"""PendingWorkloadsSummary: the requested page, and its items as JSON in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from multiqueue.api.v1beta2 import Workload
from multiqueue.lib.digits import is_number
from multiqueue.visibility.positions import Positions
from multiqueue.visibility.refusals import GROUP, bad_request
from multiqueue.visibility.tables import make_table

VERSIONS = ("v1beta2", "v1beta1")
"""The served versions, the preferred one first."""
KIND = "PendingWorkloadsSummary"
DEFAULT_LIMIT, MAX_LIMIT = 1000, 100_000
PIECE = 1000
"""How many items are encoded before other tasks can run; this takes some milliseconds."""

FindWorkload = Callable[[str], Workload | None]


@dataclass(frozen=True, slots=True)
class PageRange:
    """The requested part of a list."""

    offset: int = 0
    limit: int = DEFAULT_LIMIT


def read_page(query: Mapping[str, str]) -> PageRange:
    """Read ``offset`` and ``limit``; values above the cap are cut, 0 means the default.

    Deviates: upstream accepts negative numbers, with undefined results.

    Raises:
        StatusRefusal: 400, names the parameter.
    """
    limit = _number(query, "limit") or DEFAULT_LIMIT
    return PageRange(offset=_number(query, "offset"), limit=min(limit, MAX_LIMIT))


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not is_number(text):
        raise bad_request(f'{name}: Invalid value: "{text}": must be an integer, 0 or more')
    return int(text)


def places(positions: Positions, page: PageRange, local_queue: str | None) -> Sequence[int]:
    """Return the indexes in ``positions.keys`` of a page."""
    end = page.offset + page.limit
    if local_queue is None:
        return range(len(positions.keys))[page.offset : end]
    return positions.by_local_queue.get(local_queue, ())[page.offset : end]


def encode(
    version: str, positions: Positions, wanted: Sequence[int], find: FindWorkload
) -> Iterator[bytes]:
    """Yield the answer in pieces. Workloads that no longer exist are left out."""
    head = {"kind": KIND, "apiVersion": f"{GROUP}/{version}", "metadata": {}}
    yield orjson.dumps(head)[:-1] + b',"items":['
    separator = b""
    for start in range(0, len(wanted), PIECE):
        items = build_items(positions, wanted[start : start + PIECE], find)
        if items:
            yield separator + orjson.dumps(items)[1:-1]
            separator = b","
    yield b"]}\n"


def build_items(
    positions: Positions, wanted: Sequence[int], find: FindWorkload
) -> list[dict[str, Any]]:
    """Return items of a summary."""
    items = []
    for place in wanted:
        workload = find(positions.keys[place])
        if workload is not None:
            items.append(_item(workload, place, positions.in_local_queue[place]))
    return items


def _item(workload: Workload, place: int, place_in_local_queue: int) -> dict[str, Any]:
    meta = workload.metadata
    metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace}
    if meta.creation_timestamp:
        metadata["creationTimestamp"] = meta.creation_timestamp
    if meta.owner_references:
        metadata["ownerReferences"] = [
            {"apiVersion": o.api_version, "kind": o.kind, "name": o.name, "uid": o.uid}
            for o in meta.owner_references
        ]
    return {
        "metadata": metadata,
        "priority": workload.spec.priority or 0,
        "localQueueName": workload.spec.queue_name,
        "positionInClusterQueue": place,
        "positionInLocalQueue": place_in_local_queue,
    }


_COLUMNS = (
    ("Name", "string", "name", "Name of the Workload."),
    ("Namespace", "string", "", "Namespace of the Workload."),
    ("Local Queue", "string", "", "The LocalQueue it was submitted to."),
    ("Priority", "integer", "", "Its priority."),
    ("Position", "integer", "", "Its position in the ClusterQueue, from 0."),
    ("Position In Local Queue", "integer", "", "Its position in the LocalQueue, from 0."),
    ("Created At", "date", "", "When it was created."),
)


def build_table(items: Sequence[Mapping[str, Any]], version: str) -> dict[str, Any]:
    """Return the items as a Table of meta.k8s.io, for kubectl."""
    return make_table(_COLUMNS, [_row(item, version) for item in items], version)


def _row(item: Mapping[str, Any], version: str) -> dict[str, Any]:
    metadata = item["metadata"]
    cells = [
        metadata["name"],
        metadata["namespace"],
        item["localQueueName"],
        item["priority"],
        item["positionInClusterQueue"],
        item["positionInLocalQueue"],
        metadata.get("creationTimestamp", ""),
    ]
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
    }
    return {"cells": cells, "object": partial}
