from __future__ import annotations

import copy

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.lib.json_patch import build_json_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("ab/~", max_size=2), JSON, max_size=4)


@given(OBJECTS, OBJECTS)
def test_applying_the_patch_gives_the_other_object(before: dict, after: dict) -> None:
    patch = build_json_patch(before, after)
    got = jsonpatch.JsonPatch(patch).apply(copy.deepcopy(before))
    assert got == after
    assert (patch == []) == (before == after) or before != after


def test_equal_objects_need_no_patch() -> None:
    assert build_json_patch({"a": [1]}, {"a": [1]}) == []


def test_only_what_differs_is_named() -> None:
    got = build_json_patch({"a": {"b": 1, "c/d": 2}}, {"a": {"b": 1, "e": [3]}})
    assert got == [
        {"op": "remove", "path": "/a/c~1d"},
        {"op": "add", "path": "/a/e", "value": [3]},
    ]


def test_true_is_not_one() -> None:
    assert build_json_patch({"a": 1}, {"a": True}) == [
        {"op": "replace", "path": "/a", "value": True}
    ]
