"""What a worker is tried with is what it would be sent."""

from __future__ import annotations

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode, encode
from multiqueue.capacity.copy_selectors import add_copy_selectors
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.dispatch.decide.copy import encode_pod_set
from multiqueue.forecast.asked import Asking
from multiqueue.model.build_workload import DEFAULT_OPTIONS, build_workload
from multiqueue.plugins import QueueView
from tests.builders.engine import T0
from tests.builders.queue_views import make_queue_view
from tests.unit.capacity.test_worker_state import make_gpu_workload


def make_flavor(name: str, **labels: str) -> api.ResourceFlavor:
    annotations = {"multiqueue.dev/equivalent-flavors": "h200"} if name == "gpu" else {}
    metadata = {"name": name, "annotations": annotations}
    return decode(api.ResourceFlavor, {"metadata": metadata, "spec": {"nodeLabels": labels}})


MODELS = {model: {"model": model} for model in ("h100", "h200")}


@pytest.mark.parametrize(
    ("queue", "selector"),
    [
        pytest.param(
            make_queue_view({"h100": 8, "h200": 8}, MODELS),
            {"model": "h100"},
            id="what was reserved",
        ),
        pytest.param(
            make_queue_view({"h200": 8}, MODELS),
            {"model": "h200"},
            id="what it has of what would do",
        ),
        pytest.param(
            make_queue_view({"h100": 2, "h200": 8}, MODELS), {"model": "h200"}, id="its equivalent"
        ),
        pytest.param(QueueView(name="cq"), {}, id="no such resource"),
    ],
)
def test_a_worker_is_asked_for_the_hardware_that_a_copy_asks_for(
    queue: QueueView, selector: dict[str, str]
) -> None:
    flavors = {"gpu": make_flavor("gpu", model="h100"), "h200": make_flavor("h200", model="h200")}
    workload = make_gpu_workload("a", 4, reserved=True)
    view = build_workload_view(workload, kind="", find_flavor=flavors.get, options=DEFAULT_OPTIONS)
    body = encode(workload)
    body["spec"]["podSets"] = [encode_pod_set(pod_set) for pod_set in workload.spec.pod_sets]
    body = add_copy_selectors(body, view, queue)
    copy = build_workload(decode(api.Workload, body), DEFAULT_OPTIONS)
    (asked,) = Asking(view, T0).build_for(queue).pod_sets
    assert asked.placement == copy.pod_sets[0].placement
    assert dict(asked.placement.node_selector) == selector
