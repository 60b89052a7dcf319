"""The resources of a Spark role, as its pods request them. Pure. Parity: J-449..J-451."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from multiqueue.jobs.framework.integration import InvalidJobError

_MEMORY = re.compile(r"(\d+)([kmgtp]?)b?", re.IGNORECASE)


def build_resources(role: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests and limits of a driver's or an executor's container.

    The overhead of memory that Spark adds to its pods is not counted, as in upstream (J-450).

    Raises:
        InvalidJobError: a memory size is not one that Java knows.
    """
    requests = {
        "cpu": role.get("coreRequest") or role.get("cores"),
        "memory": _memory(role, "memory"),
    }
    limits = {"cpu": role.get("coreLimit"), "memory": _memory(role, "memoryLimit")}
    if gpu := role.get("gpu"):
        limits[gpu["name"]] = gpu["quantity"]
    found = {"requests": requests, "limits": limits}
    return {
        field: {name: str(value) for name, value in amounts.items() if value}
        for field, amounts in found.items()
        if any(amounts.values())
    }


def _memory(role: Mapping[str, Any], field: str) -> str | None:
    """Return a size in Java's notation (512m, 4g) as a quantity (512Mi, 4Gi)."""
    text = role.get(field)
    if not text:
        return None
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise InvalidJobError(f'{field}: "{text}" is not a size like 512m or 4g; correct it')
    number, unit = match.groups()
    return f"{number}{unit.upper()}i" if unit else number
