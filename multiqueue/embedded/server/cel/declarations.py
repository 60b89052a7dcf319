"""From structural schemas to types that the checker of CEL knows.

Objects become message types of a descriptor pool made for the purpose, so that ``self.spec.foo``
is refused when the schema has no ``foo``. Only the checker sees them; values stay plain.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION_FILE
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT_FILE
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from multiqueue.embedded.server.cel.escape import escape
from multiqueue.lib.cel.environment import standard_pool

Schema = Mapping[str, Any]

_PACKAGE = "schema"
_STRING_FORMATS = {
    "byte": "bytes",
    "duration": "google.protobuf.Duration",
    "date": "google.protobuf.Timestamp",
    "date-time": "google.protobuf.Timestamp",
}
_SCALARS = {"boolean": "bool", "integer": "int", "number": "double"}
_FIELD_TYPES = {
    "int": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}
_OPTIONAL, _REPEATED = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
_IMPLIED: Mapping[str, Schema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}
"""What rules see of every object, whatever its schema says of metadata."""


def properties_of(schema: Schema, *, is_object_root: bool) -> Mapping[str, Schema]:
    """The properties that expressions may see; the root of an object has implied ones."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    return {**properties, **_IMPLIED} if is_object_root else properties


def is_embedded(schema: Schema) -> bool:
    """Whether values are whole objects with apiVersion, kind and metadata."""
    return bool(schema.get("x-kubernetes-embedded-resource"))


class Declarations:
    """The types of one version of a custom kind. Declare all, then take the pool."""

    def __init__(self) -> None:
        self._file = FileDescriptorProto(
            name="schema.proto",
            package=_PACKAGE,
            syntax="proto2",
            dependency=[STRUCT_FILE.name, TIMESTAMP_FILE.name, DURATION_FILE.name],
        )
        self._known: dict[tuple[int, bool], str | None] = {}

    def declare(self, schema: Schema, *, is_object_root: bool = False) -> str | None:
        """The type of values of a schema, as CEL writes types; None: expressions do not see them.

        The schema must live as long as this: it is known again by its identity.
        """
        is_object_root = is_object_root or is_embedded(schema)
        key = (id(schema), is_object_root)
        if key not in self._known:
            self._known[key] = self._declare(schema, is_object_root)
        return self._known[key]

    def pool(self) -> DescriptorPool:
        """The descriptors of everything that was declared."""
        pool = standard_pool()
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def _declare(self, schema: Schema, is_object_root: bool) -> str | None:  # noqa: FBT001
        if schema.get("x-kubernetes-int-or-string"):
            return "dyn"
        kind = "object" if is_object_root else schema.get("type")
        if kind == "array":
            items = self.declare(schema.get("items", {}))
            return None if items is None else f"list<{items}>"
        if kind == "object":
            additional = schema.get("additionalProperties")
            if isinstance(additional, Mapping):
                values = self.declare(additional)
                return None if values is None else f"map<string, {values}>"
            properties = properties_of(schema, is_object_root=is_object_root)
            declared = {escape(name): self.declare(sub) for name, sub in properties.items()}
            return self.message({name: type_ for name, type_ in declared.items() if name and type_})
        if kind == "string":
            return _STRING_FORMATS.get(schema.get("format", ""), "string")
        return _SCALARS.get(kind or "")

    def message(self, fields: Mapping[str, str]) -> str:
        """A new type with these fields, given by identifier and type."""
        message = self._file.message_type.add(name=f"Object{len(self._file.message_type)}")
        for number, (identifier, type_) in enumerate(fields.items(), start=1):
            _add_field(message, identifier, number, type_)
        return f"{_PACKAGE}.{message.name}"


def _add_field(message: DescriptorProto, name: str, number: int, type_: str) -> None:
    """A field of any type. What messages cannot say (lists of lists) is left to run time."""
    field = message.field.add(name=name, number=number, label=_OPTIONAL, json_name=f"f{number}")
    inner = _inside(type_, "list<")
    if inner is not None and not inner.startswith(("list<", "map<")):
        field.label = _REPEATED
        _set_type(field, inner)
        return
    inner = _inside(type_, "map<string, ")
    entry = f"{_camel_case(name)}Entry"
    if (
        inner is not None
        and not inner.startswith(("list<", "map<"))
        and all(nested.name != entry for nested in message.nested_type)
    ):
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        key = nested.field.add(name="key", number=1, label=_OPTIONAL)
        _set_type(key, "string")
        value = nested.field.add(name="value", number=2, label=_OPTIONAL)
        _set_type(value, inner)
        field.label = _REPEATED
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}.{entry}"
        return
    _set_type(field, type_)


def _inside(type_: str, prefix: str) -> str | None:
    return type_.removeprefix(prefix)[:-1] if type_.startswith(prefix) else None


def _set_type(field: FieldDescriptorProto, type_: str) -> None:
    if type_ in _FIELD_TYPES:
        field.type = _FIELD_TYPES[type_]
        return
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    is_message = "<" not in type_ and type_ != "dyn"
    field.type_name = f".{type_}" if is_message else ".google.protobuf.Value"


def _camel_case(name: str) -> str:
    """As protobuf wants the name of a map's entry type."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
