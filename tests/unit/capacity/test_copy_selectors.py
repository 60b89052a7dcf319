"""Copies ask for the hardware that the manager reserved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.capacity.copy_selectors import add_copy_selectors
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.model.build_workload import BuildOptions
from multiqueue.plugins import (
    QueueView,
    WorkloadView,
)
from tests.builders.queue_views import make_queue_view

GPU = "nvidia.com/gpu"


def make_flavor(name: str, *equivalents: str, **labels: str) -> api.ResourceFlavor:
    annotations = {names.EQUIVALENT_FLAVORS: ",".join(equivalents)} if equivalents else {}
    metadata = {"name": name, "annotations": annotations}
    return decode(api.ResourceFlavor, {"metadata": metadata, "spec": {"nodeLabels": labels}})


def make_gang_view(
    flavor: str = "", *, pods: int = 4, reserved: int | None = None, alternatives: str = ""
) -> WorkloadView:
    """A gang of pods with a GPU each, and what the manager reserved for it."""
    annotations = {names.ALTERNATIVES: alternatives} if alternatives else {}
    requests = {"containers": [{"resources": {"requests": {GPU: "1"}}}]}
    pod_sets = [{"name": "main", "count": pods, "template": {"spec": requests}}]
    assignment = {"name": "main", "flavors": {GPU: flavor}, "count": reserved or pods}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    workload = decode(
        api.Workload,
        {
            "metadata": {"name": "w", "namespace": "n", "annotations": annotations},
            "spec": {"podSets": pod_sets},
            "status": {"admission": admission} if flavor else {},
        },
    )
    return build_workload_view(workload, kind="", find_flavor=FLAVORS.get, options=BuildOptions())


def make_body(*, pods: int = 4, **selector: str) -> dict[str, Any]:
    spec = {"nodeSelector": selector} if selector else {}
    pod_set = {"name": "main", "count": pods, "template": {"spec": spec}}
    return {"spec": {"podSets": [pod_set]}}


FLAVORS = {
    flavor.metadata.name: flavor
    for flavor in (
        make_flavor("h100", "h200", "gone", gpu="h100", zone="a"),
        make_flavor("h200", gpu="h200"),
        make_flavor("plain"),
    )
}
LABELS = {name: {"gpu": name} for name in ("a100", "h100", "h200")}


def wanted(workload: WorkloadView, queue: QueueView, **selector: str) -> dict[str, str]:
    """The node selector that the copy gets."""
    body = add_copy_selectors(make_body(**selector), workload, queue)
    spec = body["spec"]["podSets"][0]["template"]["spec"]
    return dict(spec.get("nodeSelector", {}))


def test_labels_that_the_worker_tells_flavors_apart_by_are_asked_for():
    assert wanted(make_gang_view("h100"), make_queue_view({"a100": 8, "h100": 8}, LABELS)) == {
        "gpu": "h100"
    }


def test_a_worker_without_labels_is_not_asked_for_any():
    assert wanted(make_gang_view("h100"), make_queue_view({"a100": 8, "h100": 8}, {})) == {}


def test_a_flavor_without_labels_asks_for_nothing():
    assert wanted(make_gang_view("plain"), make_queue_view({"a100": 8}, LABELS)) == {}


def test_what_the_user_asked_for_stays():
    queue = make_queue_view({"h100": 8}, LABELS)
    assert wanted(make_gang_view("h100"), queue, disk="ssd") == {"gpu": "h100", "disk": "ssd"}


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
    assert wanted(make_gang_view("h100"), make_queue_view(sizes, LABELS)) == {"gpu": want}


def test_a_workload_without_quota_is_left_as_it_is():
    body = make_body()
    assert add_copy_selectors(body, make_gang_view(), make_queue_view({"h100": 8}, LABELS)) is body


def fitted(
    workload: WorkloadView, queue: QueueView | None, *, pods: int = 8
) -> tuple[int, dict[str, str]]:
    """Pods and node selector that the copy gets."""
    (pod_set,) = add_copy_selectors(make_body(pods=pods), workload, queue)["spec"]["podSets"]
    return pod_set["count"], pod_set["template"]["spec"].get("nodeSelector", {})


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        ({"h100": 8}, (4, {"gpu": "h100"})),
        ({"a100": 8}, (8, {})),
        ({"a100": 8, "h100": 8}, (8, {"gpu": "a100"})),
        ({"a100": 6, "h100": 8}, (4, {"gpu": "h100"})),
        ({"a100": 8, "h200": 8, "h100": 8}, (8, {})),
        ({"a100": 6, "h100": 2}, (8, {"gpu": "a100"})),
    ],
    ids=[
        "as many as that hardware needs",
        "all on any other",
        "asked for by its label where there is both",
        "what could hold it",
        "those that need all cannot be told from the other by a label",
        "as large as ever where nothing holds it",
    ],
)
def test_a_copy_has_as_many_pods_as_its_hardware_needs(sizes: Mapping[str, int], want: object):
    workload = make_gang_view("plain", pods=8, alternatives="h100=4")
    assert fitted(workload, make_queue_view(sizes, LABELS)) == want


def test_the_first_hardware_with_room_is_taken():
    queue = make_queue_view({"a100": 8, "h100": 8}, LABELS)
    quotas = {
        pair: replace(quota, available=0 if pair[0] == "a100" else 8)
        for pair, quota in queue.quotas.items()
    }
    workload = make_gang_view("plain", pods=8, alternatives="h100=4")
    assert fitted(workload, replace(queue, quotas=quotas)) == (4, {"gpu": "h100"})


def test_as_many_as_were_reserved_where_nothing_is_known():
    workload = make_gang_view("h100", pods=8, reserved=4, alternatives="h100=4")
    assert fitted(workload, None) == (4, {})
    assert fitted(workload, make_queue_view({"any": 8}, {})) == (4, {})


def test_an_equivalent_that_needs_more_than_was_reserved_is_none():
    h200 = make_queue_view({"h200": 8}, LABELS)
    fewer = make_gang_view("h100", pods=8, reserved=4, alternatives="h100=4,h200=2")
    assert fitted(fewer, h200) == (2, {"gpu": "h200"})
    more = make_gang_view("h100", pods=8, reserved=4, alternatives="h100=4")
    assert [dict(labels) for labels in more.pod_sets[0].reserved[GPU].equivalents] == []
