"""Reads manifests from files and standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from multiqueue.cli.errors import UsageProblem

SUFFIXES = {".yaml", ".yml", ".json"}
"""The files of a directory that are read, as by kubectl."""


def read_manifests(source: str) -> list[dict[str, Any]]:
    """Return the objects of a YAML or JSON file (``-``: standard input); Lists are unpacked.

    Of a directory, those of its files in the order of their names, as kubectl does.

    Raises:
        UsageProblem: a file cannot be read, or contains something that is no object.
    """
    if source != "-" and Path(source).is_dir():
        files = sorted(path for path in Path(source).iterdir() if path.suffix in SUFFIXES)
        return [each for path in files if path.is_file() for each in read_manifests(str(path))]
    name = "standard input" if source == "-" else f'"{source}"'
    objects: list[dict[str, Any]] = []
    for position, document in enumerate(_parse(_read(source, name), name), start=1):
        if document is None:
            continue
        where = f"{name}, document {position}"
        _check(document, where)
        if document["kind"].endswith("List") and isinstance(document.get("items"), list):
            for item in document["items"]:
                _check(item, where)
            objects.extend(document["items"])
        else:
            objects.append(document)
    return objects


def _read(source: str, name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise UsageProblem(f"cannot read {name}: {error.strerror or error}") from error


def _parse(text: bytes, name: str) -> list[Any]:
    from multiqueue.lib import bounded_yaml

    try:
        return [document.value for document in bounded_yaml.load_documents(text)]
    except bounded_yaml.YamlError as error:
        raise UsageProblem(f"{name} is not valid YAML: {error}") from error


def _check(document: Any, where: str) -> None:
    if not isinstance(document, dict):
        raise UsageProblem(f"{where} is no object: expected a mapping with apiVersion and kind")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise UsageProblem(f"{where} has no {field}; every manifest needs apiVersion and kind")
    if not isinstance(document.get("metadata", {}), dict):
        raise UsageProblem(f"{where}: metadata is no mapping; write metadata: {{name: ...}}")


def check_namespace(manifest: dict[str, Any], wanted: str | None) -> None:
    """Refuse a manifest for another namespace than that of ``--namespace``, as kubectl does.

    Raises:
        UsageProblem: it names another one.
    """
    metadata = manifest.get("metadata") or {}
    own = metadata.get("namespace")
    if wanted and own and own != wanted:
        name = metadata.get("name") or metadata.get("generateName") or ""
        raise UsageProblem(
            f'{manifest["kind"]} "{name}": its metadata.namespace is "{own}", and --namespace is '
            f'"{wanted}"; leave out one of them'
        )
