"""Sets of fields as trees, and their ``fieldsV1`` form.

A tree maps path elements to the trees below them; ``MEMBER`` beside them says that the item itself
belongs to the set. The root is never a member. Trees are immutable by agreement and shared: a
result is its left operand where that already says it. (Source: structured-merge-diff's fieldpath.)
"""

from collections.abc import Iterator, Mapping
from typing import Any

from multiqueue.embedded.server.managed.path_elements import (
    MEMBER,
    UnknownElementError,
    canonical,
    show,
)

Tree = Mapping[str, Any]
"""From element to Tree; ``{MEMBER: {}}`` is a leaf."""
EMPTY: Tree = {}
LEAF: Tree = {MEMBER: EMPTY}


def union(left: Tree, right: Tree) -> Tree:
    """What is in either."""
    if left is right or not right:
        return left
    if not left:
        return right
    result: dict[str, Any] | None = None
    for element, below in right.items():
        known = left.get(element)
        joined = below if known is None else union(known, below)
        if joined is not known:
            if result is None:
                result = dict(left)
            result[element] = joined
    return left if result is None else result


def difference(left: Tree, right: Tree) -> Tree:
    """What is in the left only; parents and children are members of their own."""
    result: dict[str, Any] | None = None
    for element, below in right.items():
        known = left.get(element)
        if known is None:
            continue
        rest = EMPTY if element == MEMBER else difference(known, below)
        if rest is not known or element == MEMBER:
            if result is None:
                result = dict(left)
            if rest:
                result[element] = rest
            else:
                del result[element]
    return left if result is None else result


def intersection(left: Tree, right: Tree) -> Tree:
    """What is in both."""
    if len(right) < len(left):
        left, right = right, left
    result: dict[str, Any] = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            continue
        if element == MEMBER:
            result[MEMBER] = EMPTY
        elif common := intersection(below, other):
            result[element] = common
    return result


def without_subtrees(tree: Tree, roots: Tree) -> Tree:
    """Without the members of ``roots`` and everything below them."""
    result: dict[str, Any] = {}
    for element, below in tree.items():
        other = roots.get(element)
        if other is None:
            result[element] = below
        elif MEMBER not in other and (rest := without_subtrees(below, other)):
            result[element] = rest
    return result


def paths(tree: Tree, prefix: str = "") -> Iterator[str]:
    """The members as messages show them; what is above comes first."""
    ordered = [(element, tree[element]) for element in sorted(tree) if element != MEMBER]
    for element, below in ordered:
        if MEMBER in below:
            yield prefix + show(element)
    for element, below in ordered:
        yield from paths(below, prefix + show(element))


def from_wire(fields: Mapping[str, Any]) -> Tree:
    """The tree of a ``fieldsV1``.

    Raises:
        ValueError: not a field set.
    """
    tree: dict[str, Any] = {}
    for name, below in fields.items():
        if name == MEMBER:
            tree[MEMBER] = EMPTY
            continue
        try:
            element = canonical(name)
        except UnknownElementError:
            continue
        if not isinstance(below, Mapping):
            raise ValueError(f"{name}: not an object")  # noqa: TRY004 - bad input
        tree[element] = union(tree.get(element, EMPTY), from_wire(below) or LEAF)
    return tree


def to_wire(tree: Tree) -> dict[str, Any]:
    """The ``fieldsV1`` of a tree: leaves are empty objects."""
    if len(tree) == 1 and MEMBER in tree:
        return {}
    return {
        element: EMPTY if element == MEMBER else to_wire(below) for element, below in tree.items()
    }
