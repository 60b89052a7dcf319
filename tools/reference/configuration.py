"""docs/reference/configuration.md: every field of the configuration file, from its types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import msgspec

from multiqueue.api.config import types
from multiqueue.api.config.dump import to_wire
from multiqueue.api.config.support import INERT, REFUSED
from tools.reference.markdown import ROOT, Reference, code, page, read_constants, table

SOURCE = "multiqueue/api/config/types.py"
OURS = "Deviates: an extension of ours."
HEAD = """The file is of the kind `Configuration` of `config.kueue.x-k8s.io/v1beta2`. `[]` means the
items of a list. Durations are written as in Go: `30s`, `1h30m`. An empty default means that the
field or its section is off or absent. *ours* marks fields that Kueue does not have.
[The page about the file](../configuration.md) says how it is read and checked;
`multiqueue config defaults` prints all defaults."""


def build() -> Reference:
    """Return the page."""
    docs = {(each.owner, each.name): each.doc for each in read_constants(ROOT / SOURCE)}
    texts = dict(_texts(types.Configuration, "", docs))
    rows = []
    for row in field_rows():
        text = texts[row.path]
        what = text.replace(OURS, "*ours*:") if OURS in text else text
        here = "" if row.here == "honoured" else f" **{row.here}.**"
        rows.append([code(row.path), code(row.default), what + here])
    return Reference(
        name="configuration.md",
        text=page(
            "Configuration",
            f"`{SOURCE}`",
            HEAD,
            table(["field", "default", "what it does"], rows),
        ),
        undescribed=tuple(path for path, text in texts.items() if not text),
    )


def _texts(
    section: type[types.Section], prefix: str, docs: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(section):
        path = f"{prefix}{field.encode_name}"
        yield path, docs.get((section.__name__, field.name), "")
        inner = section_of(field.type)
        if inner is not None:
            yield from _texts(inner, f"{path}[]." if is_list(field.type) else f"{path}.", docs)


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field, its default as JSON, and its support here: ``honoured``, or why not."""

    path: str
    default: str
    here: str


def field_rows() -> Iterator[FieldRow]:
    """Yield every field of v1beta2 by its path in the file; ``[]`` means the items of a list."""
    yield from _rows(types.Configuration, "")


def _rows(section: type[types.Section], prefix: str) -> Iterator[FieldRow]:
    for field in msgspec.structs.fields(section):
        path = f"{prefix}{field.encode_name}"
        inner = section_of(field.type)
        if inner is None or path in REFUSED:
            yield FieldRow(path, _default(field), _here(path))
        else:
            yield from _rows(inner, f"{path}[]." if is_list(field.type) else f"{path}.")


def section_of(type_: Any) -> type[types.Section] | None:
    """Return the section that a field is or has as items; None for a value."""
    for candidate in (type_, *get_args(type_)):
        if isinstance(candidate, type) and issubclass(candidate, types.Section):
            return candidate
    return None


def is_list(type_: Any) -> bool:
    """Whether a field is a list."""
    return get_origin(type_) is tuple


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return json.dumps(field.default_factory())
    if field.default is msgspec.NODEFAULT:
        return "required"
    value = field.default
    return "" if value is None else json.dumps(to_wire(value))


def _here(path: str) -> str:
    if path in REFUSED:
        return f"refused: {REFUSED[path]}"
    return f"does nothing: {INERT[path]}" if path in INERT else "honoured"
