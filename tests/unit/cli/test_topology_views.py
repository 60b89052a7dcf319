"""What a Workload asks of a topology, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.cli.views.explanation import explain
from tests.unit.cli.builders import condition, make_objects, make_workload

MISS = condition("QuotaReserved", "False", "TopologyPlacementFailed", "fits only 1 out of 2 pod(s)")


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        (None, ""),
        ({}, ""),
        ({"required": "rack"}, "2 pod(s) of main in one domain of level rack"),
        ({"preferred": "rack"}, "2 pod(s) of main in one domain of level rack if possible"),
        ({"unconstrained": True}, "2 pod(s) of main on any nodes of the topology"),
        (
            {
                "required": "block",
                "pod_set_slice_required_topology": "rack",
                "pod_set_slice_size": 1,
                "pod_set_group_name": "g",
            },
            (
                "2 pod(s) of main in one domain of level block, every 1 of them in one domain of "
                "level rack, together with the other pod sets of group g"
            ),
        ),
    ],
)
def test_a_miss_comes_with_what_was_asked(request_: dict[str, Any] | None, want: str) -> None:
    workload = make_workload("w", MISS)
    (pod_set,) = workload.spec.pod_sets
    request = None if request_ is None else PodSetTopologyRequest(**request_)
    pod_sets = (msgspec.structs.replace(pod_set, topology_request=request),)
    spec = msgspec.structs.replace(workload.spec, pod_sets=pod_sets)
    workload = msgspec.structs.replace(workload, spec=spec)

    assert explain(make_objects(workload), workload).asks == want
