"""What the devices of a pod count as: claims, extended resources, refusals (E-175 to E-177)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.lib.amount import LARGEST
from multiqueue.model.build_workload import BuildOptions, build_workload
from multiqueue.model.devices import (
    DISABLED,
    DeviceCatalog,
    DeviceCharge,
    DeviceRules,
    charge_devices,
    choose_classes,
)
from multiqueue.model.pod_template import sum_pod_requests
from multiqueue.model.surroundings import NamespaceSurroundings
from tests.builders.workloads import T0, make_template, make_workload, reserved

RULES = DeviceRules(counted=True, extended=True, resources={"gpu.example.com": "gpu", "mig": "gpu"})


def exactly(device_class: str = "gpu.example.com", **fields: Any) -> dict[str, Any]:
    body = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1, **fields}
    return {"name": "r", "exactly": body}


def claims(*requests: dict[str, Any]) -> DeviceCatalog:
    """A namespace whose one ResourceClaimTemplate, t, has these requests."""
    return DeviceCatalog(templates={"t": {"devices": {"requests": list(requests)}}})


def make_pod(*names: str, requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    template = make_template(**spec)
    template["spec"]["containers"][0]["resources"]["requests"].update(requests or {})
    if names:
        template["spec"]["resourceClaims"] = [
            {"name": f"c{i}", "resourceClaimTemplateName": name} for i, name in enumerate(names)
        ]
    return template


def charge(
    template: dict[str, Any],
    catalog: DeviceCatalog | None = None,
    rules: DeviceRules = RULES,
) -> DeviceCharge:
    requests = sum_pod_requests(template).requests
    return charge_devices(template, requests, rules, catalog or DeviceCatalog())


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        pytest.param([exactly(count=3)], {"gpu": 3}, id="a count"),
        pytest.param([exactly(count=2), exactly("mig")], {"gpu": 3}, id="two classes, one name"),
        pytest.param(
            [{"exactly": {"deviceClassName": "mig"}}], {"gpu": 1}, id="defaults of the API server"
        ),
        pytest.param([exactly(adminAccess=True, count=9)], {}, id="admin access is free"),
        pytest.param(
            [exactly(allocationMode="All", adminAccess=True)], {}, id="admin access to all"
        ),
        pytest.param([exactly(count=2**63 - 1)] * 2, {"gpu": LARGEST}, id="more than int64"),
        pytest.param([exactly(selectors=[{"cel": {"expression": "true"}}])], {"gpu": 1}, id="CEL"),
        pytest.param([], {}, id="no device"),
    ],
)
def test_a_claim_counts_by_class(requests: list[dict[str, Any]], want: dict[str, int]) -> None:
    assert charge(make_pod("t"), claims(*requests)) == DeviceCharge(requests=want)


def test_each_claim_of_a_pod_counts() -> None:
    assert charge(make_pod("t", "t"), claims(exactly(count=2))).requests == {"gpu": 4}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        pytest.param({"firstAvailable": [{}]}, "firstAvailable is not supported; use exactly"),
        pytest.param({}, "exactly is missing"),
        pytest.param(exactly(allocationMode="All"), 'allocationMode "All" is not supported'),
        pytest.param(exactly("other"), 'DeviceClass "other" is not mapped; add it to'),
    ],
)
def test_a_claim_that_cannot_be_counted_is_refused(request_: dict[str, Any], words: str) -> None:
    got = charge(make_pod("t"), claims(exactly(), request_))
    assert got.requests == {}
    (problem,) = got.problems
    assert problem.startswith('ResourceClaimTemplate "t": devices.requests[1]: ')
    assert words in problem


def test_a_missing_template_is_named() -> None:
    (problem,) = charge(make_pod("gone")).problems
    assert problem == 'ResourceClaimTemplate "gone" not found; create it in the namespace'


def test_a_claim_that_pods_share_is_refused() -> None:
    pod = make_pod(resourceClaims=[{"name": "c", "resourceClaimName": "shared"}])
    (problem,) = charge(pod).problems
    assert problem.startswith('resource claim "shared": ')


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        (DeviceRules(refused=True), (DISABLED,)),
        (DeviceRules(), ()),
    ],
)
def test_without_the_gate_claims_are_refused_or_ignored(
    rules: DeviceRules, want: tuple[str, ...]
) -> None:
    assert charge(make_pod("t"), claims(exactly()), rules).problems == want


def make_class(name: str, extended: str = "", *, at: str = "2026-01-01T00:00:00Z") -> Any:
    spec = {"extendedResourceName": extended} if extended else {}
    return {"metadata": {"name": name, "creationTimestamp": at}, "spec": spec}


@pytest.mark.parametrize(
    ("classes", "want"),
    [
        ([make_class("b", "x/gpu"), make_class("a", "x/gpu"), make_class("c", "x/gpu")], "a"),
        ([make_class("a", "x/gpu"), make_class("b", "x/gpu", at="2026-01-01T00:00:01Z")], "b"),
        ([make_class("a"), make_class("b", "x/gpu")], "b"),
    ],
    ids=["the first name of one second", "the newest", "a class without one offers nothing"],
)
def test_the_class_that_kubernetes_takes_offers_the_resource(classes: list[Any], want: str) -> None:
    assert choose_classes(classes) == choose_classes(classes[::-1]) == {"x/gpu": want}


@pytest.mark.parametrize(
    ("device_class", "want"),
    [("gpu.example.com", {"gpu": 4}), ("unmapped", {"x/gpu": 4})],
    ids=["under the name of its mapping", "under its own name"],
)
def test_an_extended_resource_counts_by_its_class(device_class: str, want: dict[str, int]) -> None:
    catalog = DeviceCatalog(extended={"x/gpu": device_class})
    got = charge(make_pod(requests={"x/gpu": "4"}), catalog)
    assert got == DeviceCharge(requests=want, replaced=frozenset({"x/gpu"}))


def test_an_extended_resource_must_be_whole_in_each_container() -> None:
    pod = make_pod(requests={"x/gpu": "500m"})
    pod["spec"]["containers"].append(dict(pod["spec"]["containers"][0]))
    (problem,) = charge(pod, DeviceCatalog(extended={"x/gpu": "mig"})).problems
    assert problem == "requests.x/gpu: 500m: a number of devices must be an integer"


@pytest.mark.parametrize(
    ("requests", "claim"),
    [({"x/gpu": "0"}, {}), ({"x/gpu": "many"}, {}), ({}, {"resourceClaims": [{"name": "c"}]})],
    ids=["none of it", "an amount that is told elsewhere", "a claim without a name"],
)
def test_nothing_that_can_be_counted(requests: dict[str, str], claim: dict[str, Any]) -> None:
    catalog = DeviceCatalog(extended={"x/gpu": "mig"})
    assert charge(make_pod(requests=requests, **claim), catalog) == DeviceCharge()


def test_an_amount_that_cannot_be_read_in_one_container_is_told_by_the_reader() -> None:
    pod = make_pod(requests={"x/gpu": "2"})
    other = {"name": "d", "resources": {"requests": {"x/gpu": "many"}}}
    pod["spec"]["containers"].append(other)
    got = charge(pod, DeviceCatalog(extended={"x/gpu": "mig"}))
    assert (got.requests, got.problems) == ({"gpu": 2}, ())


def test_without_its_gate_an_extended_resource_counts_as_it_is() -> None:
    rules = DeviceRules(counted=True, resources=RULES.resources)
    catalog = DeviceCatalog(extended={"x/gpu": "mig"})
    assert charge(make_pod(requests={"x/gpu": "4"}), catalog, rules) == DeviceCharge()


OPTIONS = BuildOptions(devices=RULES)
MIXED = NamespaceSurroundings(
    devices=DeviceCatalog(templates=claims(exactly(count=2)).templates, extended={"x/gpu": "mig"})
)


def test_a_workload_requests_its_devices_and_nodes_are_not_asked_for_them() -> None:
    obj = make_workload(template=make_pod("t", requests={"x/gpu": "1"}), count=3)
    (pod_set,) = build_workload(obj, OPTIONS, MIXED).pod_sets
    assert pod_set.requests == {"cpu": 1000, "gpu": 3}
    assert pod_set.total("gpu") == 9
    assert pod_set.node_requests == {"cpu": 1000}


def test_a_workload_with_quota_has_no_problem_if_its_template_is_gone() -> None:
    obj = make_workload(template=make_pod("gone"))
    assert build_workload(obj, OPTIONS, MIXED).problems
    assert not build_workload(reserved(obj, at=T0), OPTIONS, MIXED).problems


def test_readers_that_do_not_know_the_devices_count_none_and_see_no_problem() -> None:
    got = build_workload(make_workload(template=make_pod("t")), OPTIONS)
    assert (got.problems, got.pod_sets[0].requests) == ((), {"cpu": 1000})


@given(st.lists(st.integers(1, 2**63 - 1), max_size=8), st.integers(1, 2**63 - 1))
def test_devices_add_up_and_never_overflow(counts: list[int], extended: int) -> None:
    requests = [exactly(count=count) for count in counts]
    catalog = DeviceCatalog(templates=claims(*requests).templates, extended={"x/gpu": "mig"})
    got = charge(make_pod("t", requests={"x/gpu": str(extended)}), catalog)
    assert got.requests["gpu"] == min(LARGEST, sum(counts) + min(extended, LARGEST))
