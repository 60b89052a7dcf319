"""Decoding into Kubernetes' own types, as the Go server does it: built-in kinds and ObjectMeta.

Nulls and empty optional lists and maps vanish, quantities and times become canonical, unknown
fields are dropped and noted, and a value of the wrong type refuses the whole body (400). Required
fields are not looked at: the kind's own validation asks for what it needs.
"""

from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.embedded.server.schema.types import COMPONENT, Schema
from multiqueue.lib import formats


class Findings:
    """What a walk noticed; details are searched for only if something was.

    Attributes:
        applied: What is walked comes of an apply.
    """

    __slots__ = ("applied", "dropped", "duplicates")

    def __init__(self, *, applied: bool = False) -> None:
        self.applied = applied
        self.dropped = False
        self.duplicates = False


class MismatchError(Exception):
    """A value has the wrong type somewhere; :func:`mismatch` finds the words."""


Coerce = Callable[[Any, Findings], Any]

_compiled: dict[int, tuple[Schema, Coerce]] = {}


def compile_typed(schema: Schema) -> Coerce:
    """A function (value, findings) -> clean copy. Cached by identity, for schemas that live on."""
    known = _compiled.get(id(schema))
    if known is None:
        known = _compiled[id(schema)] = (schema, _compile(schema))
    return known[1]


def _compile(schema: Schema) -> Coerce:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return _anything
    if schema.get("x-kubernetes-int-or-string"):
        return _quantity if is_quantity(schema) else _int_or_string
    if "properties" in schema:
        return _struct(schema)
    match schema["type"]:
        case "array":
            return _list(compile_typed(schema["items"]), _zero(schema["items"]))
        case "object":
            values = schema["additionalProperties"]
            return _map(compile_typed(values), _zero(values))
        case "string":
            return _FORMATTED.get(schema.get("format", ""), _string)
        case "integer":
            return _int32 if schema.get("format") == "int32" else _int64
        case "boolean":
            return _boolean
        case _:
            return _number


def is_quantity(schema: Schema) -> bool:
    """Whether the schema is that of a resource.Quantity."""
    return str(schema.get(COMPONENT, "")).endswith(".Quantity")


def _struct(schema: Schema) -> Coerce:
    fields = {name: compile_typed(sub) for name, sub in schema["properties"].items()}
    optional = schema["properties"].keys() - set(schema.get("required", ()))
    vanishing = frozenset(
        name
        for name in optional
        if schema["properties"][name].get("type") == "array"
        or "additionalProperties" in schema["properties"][name]
    )

    def coerce(value: Any, findings: Findings) -> Any:
        if value.__class__ is not dict:
            raise MismatchError
        result = {}
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                findings.dropped = True
            elif item is not None:
                clean = field(item, findings)
                if clean or name not in vanishing:
                    result[name] = clean
        return result

    return coerce


def _list(item_coerce: Coerce, zero: Any) -> Coerce:
    def coerce(value: Any, findings: Findings) -> Any:
        if value.__class__ is not list:
            raise MismatchError
        return [zero() if item is None else item_coerce(item, findings) for item in value]

    return coerce


def _map(value_coerce: Coerce, zero: Any) -> Coerce:
    def coerce(value: Any, findings: Findings) -> Any:
        if value.__class__ is not dict:
            raise MismatchError
        return {
            key: zero() if item is None else value_coerce(item, findings)
            for key, item in value.items()
        }

    return coerce


def _zero(schema: Schema) -> Callable[[], Any]:
    """What Go makes of a null in a list or map."""
    if is_quantity(schema):
        return lambda: "0"
    zeros: Mapping[str, Callable[[], Any]] = {
        "string": str,
        "integer": int,
        "boolean": bool,
        "array": list,
    }
    return zeros.get(schema.get("type", ""), dict)


def _anything(value: Any, _findings: Findings) -> Any:
    return value


def _string(value: Any, _findings: Findings) -> Any:
    if value.__class__ is not str:
        raise MismatchError
    return value


def _boolean(value: Any, _findings: Findings) -> Any:
    if value.__class__ is not bool:
        raise MismatchError
    return value


def _number(value: Any, _findings: Findings) -> Any:
    if value.__class__ is not float and value.__class__ is not int:
        raise MismatchError
    return value


def _int32(value: Any, _findings: Findings) -> Any:
    if value.__class__ is not int or not -0x80000000 <= value <= 0x7FFFFFFF:
        raise MismatchError
    return value


def _int64(value: Any, _findings: Findings) -> Any:
    if value.__class__ is not int or not -(2**63) <= value < 2**63:
        raise MismatchError
    return value


def _int_or_string(value: Any, _findings: Findings) -> Any:
    if value.__class__ is not str and value.__class__ is not int:
        raise MismatchError
    return value


def _quantity(value: Any, _findings: Findings) -> Any:
    if value.__class__ is int or value.__class__ is float:
        value = repr(value)
    elif value.__class__ is not str:
        raise MismatchError
    try:
        return formats.canonical_quantity(value)
    except ValueError:
        raise MismatchError from None


def _time(value: Any, _findings: Findings) -> Any:
    return _parsed(value, formats.canonical_time)


def _micro_time(value: Any, _findings: Findings) -> Any:
    return _parsed(value, formats.canonical_micro_time)


def _parsed(value: Any, parse: Callable[[str], str]) -> str:
    if value.__class__ is not str:
        raise MismatchError
    try:
        return parse(value)
    except ValueError:
        raise MismatchError from None


def _bytes(value: Any, _findings: Findings) -> Any:
    if value.__class__ is not str or not formats.is_base64(value):
        raise MismatchError
    return value


_FORMATTED: Mapping[str, Coerce] = {"byte": _bytes, "date-time": _time, "micro-time": _micro_time}


def mismatch(schema: Schema, value: Any) -> str:
    """The Go decoder's words for the first wrong type, after a walk raised MismatchError."""
    return _find(schema, value, (), "") or "json: cannot decode the body"


def _find(schema: Schema, value: Any, path: tuple[str, ...], struct: str) -> str | None:
    if value is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return None
    try:
        compile_typed(schema)(value, Findings())
    except MismatchError:
        return _find_inside(schema, value, path, struct) or _words(schema, value, path, struct)
    return None


def _find_inside(schema: Schema, value: Any, path: tuple[str, ...], struct: str) -> str | None:
    found: list[str | None] = []
    if value.__class__ is dict and "properties" in schema:
        inner = str(schema.get(COMPONENT, struct)).rpartition(".")[2]
        properties = schema["properties"]
        found += [
            _find(properties[name], item, (*path, name), inner)
            for name, item in value.items()
            if name in properties
        ]
    elif value.__class__ is dict and "additionalProperties" in schema:
        values = schema["additionalProperties"]
        found += [_find(values, item, (*path, key), struct) for key, item in value.items()]
    elif value.__class__ is list and "items" in schema:
        found += [_find(schema["items"], item, path, struct) for item in value]
    return next((text for text in found if text), None)


def _words(schema: Schema, value: Any, path: tuple[str, ...], struct: str) -> str:
    if is_quantity(schema) and value.__class__ in {str, int, float}:
        return f'{formats.QUANTITY_RULE} ({".".join(path)}: "{value}")'
    if value.__class__ is str and schema.get("format") in {"date-time", "micro-time"}:
        layout = "2006-01-02T15:04:05Z07:00"
        return f'parsing time "{value}" as "{layout}": cannot parse "{value}" as a time'
    if value.__class__ is str and schema.get("format") == "byte":
        return "illegal base64 data"
    number = value.__class__ in {int, float} and schema.get("type") == "integer"
    given = f"number {value}" if number else _GIVEN[value.__class__]
    field = ".".join((struct, *path))
    where = f"Go struct field {field}" if struct else "Go value"
    return f"json: cannot unmarshal {given} into {where} of type {_go_type(schema)}"


_GIVEN: Mapping[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


def _go_type(schema: Schema) -> str:
    if component := schema.get(COMPONENT):
        return "v1." + str(component).rpartition(".")[2]
    match schema.get("type"):
        case "array":
            return "[]" + _go_type(schema["items"])
        case "object":
            return "map[string]" + _go_type(schema.get("additionalProperties", {}))
        case "integer":
            return str(schema.get("format", "int64"))
        case "boolean":
            return "bool"
        case other:
            return str(other or "interface {}")
