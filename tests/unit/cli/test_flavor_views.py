"""The table of `flavors`."""

from __future__ import annotations

from typing import Any

from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import ClusterQueue, ResourceFlavor
from multiqueue.cli.views.flavors import WIDE_HEADERS, list_flavor_rows, list_flavors
from tests.unit.cli.builders import collect


def make_flavor(name: str, **spec: Any) -> ResourceFlavor:
    return decode(ResourceFlavor, {"metadata": {"name": name}, "spec": spec})


def make_queue(name: str, *flavors: str) -> ClusterQueue:
    quotas = [
        {"name": each, "resources": [{"name": "cpu", "nominalQuota": "1"}]} for each in flavors
    ]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    spec = {"resourceGroups": groups}
    return decode(ClusterQueue, {"metadata": {"name": name}, "spec": spec})


def make_figures(flavor: str, total: int, used: int) -> dict[str, Any]:
    return {"flavor": flavor, "total": total, "used": used, "free": max(0, total - used)}


def test_a_flavor_has_its_gpus_its_nodes_and_the_queues_with_quota_of_it() -> None:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    objects = collect(
        flavors=[
            make_flavor("cpu"),
            make_flavor(
                "a100",
                nodeLabels={"zone": "b", "gpu": "a100"},
                nodeTaints=[taint, {"key": "gpu", "effect": "NoExecute"}],
                topologyName="racks",
            ),
        ],
        cluster_queues=[make_queue("two", "a100"), make_queue("one", "a100", "gone")],
    )
    flavors = list_flavors(objects, [make_figures("a100", 8, 3), make_figures("a100", 2, 2)])
    assert [(each["name"], each["exists"]) for each in flavors] == [
        ("a100", True),
        ("cpu", True),
        ("gone", False),
    ]
    a100, cpu, gone = list_flavor_rows(flavors)
    assert a100 == [
        "a100",
        10,
        5,
        5,
        "gpu=a100, zone=b",
        "spot=yes:NoSchedule, gpu:NoExecute",
        "racks",
        "one, two",
    ]
    assert cpu == ["cpu", None, None, None, "", "", None, ""]
    assert gone[-1] == "one"
    assert len(a100) == len(WIDE_HEADERS)
