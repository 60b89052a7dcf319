"""How an API server changes objects: merge patches, metadata, selectors. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

Json = dict[str, Any]
Selector = Callable[[Json], bool]


def merge(old: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386); what it does not name is shared with the old value."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def format_time(now: datetime) -> str:
    """Format a metav1.Time."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def begin(body: Json, *, uid: str, now: datetime, version: int) -> Json:
    """Return the object that a create request makes."""
    metadata = {
        **body["metadata"],
        "uid": uid,
        "creationTimestamp": format_time(now),
        "resourceVersion": str(version),
        "generation": 1,
    }
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": metadata}


def change(old: Json, wanted: Json, *, subresource: str) -> Json:
    """Return an object after a write, but for its resourceVersion; `old` itself for no change.

    What a writer cannot set stays: the identity, the status beside the subresource, the rest of
    the object through it.
    """
    if subresource == "status":
        new = {**old, "status": wanted.get("status") or {}}
        if not new["status"]:
            del new["status"]
        return old if new.get("status") == old.get("status") else new
    before = old["metadata"]
    fixed = ("uid", "creationTimestamp", "generation", "resourceVersion", "name", "namespace")
    metadata = {**(wanted.get("metadata") or {})}
    for key in (*fixed, "deletionTimestamp"):
        if key in before:
            metadata[key] = before[key]
        else:
            metadata.pop(key, None)
    new = {**wanted, "metadata": metadata}
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]
    if new == old:
        return old
    if new.get("spec") != old.get("spec"):
        metadata["generation"] = before["generation"] + 1
    return new


def with_metadata(obj: Json, **values: Any) -> Json:
    """Return an object with other metadata."""
    return {**obj, "metadata": {**obj["metadata"], **values}}


Selector = tuple[tuple[str, str | None, bool], ...]
"""Labels, their values (None: no such label), and whether they are wanted or not."""


@lru_cache(maxsize=256)
def parse_selector(text: str) -> Selector:
    """Read ``a=b,c!=d,e``.

    Raises:
        ValueError: something else is asked for.
    """
    pairs = []
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if value.startswith("=") or not key.strip("!"):
            raise ValueError(f'selector "{text}" is not understood')
        is_wanted = bool(sign) and not key.endswith("!")
        pairs.append((key.removesuffix("!"), value if sign else None, is_wanted))
    return tuple(pairs)


def has_labels(obj: Json, pairs: Selector) -> bool:
    """Whether an object carries these labels, and not those."""
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return all((labels.get(key) == value) is wanted for key, value, wanted in pairs)


def is_over(job: Json) -> bool:
    """Whether a Job ended."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in conditions)
