"""Where pods may go."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.embedded.cluster.placement import NodeLedger, pod_shape
from multiqueue.embedded.cluster.requests import pod_requests
from tests.unit.embedded.cluster.builders import make_node, make_pod

ZONE_A = {"key": "zone", "operator": "In", "values": ["a"]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def make_ledger(*nodes: dict[str, Any]) -> NodeLedger:
    ledger = NodeLedger()
    for node in nodes:
        ledger.upsert_node(node)
    return ledger


def gpu_pod(name: str, gpus: int) -> dict[str, Any]:
    return make_pod(name, requests={"nvidia.com/gpu": str(gpus)})


def occupy(ledger: NodeLedger, pod: dict[str, Any], node: str) -> None:
    ledger.occupy(pod["metadata"]["uid"], node, pod_requests(pod))


def test_the_fullest_node_that_fits_wins() -> None:
    ledger = make_ledger(make_node("a", gpu="8"), make_node("b", gpu="8"))
    occupy(ledger, gpu_pod("x", 4), "b")
    assert ledger.place(gpu_pod("y", 4)).node == "b"
    assert ledger.place(gpu_pod("z", 5)).node == "a"


def test_a_release_gives_room_back_once() -> None:
    ledger = make_ledger(make_node("a", gpu="8"))
    occupy(ledger, gpu_pod("x", 8), "a")
    assert ledger.place(gpu_pod("y", 1)).node is None
    assert ledger.release("uid-x")
    assert not ledger.release("uid-x")
    assert ledger.place(gpu_pod("y", 8)).node == "a"


def test_pods_on_a_node_that_comes_late_are_counted() -> None:
    ledger = NodeLedger()
    occupy(ledger, gpu_pod("x", 8), "a")
    ledger.upsert_node(make_node("a", gpu="8"))
    got = ledger.place(gpu_pod("y", 1))
    assert got.message == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


@pytest.mark.parametrize(
    ("node", "spec", "fits"),
    [
        pytest.param(
            make_node(labels={"zone": "a"}),
            {"nodeSelector": {"zone": "a"}},
            True,
            id="met",
        ),
        pytest.param(
            make_node(labels={"zone": "b"}), {"nodeSelector": {"zone": "a"}}, False, id="not met"
        ),
        pytest.param(
            make_node(labels={"zone": "a"}),
            {"affinity": required({"matchExpressions": [ZONE_A]})},
            True,
            id="required affinity met",
        ),
        pytest.param(
            make_node(labels={"zone": "b"}),
            {"affinity": required({"matchExpressions": [ZONE_A]})},
            False,
            id="required affinity not met",
        ),
        pytest.param(
            make_node("b"),
            {
                "affinity": required(
                    {"matchExpressions": [ZONE_A]},
                    {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
                )
            },
            True,
            id="any term is enough",
        ),
        pytest.param(make_node(), {"affinity": required({})}, False, id="empty term"),
        pytest.param(make_node(ready=False), {}, False, id="a node that is not ready takes none"),
        pytest.param(
            make_node(taints=[{"key": "gpu", "value": "y", "effect": "NoSchedule"}]),
            {},
            False,
            id="a taint keeps others away",
        ),
        pytest.param(
            make_node(taints=[{"key": "gpu", "value": "y", "effect": "NoSchedule"}]),
            {"tolerations": [{"key": "gpu", "value": "y", "effect": "NoSchedule"}]},
            True,
            id="an equal toleration lets in",
        ),
        pytest.param(
            make_node(taints=[{"key": "gpu", "effect": "NoExecute"}]),
            {"tolerations": [{"operator": "Exists"}]},
            True,
            id="an empty key with Exists tolerates all",
        ),
        pytest.param(
            make_node(taints=[{"key": "gpu", "effect": "PreferNoSchedule"}]),
            {},
            True,
            id="a soft taint keeps nobody away",
        ),
        pytest.param(
            make_node(labels={"gen": "9"}),
            {
                "affinity": required(
                    {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["8"]}]}
                )
            },
            True,
            id="numbers compare",
        ),
    ],
)
def test_placement_follows_the_rules(
    node: dict[str, Any], spec: dict[str, Any], *, fits: bool
) -> None:
    assert (make_ledger(node).place(make_pod(**spec)).node is not None) == fits


def test_pods_that_fit_the_same_nodes_have_the_same_shape() -> None:
    assert pod_shape(gpu_pod("x", 2)) == pod_shape(gpu_pod("y", 2))
    assert pod_shape(gpu_pod("x", 2)) != pod_shape(gpu_pod("y", 3))
