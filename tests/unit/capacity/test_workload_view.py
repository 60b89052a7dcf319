"""A Workload as a dispatcher sees it."""

from __future__ import annotations

import pytest

from multiqueue.api.v1beta2 import Admission, PodSetAssignment
from multiqueue.api.workload_state import reserve_quota
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.model.build_workload import DEFAULT_OPTIONS
from tests.builders.workloads import T0, make_workload, with_status


@pytest.mark.parametrize(
    ("count", "usage", "want"),
    [
        (3, {"cpu": "3", "gpu": "6"}, {"cpu": 1000, "gpu": 2}),
        (3, {"cpu": "3", "pods": "3"}, {"cpu": 1000}),
        (3, {"gpu": "many"}, {"cpu": 1000}),
        (None, {"gpu": "6"}, {"cpu": 1000}),
    ],
    ids=["devices", "pods are no devices", "an unreadable amount", "an unknown count"],
)
def test_a_pod_needs_the_devices_that_it_was_charged_for(
    count: int | None, usage: dict[str, str], want: dict[str, int]
) -> None:
    """M-192: the template names claims, whose devices only the admission counts."""
    workload = make_workload(count=3)
    used = PodSetAssignment(
        name=workload.spec.pod_sets[0].name,
        flavors=dict.fromkeys(usage, "default"),
        resource_usage=usage,
        count=count,
    )
    admission = Admission(cluster_queue="cq", pod_set_assignments=(used,))
    workload = with_status(workload, reserve_quota(workload.status, admission, now=T0))
    view = build_workload_view(
        workload, kind="", find_flavor=lambda _: None, options=DEFAULT_OPTIONS
    )
    assert view.pod_sets[0].requests == want
