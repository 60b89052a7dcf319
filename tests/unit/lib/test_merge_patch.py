"""JSON merge patch, with the examples of RFC 7396."""

import copy
from typing import Any

import pytest

from multiqueue.lib.merge_patch import apply_merge_patch


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_examples(target: Any, patch: Any, want: Any) -> None:
    before = copy.deepcopy((target, patch))
    assert apply_merge_patch(target, patch) == want
    assert (target, patch) == before


def test_untouched_parts_are_shared() -> None:
    target = {"spec": {"x": 1}, "status": {"y": 2}}
    merged = apply_merge_patch(target, {"status": {"y": 3}})
    assert merged["spec"] is target["spec"]
