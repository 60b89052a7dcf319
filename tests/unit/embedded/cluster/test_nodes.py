"""Text forms of node pools."""

from __future__ import annotations

import pytest

from multiqueue.embedded.cluster.nodes import NodeSpecError, build_nodes, parse_node_pool


@pytest.mark.parametrize(
    ("text", "count", "gpus"),
    [
        pytest.param("a100", 1, "8", id="a preset alone is one machine with its usual GPUs"),
        pytest.param("2xh100/4", 2, "4", id="count and GPUs override the preset"),
        pytest.param("4xcpu", 4, None, id="a machine without GPUs offers none"),
        pytest.param("a100/0", 1, None, id="zero GPUs offer none"),
    ],
)
def test_pools_have_count_and_gpus(text: str, count: int, gpus: str | None) -> None:
    pool = parse_node_pool(text)
    assert pool.count == count
    assert pool.allocatable.get("nvidia.com/gpu") == gpus


def test_labels_follow_a_comma() -> None:
    pool = parse_node_pool("h100/4,zone=b,team=")
    assert pool.labels["zone"] == "b"
    assert pool.labels["team"] == ""
    assert pool.labels["cloud.provider.com/accelerator"] == "h100"


@pytest.mark.parametrize("text", ["", "x", "0xa100", "a100/", "2x", "a100,zone", "a100,=b"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(NodeSpecError):
        parse_node_pool(text)


def test_nodes_of_equal_pools_have_different_names() -> None:
    nodes = build_nodes([parse_node_pool("2xa100"), parse_node_pool("a100/4")])
    assert [node["metadata"]["name"] for node in nodes] == ["a100-0", "a100-1", "a100-2"]
