r"""kubectl's ``-o jsonpath=TEMPLATE`` and ``-o custom-columns=TITLE:PATH,...``. Pure.

A template is text with parts in braces: paths (``{.items[*].metadata.name}``), texts in quotes
(``{"\n"}``), and ``{range PATH}...{end}``. Paths are those of `multiqueue.lib.jsonpath`: names,
indexes, slices, ``[*]``, ``..`` and filters. What is missing in an object gives nothing.

Deviates: kubectl prints a template without braces as it is, and takes unions such as ``[0,2]`` and
``['a','b']``; both are refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from multiqueue.lib.jsonpath import Find, JsonPathError, compile_path

Render = Callable[[Any], str]

MISSING = "<none>"
"""What a column shows if an object lacks its path; kubectl's word."""
_PART = re.compile(
    r"""\{((?:[^{}"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\}|([^{}]+)""", re.DOTALL
)
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


def compile_template(text: str) -> Render:
    """Return a function that prints an object by a template of ``-o jsonpath``.

    Raises:
        JsonPathError: the template is not understood; the message says what to write.
    """
    if "{" not in text:
        raise JsonPathError(f'"{text}" has no path in braces; write {{.metadata.name}}')
    render, ended = _compile(_split(text), in_range=False)
    assert not ended, "an end without a range is an error"
    return render


def compile_columns(text: str) -> tuple[tuple[str, Render], ...]:
    """Return titles, and functions that print an object's cells, of ``-o custom-columns``.

    Raises:
        JsonPathError: a column is no TITLE:PATH, or its path is not understood.
    """
    return tuple(_compile_column(each) for each in text.split(","))


def list_rows(data: Any) -> list[Any]:
    """Return the objects of a list, or the one object, for ``-o custom-columns``."""
    if isinstance(data, Mapping) and isinstance(data.get("items"), list):
        return list(data["items"])
    return list(data) if isinstance(data, list) else [data]


def _compile_column(text: str) -> tuple[str, Render]:
    title, colon, path = text.partition(":")
    path = path.strip().removeprefix("{").removesuffix("}")
    if not (title and colon and path):
        raise JsonPathError(f'"{text}" is no TITLE:PATH, such as NAME:.metadata.name')
    find = compile_path(path if path[0] in ".[$" else f".{path}")
    return title, lambda obj: ",".join(map(_tell, find(obj))) or MISSING


def _split(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a template, and whether they were in braces."""
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise JsonPathError(f'"{text}": a brace is not closed after "{text[:position]}"')
        yield (match[2], False) if match[1] is None else (match[1].strip(), True)
        position = match.end()


def _compile(parts: Iterator[tuple[str, bool]], *, in_range: bool) -> tuple[Render, bool]:
    """Return what prints the parts up to the end of the range, and whether it ended."""
    renders: list[Render] = []
    for part, in_braces in parts:
        if not in_braces:
            renders.append(_constant(part))
        elif part == "end":
            if not in_range:
                raise JsonPathError("{end} without {range ...}")
            return _join(renders), True
        elif part.startswith("range "):
            inner, ended = _compile(parts, in_range=True)
            if not ended:
                raise JsonPathError(f"{{{part}}} without {{end}}")
            renders.append(_repeat(_find(part.removeprefix("range ").strip()), inner))
        else:
            renders.append(_expression(part))
    return _join(renders), False


def _expression(part: str) -> Render:
    quoted = _QUOTED.fullmatch(part)
    if quoted:
        return _constant(re.sub(r"\\(.)", _unescape, quoted[2]))
    find = _find(part)
    return lambda obj: " ".join(map(_tell, find(obj)))


def _find(path: str) -> Find:
    if not path.startswith((".", "[", "@", "$")):
        raise JsonPathError(f'"{path}" is no path; begin it with a dot, as in .{path or "spec"}')
    return compile_path(path.removeprefix("@"))


def _unescape(match: re.Match[str]) -> str:
    if match[1] not in _ESCAPES:
        raise JsonPathError(f'"{match[0]}" in quotes is not understood; there are \\n, \\t and \\r')
    return _ESCAPES[match[1]]


def _constant(text: str) -> Render:
    return lambda _: text


def _join(renders: Sequence[Render]) -> Render:
    return lambda obj: "".join(render(obj) for render in renders)


def _repeat(find: Find, inner: Render) -> Render:
    return lambda obj: "".join(map(inner, find(obj)))


def _tell(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
