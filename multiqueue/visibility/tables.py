"""Tables of meta.k8s.io, which kubectl prints for a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Column = tuple[str, str, str, str]
"""Name, type, format and description."""


def make_table(
    columns: Sequence[Column], rows: Sequence[dict[str, Any]], version: str
) -> dict[str, Any]:
    """Return a Table in a version of meta.k8s.io."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {},
        "columnDefinitions": [
            {"name": name, "type": type_, "format": format_, "description": text, "priority": 0}
            for name, type_, format_, text in columns
        ],
        "rows": list(rows),
    }
