"""How values merge, by their schema: which are one piece, which are maps, which are keyed lists.

Made lazily from the schemas of kinds, so that a kind costs only what its objects use.
(Source: kube-openapi's schemaconv; ``x-kubernetes-list-type``, ``-list-map-keys``, ``-map-type``.)
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any
from weakref import WeakKeyDictionary

from multiqueue.embedded.server.kinds import KindVersion
from multiqueue.embedded.server.managed import path_elements
from multiqueue.embedded.server.schema.types import COMPONENT, schema_of

Schema = Mapping[str, Any]

KEY_DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.LocalObjectReference", "name"): "",
    ("io.k8s.api.core.v1.ObjectReference", "name"): "",
}
"""Defaults of key fields of built-in types, whose schemas here carry no defaults."""


class Shape(Enum):
    """What a value of a type is."""

    SCALAR = auto()
    MAP = auto()
    LIST = auto()
    ANY = auto()
    """Whatever it looks like: maps are merged, everything else is one piece."""


class KeyMissingError(ValueError):
    """An item that does not say which item it is; ``str()`` is Kubernetes' words."""


class MergeType:
    """How values of one schema merge."""

    __slots__ = (
        "_element_type",
        "_preserves",
        "_schema",
        "keys",
        "leaf",
        "merges_fields",
        "merges_items",
        "scalar",
        "shape",
        "steps",
    )

    def __init__(self, schema: Schema, *, preserves: bool = False) -> None:
        """``preserves``: an enclosing schema keeps unknown fields."""
        self._schema = schema
        self.steps: dict[str, tuple[str, MergeType]] = {}
        """Of the fields used so far; see :meth:`step`."""
        self._element_type: MergeType | None = None
        self._preserves = preserves or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.shape = _shape(schema)
        self.scalar = _scalar(schema) if self.shape is Shape.SCALAR else ""
        self.keys: tuple[str, ...] = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
        """Of a list of type map; empty for a set."""
        merges = not _is_atomic(schema, self.shape)
        self.merges_fields = merges and self.shape in {Shape.MAP, Shape.ANY}
        """Maps are merged field by field; null counts as an empty one."""
        self.merges_items = merges and self.shape is Shape.LIST
        """Lists are merged item by item."""
        self.leaf = not (self.merges_fields or self.merges_items)
        """Every value is one piece."""

    def has_field(self, name: str) -> bool:
        """Whether it is a field of a struct, not a key of a map."""
        return name in self._schema.get("properties", ())

    def step(self, name: str) -> "tuple[str, MergeType]":
        """The path element and type of a field or key; what is not declared is deduced."""
        known = self.steps.get(name)
        if known is not None:
            return known
        found = (path_elements.field(name), self.child(name) or DEDUCED)
        if self.has_field(name):  # keys of maps are without end
            self.steps[name] = found
        return found

    def child(self, name: str) -> "MergeType | None":
        """The type of a field or of the values of a map; None: not declared."""
        known = self.steps.get(name)
        if known is not None:
            return known[1]
        properties = self._schema.get("properties", {})
        if name not in properties:
            return self._element()
        return MergeType(properties[name], preserves=self._preserves)

    def _element(self) -> "MergeType | None":
        """The type of the values of a map."""
        if self._element_type is not None:
            return self._element_type
        additional = self._schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            self._element_type = MergeType(additional, preserves=self._preserves)
        elif (
            additional is True
            or self._preserves
            or self.shape is Shape.ANY
            or not self._schema.get("properties")
        ):
            self._element_type = DEDUCED
        return self._element_type

    @property
    def item(self) -> "MergeType":
        """The type of the items of a list."""
        if self._element_type is None:
            items = self._schema.get("items")
            self._element_type = MergeType(items, preserves=self._preserves) if items else UNTYPED
        return self._element_type

    def identity(self, content: Any) -> Any:
        """What tells an item of this list from the others: hashable, cheap.

        Raises:
            KeyMissingError: the item has no identity.
        """
        if not self.keys:
            if content.__class__ in {dict, list} or content is None:
                raise KeyMissingError(_NOT_IN_A_SET[content.__class__])
            return (content.__class__, content)
        if content.__class__ is not dict:
            why = "a null element" if content is None else "non-map elements"
            raise KeyMissingError(f"associative list with keys may not have {why}")
        if len(self.keys) == 1:
            key = content.get(self.keys[0])
            if key.__class__ is str:
                return key
        values = self._key_values(content)
        if len(self.keys) == 1 and (text := values[self.keys[0]]).__class__ is str:
            return text
        return tuple(_hashable(key, each) for key, each in values.items())

    def element(self, content: Any) -> str:
        """The path element of an item that has an identity."""
        if not self.keys:
            return path_elements.value(content)
        if len(self.keys) == 1 and (name := content.get(self.keys[0])).__class__ is str:
            return path_elements.item(self.keys, (name,))
        values = self._key_values(content)
        return path_elements.item(tuple(values), tuple(values.values()))

    def _key_values(self, content: Mapping[str, Any]) -> dict[str, Any]:
        values = {}
        for key in self.keys:
            if key in content:
                values[key] = content[key]
            elif (default := self.item.default(key)) is not None:
                values[key] = default
        if not values:
            raise KeyMissingError(
                "associative list with keys has an element that omits all key fields "
                f"{_quoted(self._schema['x-kubernetes-list-map-keys'])} (and doesn't have default "
                "values for any key fields)"
            )
        return values

    def default(self, name: str) -> Any:
        """The default of a field; None if there is none."""
        schema = self._schema.get("properties", {}).get(name, {})
        if "default" in schema:
            return schema["default"]
        return KEY_DEFAULTS.get((str(self._schema.get(COMPONENT)), name))


def _shape(schema: Schema) -> Shape:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return Shape.SCALAR
    if kind == "array":
        return Shape.LIST
    if kind == "object" or (kind is None and "properties" in schema):
        return Shape.MAP
    return Shape.ANY if kind is None else Shape.SCALAR


def _is_atomic(schema: Schema, shape: Shape) -> bool:
    if shape is Shape.LIST:
        return schema.get("x-kubernetes-list-type") not in {"map", "set"}
    if shape is Shape.SCALAR:
        return True
    return schema.get("x-kubernetes-map-type") == "atomic"


def _scalar(schema: Schema) -> str:
    kind = schema.get("type")
    if kind in {"integer", "number"}:
        return "numeric"
    if kind == "string" and schema.get("format", "") in {"", "byte"}:
        return "string"
    return "boolean" if kind == "boolean" else "untyped"


def _hashable(key: str, content: Any) -> Any:
    if content.__class__ in {dict, list}:
        return key, repr(content)
    return key, content.__class__, content


def _quoted(names: Sequence[str]) -> str:
    return "[" + " ".join(f'"{name}"' for name in names) + "]"


_NOT_IN_A_SET: Mapping[type, str] = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}
DEDUCED = MergeType({})
"""Of values without a schema: maps merge, all else is one piece."""
UNTYPED = MergeType({"x-kubernetes-map-type": "atomic"})
"""The same, and maps are one piece too."""

_IMPLIED: Mapping[str, Schema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": schema_of("meta.ObjectMeta"),
}
_roots: WeakKeyDictionary[KindVersion, MergeType] = WeakKeyDictionary()


def root_type(version: KindVersion, *, builtin: bool) -> MergeType:
    """The type of whole objects of a version."""
    root = _roots.get(version)
    if root is None:
        schema = version.schema
        if not builtin:
            schema = {**schema, "properties": {**schema.get("properties", {}), **_IMPLIED}}
        root = _roots[version] = MergeType(schema)
    return root
