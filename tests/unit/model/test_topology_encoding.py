"""Topology assignments on the wire: short, within the limits of the API, and exact (E-146)."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from multiqueue.model.topology import HOSTNAME, TopologyAssignment, TopologyDomain
from multiqueue.model.topology_encoding import decode_topology, encode_topology


def on_nodes(*names: str, count: int = 1) -> TopologyAssignment:
    return TopologyAssignment((HOSTNAME,), tuple(TopologyDomain((n,), count) for n in names))


def test_equal_counts_and_values_are_written_once() -> None:
    got = encode_topology(
        TopologyAssignment(
            ("block", "rack"),
            (TopologyDomain(("b1", "r1"), 4), TopologyDomain(("b1", "r2"), 4)),
        )
    )
    assert got == {
        "levels": ["block", "rack"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [
                    {"universal": "b1"},
                    {"individual": {"prefix": "r", "roots": ["1", "2"]}},
                ],
                "podCounts": {"universal": 4},
            }
        ],
    }


def test_nodes_of_many_pools_get_a_slice_for_each_prefix() -> None:
    names = [f"pool-{pool}-zone-{pool * 7919}-{i:02}" for pool in range(4) for i in range(20)]
    got = encode_topology(on_nodes(*names))
    assert [part["domainCount"] for part in got["slices"]] == [20, 20, 20, 20]
    assert got["slices"][1]["valuesPerLevel"] == [
        {"individual": {"prefix": "pool-1-zone-7919-", "roots": [f"{i:02}" for i in range(20)]}}
    ]
    assert decode_topology(got) == on_nodes(*names)


def test_without_the_gate_there_is_one_slice() -> None:
    names = [f"pool-{pool}-zone-{pool * 7919}-{i:02}" for pool in range(4) for i in range(20)]
    got = encode_topology(on_nodes(*names), by_hostname_prefix=False)
    assert [part["domainCount"] for part in got["slices"]] == [80]


def test_prefixes_are_grouped_less_deeply_where_there_would_be_too_many_slices() -> None:
    names = [f"very-long-name-{g // 300}-rack-{g:06}-{i}" for g in range(1200) for i in range(2)]
    got = encode_topology(on_nodes(*names))
    assert len(got["slices"]) <= 1000
    assert decode_topology(got) == on_nodes(*names)


_HOSTS = st.lists(
    st.builds("-".join, st.lists(st.sampled_from(["a", "b", "node", "1"]), min_size=1, max_size=4)),
    unique=True,
    max_size=12,
)


@given(_HOSTS, st.booleans(), st.integers(1, 3))
def test_what_is_written_reads_back_the_same(names: list[str], by_prefix: bool, count: int) -> None:
    assignment = on_nodes(*names, count=count)
    got = encode_topology(assignment, by_hostname_prefix=by_prefix)
    assert decode_topology(got) == assignment
    assert len(json.dumps(got)) <= len(
        json.dumps(encode_topology(assignment, by_hostname_prefix=False))
    )
