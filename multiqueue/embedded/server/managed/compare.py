"""Which fields an object has, and which differ between two states of it.

Only what differs is walked: equal subtrees are skipped by one comparison.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from multiqueue.embedded.server.managed.field_sets import EMPTY, LEAF, Tree, union
from multiqueue.embedded.server.managed.merge_types import (
    DEDUCED,
    KeyMissingError,
    MergeType,
    Shape,
)
from multiqueue.embedded.server.managed.path_elements import MEMBER

ABSENT: Final = object()
"""No value, which is not null."""


class ManagedDifference(NamedTuple):
    """What became of fields; no field is in both."""

    changed: Tree
    """Added or modified."""
    removed: Tree


NOTHING = ManagedDifference(EMPTY, EMPTY)


def difference_of(kind: MergeType, old: Any, new: Any) -> ManagedDifference:
    """Compare two states of a value of one type; either may be ABSENT."""
    if old is ABSENT:
        return ManagedDifference(everything(kind, new), EMPTY)
    if new is ABSENT:
        return ManagedDifference(EMPTY, everything(kind, old))
    if old is new or old == new:
        return NOTHING
    return ManagedDifference(*_differ(kind, old, new))


def _differ(kind: MergeType, old: Any, new: Any) -> tuple[Tree, Tree]:
    """The same for two values that are there and not equal."""
    if kind.leaf or (not old and not new):
        return LEAF, EMPTY
    if is_map(kind, old) and is_map(kind, new):
        return _maps(kind, old or {}, new or {})
    if is_list(kind, old) and is_list(kind, new):
        return _lists(kind, old or [], new or [])
    if is_map(kind, old) and old:
        return LEAF, _below(everything(kind, old))
    if is_map(kind, new) and new:
        return union(LEAF, everything(kind, new)), EMPTY
    return LEAF, EMPTY


def is_map(kind: MergeType, value: Any) -> bool:
    """Whether a value is merged field by field."""
    return kind.merges_fields and (value.__class__ is dict or value is None)


def is_list(kind: MergeType, value: Any) -> bool:
    """Whether a value is merged item by item."""
    return kind.merges_items and (value.__class__ is list or value is None)


def _maps(kind: MergeType, old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Tree, Tree]:
    changed: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    common = 0
    steps = kind.steps
    for name, after in new.items():
        before = old.get(name, ABSENT)
        common += before is not ABSENT
        if before is after or before == after:
            continue
        element, child = steps.get(name) or kind.step(name)
        if child.leaf:
            changed[element] = LEAF
        elif before is ABSENT:
            changed[element] = everything(child, after)
        else:
            inner, gone = _differ(child, before, after)
            if inner:
                changed[element] = inner
            if gone:
                removed[element] = gone
    if common < len(old):
        for name, before in old.items():
            if name not in new:
                element, child = kind.step(name)
                removed[element] = everything(child, before)
    return changed, removed


def _lists(kind: MergeType, old: Sequence[Any], new: Sequence[Any]) -> tuple[Tree, Tree]:
    changed: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    before, after, item = by_identity(kind, old), by_identity(kind, new), kind.item
    for identity, items in after.items():
        others = before.get(identity, [])
        if items == others:
            continue
        element = kind.element(items[0])
        inner, gone = _items(item, others, items)
        if inner:
            changed[element] = inner
        if gone:
            removed[element] = gone
    for identity, items in before.items():
        if identity not in after:
            removed[kind.element(items[0])] = _items(item, items, [])[1]
    return changed, removed


def _items(kind: MergeType, old: list[Any], new: list[Any]) -> tuple[Tree, Tree]:
    """Items of one identity: one before and after; more where a list repeats one, which then has
    no parts of its own.
    """
    if len(old) == 1 and len(new) == 1:
        return _differ(kind, old[0], new[0])
    if len(old) > 1 and len(new) > 1:
        return LEAF, EMPTY
    added = everything(kind, new[0]) if len(new) == 1 else LEAF if new else EMPTY
    gone = everything(kind, old[0]) if len(old) == 1 else LEAF if old else EMPTY
    if old and new:  # the item itself stays
        return (_below(added), gone) if len(new) == 1 else (added, _below(gone))
    return added, gone


def _below(tree: Tree) -> Tree:
    return {element: below for element, below in tree.items() if element != MEMBER}


def by_identity(kind: MergeType, items: Sequence[Any]) -> dict[Any, list[Any]]:
    """Items of a keyed list or set; more than one where a stored list repeats one."""
    found: dict[Any, list[Any]] = {}
    key = kind.keys[0] if len(kind.keys) == 1 else None
    for item in items:
        if key is not None and item.__class__ is dict:
            identity = item.get(key)
            if identity.__class__ is str and identity not in found:
                found[identity] = [item]
                continue
        try:
            found.setdefault(kind.identity(item), []).append(item)
        except KeyMissingError:
            continue  # of no kind that can be owned; validation judges it
    return found


def everything(kind: MergeType, value: Any) -> Tree:
    """All that a value has that was not there before: every node is a member."""
    if kind.leaf or not value:
        return LEAF
    if is_map(kind, value):
        tree: dict[str, Any] = {MEMBER: EMPTY}
        for name, each in value.items():
            element, child = kind.step(name)
            tree[element] = LEAF if child.leaf else everything(child, each)
        return tree
    if is_list(kind, value):
        tree = {MEMBER: EMPTY}
        for items in by_identity(kind, value).values():
            below = everything(kind.item, items[0]) if len(items) == 1 else LEAF
            tree[kind.element(items[0])] = below
        return tree
    return LEAF


def mentioned(kind: MergeType, value: Any) -> Tree:
    """What a configuration mentions: leaves, items, keys of maps and empty maps, but not the
    structs and maps that only lead there.
    """
    if is_map(kind, value):
        return _mentioned_fields(kind, value or {})
    if is_list(kind, value):
        tree: dict[str, Any] = {}
        for items in by_identity(kind, value or []).values():
            below = mentioned(kind.item, items[0]) if len(items) == 1 else EMPTY
            tree[kind.element(items[0])] = union(below, LEAF)
        return tree
    return LEAF


def _mentioned_fields(kind: MergeType, value: Mapping[str, Any]) -> Tree:
    tree: dict[str, Any] = {}
    for name, each in value.items():
        element, child = kind.step(name)
        below = mentioned(child, each)
        if each is None or each == {} or not kind.has_field(name):
            below = union(below, LEAF)
        if below:
            tree[element] = below
    return tree


def with_structs(kind: MergeType, tree: Tree) -> Tree:
    """With the named fields that lead to members as members too."""
    result: dict[str, Any] = {}
    for element, below in tree.items():
        if element == MEMBER:
            result[MEMBER] = EMPTY
            continue
        child = DEDUCED
        named = False
        if element.startswith("f:"):
            _, child = kind.step(element[2:])
            named = kind.has_field(element[2:])
        elif element.startswith("k:") and kind.shape is Shape.LIST:
            child = kind.item
        inner = with_structs(child, below)
        result[element] = union(inner, LEAF) if named else inner
    return result
