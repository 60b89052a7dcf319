"""Whose a namespace is (P-121): its label ``multiqueue.dev/owner``, else the namespace itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.api.names import OWNER


def find_owner(namespace: str, labels: Mapping[str, str] | None) -> str:
    """Return the owner of a namespace with these labels; an empty label counts as none."""
    return str((labels or {}).get(OWNER) or namespace)


def list_owners(namespaces: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the owners of Namespaces, by name."""
    metadata = [each["metadata"] for each in namespaces]
    return {each["name"]: find_owner(each["name"], each.get("labels")) for each in metadata}
