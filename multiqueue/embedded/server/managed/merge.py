"""Merging a configuration into an object, and taking fields out of one.

Nothing is changed in place; what stays the same is shared.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiqueue.embedded.server.managed.compare import ABSENT, by_identity, is_list, is_map
from multiqueue.embedded.server.managed.field_sets import EMPTY, Tree
from multiqueue.embedded.server.managed.merge_types import KeyMissingError, MergeType, Shape
from multiqueue.embedded.server.managed.path_elements import MEMBER


def merge(kind: MergeType, live: Any, config: Any) -> Any:
    """The live value with what the configuration says; nothing is removed."""
    if config is ABSENT:
        return live
    if live is ABSENT or (not live and not config):
        return config
    if is_map(kind, live) and is_map(kind, config):
        return _merge_maps(kind, live or {}, config or {})
    if is_list(kind, live) and is_list(kind, config):
        return _merge_lists(kind, live or [], config or [])
    return config


def _merge_maps(
    kind: MergeType, live: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    merged = dict(live)
    for name, wanted in config.items():
        merged[name] = merge(kind.step(name)[1], live.get(name, ABSENT), wanted)
    return merged


def _merge_lists(kind: MergeType, live: Sequence[Any], config: Sequence[Any]) -> list[Any]:
    """Items of both: shared ones in the configuration's order, the others where they were."""
    wanted = {kind.identity(item): item for item in config}
    order, current = list(wanted), by_identity(kind, live)
    shared = [position for position, identity in enumerate(order) if identity in current]
    shared.reverse()

    def merged(identity: Any) -> Any:
        found = current.get(identity, ())
        # An item that the live list repeats has no one state to merge with.
        return merge(kind.item, found[0] if len(found) == 1 else ABSENT, wanted[identity])

    result: list[Any] = []
    place = 0
    for item, identity in _with_identities(kind, live):
        if identity not in wanted:
            result.append(item)
        elif shared and order[shared[-1]] == identity:
            end = shared.pop() + 1
            result += map(merged, order[place:end])
            place = end
        # else it comes, or came, where the configuration wants it
    return [*result, *map(merged, order[place:])]


def _with_identities(kind: MergeType, items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for item in items:
        try:
            yield item, kind.identity(item)
        except KeyMissingError:
            yield item, ABSENT


def remove(kind: MergeType, value: Any, fields: Tree) -> Any:
    """The value without these fields; null where a map or list loses all it has."""
    if kind.shape is Shape.SCALAR:
        return value
    if isinstance(value, dict) and is_map(kind, value):
        return _remove_fields(kind, value, fields) or None
    if isinstance(value, list) and is_list(kind, value):
        return _remove_items(kind, value, fields) or None
    return None if isinstance(value, dict | list) else value


def _remove_fields(kind: MergeType, value: Mapping[str, Any], fields: Tree) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, each in value.items():
        element, child = kind.step(name)
        below = fields.get(element, EMPTY)
        if MEMBER in below:
            continue
        result[name] = remove(child, each, below) if below else each
    return result


def _remove_items(kind: MergeType, value: Sequence[Any], fields: Tree) -> list[Any]:
    result: list[Any] = []
    for item, identity in _with_identities(kind, value):
        below = EMPTY if identity is ABSENT else fields.get(kind.element(item), EMPTY)
        if MEMBER in below:
            continue
        result.append(remove(kind.item, item, below) if below else item)
    return result
