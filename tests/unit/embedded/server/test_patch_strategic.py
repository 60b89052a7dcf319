"""Strategic merge patch: lists by key, lists as sets, directives."""

from typing import Any

import pytest

from multiqueue.embedded.server.apply.patch_strategic import apply_strategic_merge_patch

MERGE = "x-kubernetes-patch-strategy"
KEY = "x-kubernetes-patch-merge-key"
SCHEMA = {
    "properties": {
        "containers": {
            "type": "array",
            MERGE: "merge",
            KEY: "name",
            "items": {
                "properties": {
                    "ports": {MERGE: "merge", KEY: "port", "items": {}},
                    "args": {"items": {}},
                }
            },
        },
        "finalizers": {"type": "array", MERGE: "merge", "items": {}},
        "tolerations": {"type": "array", "items": {}},
        "strategy": {MERGE: "retainKeys", "properties": {"type": {}, "rolling": {}}},
        "meta": {"properties": {"finalizers": {MERGE: "merge", "items": {}}}},
    }
}
TARGET = {
    "containers": [
        {"name": "a", "image": "1", "args": ["x"], "ports": [{"port": 80, "proto": "TCP"}]},
        {"name": "b", "image": "2"},
    ],
    "finalizers": ["f1", "f2"],
    "tolerations": [{"key": "t"}],
    "strategy": {"type": "Rolling", "rolling": {"max": 1}},
    "plain": {"x": 1, "y": 2},
}


def patched(patch: dict[str, Any]) -> Any:
    return apply_strategic_merge_patch(TARGET, patch, SCHEMA)


def test_elements_merge_by_key() -> None:
    got = patched({"containers": [{"name": "b", "image": "3"}, {"name": "c"}]})
    assert got["containers"] == [
        TARGET["containers"][0],
        {"name": "b", "image": "3"},
        {"name": "c"},
    ]


def test_merging_goes_down() -> None:
    got = patched({"containers": [{"name": "a", "ports": [{"port": 81}], "args": ["z"]}]})
    container = got["containers"][0]
    assert container["ports"] == [{"port": 81}, {"port": 80, "proto": "TCP"}]
    assert container["args"] == ["z"]


def test_elements_are_deleted_by_key() -> None:
    got = patched({"containers": [{"name": "a", "$patch": "delete"}]})
    assert [each["name"] for each in got["containers"]] == ["b"]


def test_a_list_is_replaced_by_directive() -> None:
    got = patched({"containers": [{"$patch": "replace"}, {"name": "z"}]})
    assert got["containers"] == [{"name": "z"}]


def test_lists_without_strategy_are_replaced() -> None:
    assert patched({"tolerations": [{"key": "u"}]})["tolerations"] == [{"key": "u"}]


def test_primitives_merge_as_sets() -> None:
    assert patched({"finalizers": ["f2", "f3"]})["finalizers"] == ["f1", "f2", "f3"]
    assert patched({"$deleteFromPrimitiveList/finalizers": ["f1"]})["finalizers"] == ["f2"]


def test_order_is_set() -> None:
    order = {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]}
    got = patched({**order, "containers": [{"name": "c"}]})
    assert [each["name"] for each in got["containers"]] == ["c", "b", "a"]
    got = patched({"$setElementOrder/finalizers": ["f2", "f1"]})
    assert got["finalizers"] == ["f2", "f1"]


def test_kept_keys_are_all_that_stays() -> None:
    got = patched({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}})
    assert got["strategy"] == {"type": "Recreate"}


def test_mappings_are_replaced_or_deleted_by_directive() -> None:
    assert patched({"plain": {"$patch": "replace", "z": 3}})["plain"] == {"z": 3}
    assert "plain" not in patched({"plain": {"$patch": "delete"}})
    assert patched({"plain": {"x": None}})["plain"] == {"y": 2}
    assert "plain" not in patched({"plain": None})


def test_nulls_inside_new_values_are_dropped() -> None:
    got = patched({"fresh": {"x": None, "y": {"z": None}}})
    assert got["fresh"] == {"y": {}}


@pytest.mark.parametrize(
    "patch", [{"containers": [{"image": "x"}]}, {"containers": ["x"]}, {"$patch": "sideways"}]
)
def test_malformed_patches(patch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"merge key|patch type"):
        patched(patch)


def test_of_several_elements_with_one_key_the_first_is_meant() -> None:
    ports = [{"port": 80, "proto": "UDP"}, {"port": 80, "proto": "TCP"}]
    target = {"containers": [{"name": "a", "ports": ports}]}
    patch = {"containers": [{"name": "a", "ports": [{"port": 80, "proto": "SCTP"}]}]}
    got = apply_strategic_merge_patch(target, patch, SCHEMA)
    assert got["containers"][0]["ports"] == [{"port": 80, "proto": "SCTP"}, ports[1]]
