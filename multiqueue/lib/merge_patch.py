"""JSON merge patch (RFC 7396): the patch type of every status write."""

from typing import Any


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` changed by ``patch``; neither is mutated, untouched parts are shared.

    A null removes a member, a mapping merges, everything else (lists too) replaces.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = apply_merge_patch(merged.get(key), value)
        else:
            merged[key] = value
    return merged
