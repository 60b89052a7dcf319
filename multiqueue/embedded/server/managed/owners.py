"""Who manages which fields of an object: ``metadata.managedFields`` in a compact, shared form.

An object's owners are kept beside its JSON, not in it: the writers are shared by all objects, and
the field sets, split by top-level field and encoded, by all objects that have them in common. Only
what a change concerns is ever decoded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from multiqueue.embedded.server.managed.field_sets import Tree, from_wire, to_wire
from multiqueue.embedded.server.schema.typed import Findings, MismatchError, compile_typed, mismatch
from multiqueue.embedded.server.schema.types import schema_of

APPLY, UPDATE = "Apply", "Update"
FIELDS_TYPE = "FieldsV1"
MANAGED_FIELDS = "managedFields"
REMEMBERED = 8192
"""Parts of field sets that are kept for sharing, decoded and encoded."""
LONGEST_REMEMBERED = 16 * 1024
"""Bytes; longer ones are worked out anew each time."""


@dataclass(frozen=True, slots=True)
class FieldWriter:
    """Who wrote how. Appliers are one whatever version they applied in."""

    operation: str
    manager: str
    api_version: str
    subresource: str
    head: bytes = field(init=False, compare=False, repr=False)
    tail: bytes = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        named = {"manager": self.manager} if self.manager else {}
        head = {**named, "operation": self.operation, "apiVersion": self.api_version}
        sub = {"subresource": self.subresource} if self.subresource else {}
        tail = orjson.dumps({"fieldsType": FIELDS_TYPE, **sub})
        object.__setattr__(self, "head", orjson.dumps(head)[:-1])
        object.__setattr__(self, "tail", b"," + tail[1:-1] + b',"fieldsV1":{')

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes two entries one."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.operation, self.manager, version, self.subresource)


@lru_cache(maxsize=REMEMBERED)
def writer(*, operation: str, manager: str, api_version: str, subresource: str = "") -> FieldWriter:
    """The shared writer."""
    return FieldWriter(operation, manager, api_version, subresource)


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """One entry of managedFields."""

    writer: FieldWriter
    time: str
    """RFC 3339, whole seconds, UTC; empty if it never changed a value."""
    fields: tuple[bytes, ...]
    """``"f:spec":{...}`` for each top-level field, in their order."""

    @property
    def tree(self) -> Tree:
        """All fields."""
        return dict(map(decode_part, self.fields))


Owners = tuple[FieldOwner, ...]
NOBODY: Owners = ()


@lru_cache(maxsize=REMEMBERED)
def _shared(part: bytes) -> bytes:
    return part


def decode_part(part: bytes) -> tuple[str, Tree]:
    """(top-level element, tree below it) of an encoded part."""
    return _known(part) if len(part) <= LONGEST_REMEMBERED else _decode(part)


def _decode(part: bytes) -> tuple[str, Tree]:
    ((element, fields),) = orjson.loads(b"{" + part + b"}").items()
    return element, from_wire({element: fields})[element]


_known = lru_cache(maxsize=REMEMBERED)(_decode)


def element_of(part: bytes) -> str:
    """The top-level element of an encoded part, without decoding the rest."""
    element = part[1 : part.index(b'"', 1)]
    return element.decode() if b"\\" not in element else decode_part(part)[0]


def encode_part(element: str, tree: Tree) -> bytes:
    """A top-level field and what is below it, as it stands in ``fieldsV1``."""
    encoded = orjson.dumps({element: to_wire(tree)}, option=orjson.OPT_SORT_KEYS)[1:-1]
    return _shared(encoded) if len(encoded) <= LONGEST_REMEMBERED else encoded


class RememberedStep:
    """A step from one encoded part to another by a tree. Writes repeat themselves: a kind's
    objects go through the same few states, so most steps were taken before.
    """

    def __init__(self, step: Callable[[bytes, Tree], bytes]) -> None:
        self._step = step
        self._taken = lru_cache(maxsize=REMEMBERED)(self._take)

    def __call__(self, part: bytes, tree: Tree) -> bytes:
        """The outcome."""
        key = orjson.dumps(tree)
        if len(part) + len(key) > LONGEST_REMEMBERED:
            return self._step(part, tree)
        return self._taken(part, key)

    def _take(self, part: bytes, key: bytes) -> bytes:
        return self._step(part, orjson.loads(key))


def encode_tree(tree: Tree) -> tuple[bytes, ...]:
    """All parts, in their order."""
    return tuple(encode_part(element, tree[element]) for element in sorted(tree))


def encode(owners: Owners) -> bytes:
    """The JSON of managedFields."""
    entries = []
    for owner in owners:
        time = b',"time":"' + owner.time.encode() + b'"' if owner.time else b""
        who = owner.writer
        entries.append(who.head + time + who.tail + b",".join(owner.fields) + b"}}")
    return b"[" + b",".join(entries) + b"]"


def sort(owners: Iterable[FieldOwner]) -> Owners:
    """Appliers first, then by time and name."""
    found = tuple(owners)
    return found if len(found) < 2 else tuple(sorted(found, key=_rank))


def _rank(owner: FieldOwner) -> tuple[str, str, str, str, str]:
    who = owner.writer
    return (who.operation, owner.time, who.manager, who.api_version, who.subresource)


def same_fields(left: Owners, right: Owners) -> bool:
    """Whether two states say the same, times aside."""
    return left is right or (
        len(left) == len(right)
        and {each.writer: each.fields for each in left}
        == {each.writer: each.fields for each in right}
    )


_entries = compile_typed({"type": "array", "items": schema_of("meta.ManagedFieldsEntry")})


def check_shape(value: Any) -> str | None:
    """Words for a managedFields that is not a list of entries."""
    if value is None:
        return None
    try:
        _entries(value, Findings())
    except MismatchError:
        schema = {"properties": {"metadata": schema_of("meta.ObjectMeta")}}
        return mismatch(schema, {"metadata": {MANAGED_FIELDS: value}})
    return None


def parse(value: Sequence[Mapping[str, Any]]) -> Owners:
    """The owners that a managedFields names; entries without fields are left out.

    Raises:
        ValueError: an entry is not valid; the words are Kubernetes'.
    """
    found: dict[tuple[str, str, str, str], FieldOwner] = {}
    clean = _entries(value, Findings())
    for index, entry in enumerate(clean):
        operation, api_version = entry.get("operation", ""), entry.get("apiVersion", "")
        fields_type = entry.get("fieldsType", "")
        if operation not in {APPLY, UPDATE}:
            raise ValueError("operation must be `Apply` or `Update`")
        if not api_version:
            raise ValueError("apiVersion must not be empty")
        if not fields_type:
            raise ValueError(f"missing fieldsType in managed fields entry {index}")
        if fields_type != FIELDS_TYPE:
            raise ValueError(f'invalid fieldsType "{fields_type}" in managed fields entry {index}')
        who = writer(
            operation=operation,
            manager=entry.get("manager", ""),
            api_version=api_version,
            subresource=entry.get("subresource", ""),
        )
        fields = entry.get("fieldsV1") or {}
        if not isinstance(fields, Mapping):
            raise ValueError("error decoding set: not an object")  # noqa: TRY004 - bad input
        tree = {key: each for key, each in from_wire(fields).items() if key != "."}
        found[who.identity] = FieldOwner(who, entry.get("time") or "", encode_tree(tree))
    return sort(owner for owner in found.values() if owner.fields)


def is_reset(value: Any) -> bool:
    """Whether a user asks to forget all owners: ``[]`` or ``[{}]``."""
    return isinstance(value, list) and (not value or value == [{}])


def take(metadata: dict[str, Any]) -> Owners:
    """Take managedFields that the server itself wrote out of an object's metadata."""
    value = metadata.pop(MANAGED_FIELDS, None)
    return parse(value) if value else NOBODY
