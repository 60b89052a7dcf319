"""What pods ask for."""

from __future__ import annotations

from typing import Any

from multiqueue.embedded.cluster.requests import pod_requests


def container(cpu: str, **extra: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **extra}


def test_containers_add_up_in_milli_and_base_units() -> None:
    spec = {
        "containers": [
            container("1"),
            {"resources": {"requests": {"cpu": "250m", "memory": "1Ki"}}},
        ]
    }
    assert pod_requests({"spec": spec}) == {"cpu": 1250, "memory": 1024, "pods": 1}


def test_the_largest_init_step_counts_with_its_sidecars() -> None:
    sidecar = container("1", restartPolicy="Always")
    spec = {"containers": [container("1")], "initContainers": [sidecar, container("3")]}
    assert pod_requests({"spec": spec})["cpu"] == 4000


def test_limits_stand_in_for_missing_requests() -> None:
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    assert pod_requests({"spec": spec})["nvidia.com/gpu"] == 2


def test_overhead_and_pod_level_requests_count() -> None:
    spec = {
        "containers": [container("1")],
        "resources": {"requests": {"cpu": "2"}},
        "overhead": {"cpu": "100m"},
    }
    assert pod_requests({"spec": spec})["cpu"] == 2100
