"""Manifests for the linter: every object with its file and line."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.manifests import SUFFIXES

if TYPE_CHECKING:
    from multiqueue.lint.world import LintEntry


@dataclass(slots=True)
class Manifests:
    """The objects that were read.

    Attributes:
        skipped: Documents in directories that are not objects, such as Helm values.
    """

    entries: list[LintEntry] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def read_sources(sources: tuple[str, ...]) -> Manifests:
    """Read files, directories (recursively) and standard input (``-``).

    Raises:
        UsageProblem: something cannot be read or is no YAML; names the file and the line.
    """
    result = Manifests()
    for source in sources:
        if source == "-":
            _read_text(_decode(sys.stdin.buffer.read(), "standard input"), "stdin", result)
        elif Path(source).is_dir():
            for path in sorted(Path(source).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    _read_file(path, result, named=False)
        else:
            _read_file(Path(source), result, named=True)
    return result


def _read_file(path: Path, result: Manifests, *, named: bool) -> None:
    try:
        text = _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageProblem(f'cannot read "{path}": {error.strerror or error}') from error
    _read_text(text, str(path), result, named=named)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageProblem(f"{name}:{line}: not UTF-8 text") from error


def _read_text(text: str, name: str, result: Manifests, *, named: bool = True) -> None:
    from multiqueue.lib import bounded_yaml
    from multiqueue.lint.world import LintEntry

    try:
        documents = bounded_yaml.load_documents(text)
    except bounded_yaml.YamlError as error:
        line = f":{error.line}" if error.line is not None else ""
        raise UsageProblem(f"{name}{line}: not YAML: {error.problem}") from error
    for read in documents:
        where, document = f"{name}:{read.line}", read.value
        if document is None:
            continue
        if not _is_object(document):
            if named:
                raise UsageProblem(f"{where}: no object; it needs apiVersion and kind")
            result.skipped.append(f"{where}: no object")
            continue
        listed = document.get("items") if str(document["kind"]).endswith("List") else None
        objects = listed if isinstance(listed, list) else [document]
        result.entries.extend(LintEntry(obj, where) for obj in objects if _is_object(obj))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(key), str) and value[key] for key in ("apiVersion", "kind")
    )
