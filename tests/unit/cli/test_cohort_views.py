"""The tree of `cohorts`."""

from __future__ import annotations

from typing import Any

from multiqueue.cli.views.cohorts import WIDE_HEADERS, list_flow_rows, list_tree_rows, walk_tree

GPU = "nvidia.com/gpu"


def make_quota(**fields: Any) -> dict[str, Any]:
    amounts = {"nominal": 4, "used": 6, "lent": 0, "borrowed": 2, "free": 0}
    limits = {"borrowingLimit": None, "lendingLimit": 1}
    return {"flavor": "a100", "resource": GPU, **amounts, **limits, **fields}


def make_node(key: str, above: str | None = None, *quotas: Any, **more: Any) -> dict[str, Any]:
    kind = "Cohort" if key.startswith("cohort:") else "ClusterQueue"
    status = {"kind": kind, "cohort": above, "share": None, "quotas": [*quotas], "flows": []}
    return {"metadata": {"name": key}, "status": {**status, **more}}


FLOW = {
    "flavor": "a100",
    "resource": GPU,
    "lender": "clusterqueue:quiet",
    "borrower": "clusterqueue:busy",
    "amount": 2,
}
OWN = {**FLOW, "lender": "own", "amount": 1}
NODES = [
    make_node("clusterqueue:busy", "cohort:team", make_quota(), share=250),
    make_node("clusterqueue:quiet", "cohort:team", make_quota(used=0, lent=2, borrowed=0)),
    make_node("clusterqueue:alone", None, make_quota(resource="cpu", nominal=1500, used=500)),
    make_node("cohort:team", "cohort:all", flows=[FLOW, OWN, {**FLOW, "amount": 0}]),
    make_node("cohort:all", None, make_quota(nominal=None, free=None)),
]


def test_what_is_below_a_cohort_follows_it() -> None:
    assert [(level, node["metadata"]["name"]) for level, node in walk_tree(NODES)] == [
        (0, "clusterqueue:alone"),
        (0, "cohort:all"),
        (1, "cohort:team"),
        (2, "clusterqueue:busy"),
        (2, "clusterqueue:quiet"),
    ]
    below = [node["metadata"]["name"] for _, node in walk_tree(NODES, "team")]
    assert below == ["cohort:team", "clusterqueue:busy", "clusterqueue:quiet"]
    assert list(walk_tree(NODES, "busy")) == []


def test_a_row_for_each_flavor_and_resource_in_their_units() -> None:
    rows = list_tree_rows(walk_tree(NODES))
    assert {len(row) for row in rows} == {len(WIDE_HEADERS)}
    alone, top, team, busy, quiet = rows
    assert alone[:5] == ["queue alone", "a100", "cpu", "1500m", "500m"]
    assert top[:5] == ["all", "a100", GPU, "unlimited", "6"]
    assert team == ["└─ team", *[None] * 9, "-"]
    assert busy == ["└── queue busy", "a100", GPU, *"46020", "none", "1", "0.25"]
    assert quiet[4:7] == ["0", "2", "0"]


def test_who_lends_to_whom() -> None:
    assert list_flow_rows(walk_tree(NODES, "team")) == [
        ["quiet", "busy", "a100", GPU, "2"],
        ["the cohort's own", "busy", "a100", GPU, "1"],
    ]
