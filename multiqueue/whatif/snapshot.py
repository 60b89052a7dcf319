"""A snapshot: everything that the manager decides from, in one file. Pure.

The file is gzip of JSON lines. The first line is the header, each further line one object of the
manager's cluster or of a worker. Only listed fields go in (`contents`).
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from multiqueue.api.config import Configuration, ConfigurationError, build_configuration
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.whatif.contents import KIND_BY_NAME, keep_listed

SCHEMA = 1
MAX_BYTES = 100_000_000
"""Limit of the unpacked file: a thousand times 10,000 Workloads would not need it."""
MANAGER = ""
"""The name under which the manager's own objects are kept; workers have theirs."""

Json = dict[str, Any]
Objects = dict[str, dict[str, Json]]
"""Kind -> key -> object."""


class SnapshotError(ValueError):
    """A file is no snapshot that this program can read; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The objects of the manager and of its workers at one time.

    Attributes:
        taken_at: When the objects were read.
        program: The program that wrote the file, with its version.
        configuration: The parts of the manager's Configuration that change decisions.
        notes: What could not be read, each in a sentence.
        clusters: The objects, by the name of the worker; those of the manager under `MANAGER`.
    """

    taken_at: datetime
    program: str = ""
    configuration: Json = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    clusters: dict[str, Objects] = field(default_factory=dict)

    def of(self, kind: str, cluster: str = MANAGER) -> dict[str, Json]:
        """Return the objects of a kind, by key."""
        return self.clusters.get(cluster, {}).get(kind, {})

    def put(self, obj: Json, cluster: str = MANAGER) -> None:
        """Add or replace an object; fields that are not listed are left out."""
        kept = keep_listed(obj)
        by_kind = self.clusters.setdefault(cluster, {})
        by_kind.setdefault(kept["kind"], {})[key_of_object(kept)] = kept

    def remove(self, kind: str, key: str, cluster: str = MANAGER) -> None:
        """Remove an object."""
        del self.clusters[cluster][kind][key]

    def copy(self) -> Snapshot:
        """Return a snapshot that can be changed without changing this one."""
        return replace(self, clusters=orjson.loads(orjson.dumps(self.clusters)))

    def workloads(self) -> dict[str, Workload]:
        """Return the manager's Workloads by key, typed, in the order of their keys."""
        return {key: decode(Workload, obj) for key, obj in sorted(self.of("Workload").items())}

    def read_configuration(self) -> Configuration:
        """Return the manager's Configuration.

        Raises:
            SnapshotError: this program cannot read it.
        """
        try:
            return build_configuration(self.configuration)
        except ConfigurationError as error:
            raise SnapshotError(f"the snapshot's configuration cannot be read: {error}") from error


def key_of_object(obj: Mapping[str, Any]) -> str:
    """Return ``namespace/name``, or the name of an object without a namespace."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def pack(snapshot: Snapshot) -> bytes:
    """Return the file of a snapshot; equal snapshots give equal bytes."""
    return gzip.compress(b"\n".join(_lines(snapshot)) + b"\n", compresslevel=9, mtime=0)


def _lines(snapshot: Snapshot) -> Iterator[bytes]:
    header = {
        "kind": "Snapshot",
        "schema": SCHEMA,
        "time": format_time(snapshot.taken_at),
        "program": snapshot.program,
        "consistent": False,
        "configuration": snapshot.configuration,
        "notes": list(snapshot.notes),
        "objects": sum(
            len(objects) for kinds in snapshot.clusters.values() for objects in kinds.values()
        ),
    }
    yield orjson.dumps(header)
    for cluster, by_kind in sorted(snapshot.clusters.items()):
        for _, objects in sorted(by_kind.items()):
            for _, obj in sorted(objects.items()):
                yield orjson.dumps({"cluster": cluster, "object": obj}, option=orjson.OPT_SORT_KEYS)


def unpack(data: bytes, source: str) -> Snapshot:
    """Read a file.

    Args:
        data: The content of the file.
        source: The name of the file in messages.

    Raises:
        SnapshotError: it is no snapshot, it is cut or too large, or its schema is another one.
    """
    lines = _unzip(data, source).splitlines() or [b"{}"]
    header = _object(lines[0], f'"{source}", line 1')
    if header.get("kind") != "Snapshot":
        raise SnapshotError(
            f'"{source}" is no snapshot: its first line has no kind "Snapshot"; '
            "`multiqueue snapshot -o FILE` writes one"
        )
    if header.get("schema") != SCHEMA:
        raise SnapshotError(
            f'"{source}" has schema {header.get("schema")}, this program reads {SCHEMA}; it was '
            f"written by {header.get('program') or 'another version'}, use that one"
        )
    if header.get("objects") != len(lines) - 1:
        raise SnapshotError(
            f'"{source}" is cut: it has {len(lines) - 1} of {header.get("objects")} objects; '
            "copy the file again, or take another snapshot"
        )
    snapshot = _read_header(header, source)
    for number, line in enumerate(lines[1:], start=2):
        _put_line(snapshot, line, f'"{source}", line {number}')
    return snapshot


def read_lines(header: Json, lines: Iterable[bytes]) -> Snapshot:
    """Read what this program has just written itself, so nothing is checked.

    Args:
        header: ``time``, ``program``, ``configuration`` and ``notes``.
        lines: One object a line, with its ``cluster`` and ``kind``.

    Raises:
        SnapshotError: the header cannot be read.
    """
    snapshot = _read_header(header, "the manager's objects")
    for line in lines:
        record = orjson.loads(line)
        snapshot.put({**record["object"], "kind": record["kind"]}, record["cluster"])
    return snapshot


def _read_header(header: Json, source: str) -> Snapshot:
    try:
        taken_at = parse_time(header["time"])
        notes = tuple(map(str, header["notes"]))
        configuration = dict(header["configuration"])
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f'"{source}": the header cannot be read: {error!r}') from error
    if taken_at is None:
        raise SnapshotError(f'"{source}": the header has no time')
    return Snapshot(
        taken_at=taken_at,
        program=str(header.get("program", "")),
        configuration=configuration,
        notes=notes,
    )


def _put_line(snapshot: Snapshot, line: bytes, where: str) -> None:
    record = _object(line, where)
    obj, cluster = record.get("object"), record.get("cluster")
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    has_name = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
    if not has_name or not isinstance(cluster, str) or not isinstance(obj, dict):
        raise SnapshotError(f"{where} has no object with a name, or no cluster")
    kind = KIND_BY_NAME.get(str(obj.get("kind")))
    if kind is None:
        raise SnapshotError(f'{where}: kind "{obj.get("kind")}" does not belong into a snapshot')
    try:
        if kind.type is not None:
            decode(kind.type, obj)
        snapshot.put(obj, cluster)
    except (ValueError, TypeError, AttributeError) as error:
        raise SnapshotError(f"{where}: {kind.name} cannot be read: {error}") from error


def _object(line: bytes, where: str) -> Json:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise SnapshotError(f"{where} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise SnapshotError(f"{where} is no object")
    return found


def _unzip(data: bytes, source: str) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            content = stream.read(MAX_BYTES + 1)
    except EOFError as error:
        raise SnapshotError(f'"{source}" is cut: copy it again, or take another one') from error
    except (OSError, zlib.error) as error:
        raise SnapshotError(f'"{source}" is no snapshot: {error}') from error
    if len(content) > MAX_BYTES:
        raise SnapshotError(f'"{source}" is too large: more than {MAX_BYTES} bytes unpacked')
    return content
