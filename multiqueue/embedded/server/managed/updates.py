"""What a write does to the owners of fields, whoever writes and however.

Cost: the walk over what differs, and set operations on the top-level fields concerned; the other
parts of the entries are not even decoded.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion
from multiqueue.embedded.server.managed.compare import NOTHING, ManagedDifference, difference_of
from multiqueue.embedded.server.managed.field_sets import (
    EMPTY,
    LEAF,
    Tree,
    difference,
    intersection,
    union,
)
from multiqueue.embedded.server.managed.merge_types import MergeType, root_type
from multiqueue.embedded.server.managed.owners import (
    UPDATE,
    FieldOwner,
    FieldWriter,
    Owners,
    RememberedStep,
    decode_part,
    element_of,
    encode_part,
    sort,
    writer,
)
from multiqueue.embedded.server.versions import convert

MAX_UPDATERS = 10
"""As in Kubernetes: beyond it the oldest updaters become one entry per version."""
ANCIENT = "ancient-changes"

_SERVER_FIELDS = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
)
STRIPPED: Tree = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {**LEAF, **{f"f:{name}": LEAF for name in _SERVER_FIELDS}},
}
"""Fields that nobody owns."""


def reset_fields(version: KindVersion, subresource: str, *, builtin: bool) -> Tree:
    """Top-level fields that a write through this subresource does not change, whatever it says."""
    if subresource == "status":
        return _BUILTIN_STATUS if builtin else _CUSTOM_STATUS
    return _MAIN if version.has_status else EMPTY


_MAIN: Tree = {"f:status": LEAF}
_BUILTIN_STATUS: Tree = {"f:spec": LEAF}
_CUSTOM_STATUS: Tree = {"f:metadata": LEAF, "f:spec": LEAF}


class States:
    """Two states of one object, in any version of its kind, and how they differ there."""

    def __init__(
        self, kind: Kind, version: KindVersion, *, old: JsonObject, new: JsonObject, reset: Tree
    ) -> None:
        self.kind = kind
        self.version = version
        self._old, self._new, self._reset = old, new, reset
        self._api_version = kind.api_version(version.name)
        self._found: dict[str, ManagedDifference | None] = {}

    def difference(self, api_version: str) -> ManagedDifference | None:
        """How they differ in a version; None: there is no such version."""
        if api_version not in self._found:
            self._found[api_version] = self._compare(api_version)
        return self._found[api_version]

    @property
    def own(self) -> ManagedDifference:
        """The same in the version of the request."""
        return self.difference(self._api_version) or NOTHING

    def _compare(self, api_version: str) -> ManagedDifference | None:
        version = find_version(self.kind, api_version)
        if version is None:
            return None
        old, new = self._old, self._new
        if version is not self.version:
            old = converted(self.kind, self.version, version, old)
            new = converted(self.kind, self.version, version, new)
        if self._reset:
            old, new = _without_fields(old, self._reset), _without_fields(new, self._reset)
        return difference_of(type_of(self.kind, version), old, new)


def _without_fields(obj: JsonObject, fields: Tree) -> JsonObject:
    """An object without the top-level fields of a tree."""
    return {name: value for name, value in obj.items() if f"f:{name}" not in fields}


def find_version(kind: Kind, api_version: str) -> KindVersion | None:
    """The version of a kind that an entry names, if there still is one."""
    group, _, name = api_version.rpartition("/")
    if group != kind.group:
        return None
    return next((version for version in kind.versions if version.name == name), None)


def type_of(kind: Kind, version: KindVersion) -> MergeType:
    """How whole objects of a version merge."""
    return root_type(version, builtin=kind.builtin)


def converted(
    kind: Kind, given: KindVersion, wanted: KindVersion, obj: Mapping[str, Any]
) -> JsonObject:
    """An object in another version; what was given is not changed."""
    if given is wanted or not obj:
        return dict(obj)
    copy: JsonObject = orjson.loads(orjson.dumps(obj))
    return convert(kind, given, wanted, copy)


def after_update(owners: Owners, states: States, who: FieldWriter, now: str) -> Owners:
    """The owners after a write that is not an apply: what it set is the writer's, what it
    removed is nobody's.
    """
    changed, removed = states.own
    if not changed and not removed:
        return owners
    mine: FieldOwner | None = None
    kept: list[FieldOwner] = []
    for owner in owners:
        found = states.difference(owner.writer.api_version)
        if found is None:
            continue
        if owner.writer is who or owner.writer == who:
            mine = without(owner, found.removed) if found.removed else owner
        elif rest := without_both(owner, found):
            kept.append(rest)
    gained = difference(changed, STRIPPED)
    if gained:
        mine = FieldOwner(who, now, _joined(mine.fields if mine is not None else (), gained))
    if mine is not None:
        kept.append(mine)
    return _capped(sort(kept))


def without_both(owner: FieldOwner, found: ManagedDifference) -> FieldOwner | None:
    """An entry without what changed and what was removed; None if nothing is left."""
    rest = without(owner, found.changed) if found.changed else owner
    return without(rest, found.removed) if rest is not None and found.removed else rest


def without(owner: FieldOwner, fields: Tree) -> FieldOwner | None:
    """An entry without some fields; None if nothing is left."""
    parts: list[bytes] = []
    touched = False
    for part in owner.fields:
        lost = fields.get(element_of(part))
        rest = part if lost is None else _part_without(part, lost)
        touched = touched or rest != part
        if rest:
            parts.append(rest)
    if not touched:
        return owner
    return FieldOwner(owner.writer, owner.time, tuple(parts)) if parts else None


@RememberedStep
def _part_without(part: bytes, lost: Tree) -> bytes:
    """An encoded part without some fields; empty if nothing is left."""
    element, tree = decode_part(part)
    rest = difference(tree, lost)
    if rest is tree:
        return part
    return encode_part(element, rest) if rest else b""


def _joined(fields: tuple[bytes, ...], gained: Tree) -> tuple[bytes, ...]:
    """The encoded fields and others."""
    parts = {element_of(part): part for part in fields}
    joined = False
    for element, below in gained.items():
        part = parts.get(element)
        wanted = _part_with(part or orjson.dumps(element), below) if below else part
        if wanted is not None and wanted != part:
            parts[element] = wanted
            joined = True
    return tuple(parts[element] for element in sorted(parts)) if joined else fields


@RememberedStep
def _part_with(part: bytes, gained: Tree) -> bytes:
    """An encoded part with other fields; a new one is its element alone."""
    element, tree = decode_part(part) if part.endswith(b"}") else (orjson.loads(part), EMPTY)
    return encode_part(element, union(tree, gained))


def overlap(owner: FieldOwner, fields: Tree) -> Tree:
    """The fields of an entry that are among these."""
    found = {}
    for part in owner.fields:
        if element_of(part) in fields:
            element, tree = decode_part(part)
            if common := intersection(tree, fields[element]):
                found[element] = common
    return found


def _capped(owners: Owners) -> Owners:
    """Join the oldest updaters of a version until there are few enough."""
    if len(owners) <= MAX_UPDATERS:
        return owners
    updaters = [owner for owner in owners if owner.writer.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return owners
    kept = {owner.writer: owner for owner in owners}
    oldest: dict[str, FieldWriter] = {}
    for owner in updaters:
        version = owner.writer.api_version
        bucket = writer(operation=UPDATE, manager=ANCIENT, api_version=version)
        if excess <= 0:
            break
        if version not in oldest or owner.writer == bucket:
            oldest.setdefault(version, owner.writer)
            continue
        first = kept.pop(bucket, None) or kept.pop(oldest[version])
        del kept[owner.writer]
        kept[bucket] = FieldOwner(bucket, owner.time, _joined(first.fields, owner.tree))
        excess -= 1
    return sort(kept.values())
