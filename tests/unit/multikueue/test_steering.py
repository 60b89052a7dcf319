"""Copies ask for the hardware that the manager reserved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.multikueue.steering import steer
from multiqueue.plugins import FlavorView, QueueView, QuotaView, ResourceGroupView

GPU = "nvidia.com/gpu"


def make_flavor(name: str, *equivalents: str, **labels: str) -> api.ResourceFlavor:
    annotations = {names.EQUIVALENT_FLAVORS: ",".join(equivalents)} if equivalents else {}
    metadata = {"name": name, "annotations": annotations}
    return decode(api.ResourceFlavor, {"metadata": metadata, "spec": {"nodeLabels": labels}})


def make_workload(flavor: str, gpus: int = 4) -> api.Workload:
    assignment = {"name": "main", "flavors": {GPU: flavor}, "resourceUsage": {GPU: str(gpus)}}
    return decode(
        api.Workload,
        {"status": {"admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}}},
    )


def make_queue(sizes: Mapping[str, int], labels: Mapping[str, Mapping[str, str]]) -> QueueView:
    return QueueView(
        name="cq",
        groups=(ResourceGroupView(resources=(GPU,), flavors=tuple(sizes)),),
        flavors={name: FlavorView(name=name, node_labels=labels.get(name, {})) for name in sizes},
        quotas={(name, GPU): QuotaView(most=most) for name, most in sizes.items()},
    )


def make_body(**selector: str) -> dict[str, Any]:
    spec = {"nodeSelector": selector} if selector else {}
    return {"spec": {"podSets": [{"name": "main", "template": {"spec": spec}}]}}


FLAVORS = {
    flavor.metadata.name: flavor
    for flavor in (
        make_flavor("h100", "h200", "gone", gpu="h100", zone="a"),
        make_flavor("h200", gpu="h200"),
        make_flavor("plain"),
    )
}
LABELS = {name: {"gpu": name} for name in ("a100", "h100", "h200")}


def wish(workload: api.Workload, queue: QueueView, **selector: str) -> dict[str, str]:
    """The node selector that the copy gets."""
    body = steer(make_body(**selector), workload, FLAVORS.get, queue)
    spec = body["spec"]["podSets"][0]["template"]["spec"]
    return dict(spec.get("nodeSelector", {}))


def test_labels_that_the_worker_tells_flavors_apart_by_are_asked_for():
    assert wish(make_workload("h100"), make_queue({"a100": 8, "h100": 8}, LABELS)) == {
        "gpu": "h100"
    }


def test_a_worker_without_labels_is_not_asked_for_any():
    assert wish(make_workload("h100"), make_queue({"a100": 8, "h100": 8}, {})) == {}


def test_a_flavor_without_labels_asks_for_nothing():
    assert wish(make_workload("plain"), make_queue({"a100": 8}, LABELS)) == {}


def test_what_the_user_asked_for_stays():
    queue = make_queue({"h100": 8}, LABELS)
    assert wish(make_workload("h100"), queue, disk="ssd") == {"gpu": "h100", "disk": "ssd"}


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        ({"h200": 8, "h100": 8}, "h100"),
        ({"a100": 8, "h200": 8}, "h200"),
        ({"h100": 2, "h200": 8}, "h200"),
        ({"h100": 2, "h200": 2}, "h100"),
    ],
    ids=[
        "the reserved flavor comes first",
        "the equivalent where there is no other",
        "the equivalent where the reserved one is too small",
        "the reserved one where both are too small",
    ],
)
def test_equivalents_come_second(sizes: Mapping[str, int], want: str):
    assert wish(make_workload("h100"), make_queue(sizes, LABELS)) == {"gpu": want}


def test_a_workload_without_quota_is_left_as_it_is():
    body = make_body()
    assert steer(body, api.Workload(), FLAVORS.get, make_queue({"h100": 8}, LABELS)) is body
