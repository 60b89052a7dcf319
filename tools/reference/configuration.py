"""docs/reference/configuration.md: every field of the configuration file, from its types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from multiqueue.api.config import types
from multiqueue.api.config.support import field_rows, is_list, section_of
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
