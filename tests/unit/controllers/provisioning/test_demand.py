"""Which pods need capacity, and which are asked for together (E-154, E-157)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api.v1beta2 import PodSet
from multiqueue.controllers.provisioning.demand import is_needed, list_demands
from multiqueue.controllers.provisioning.view import (
    InconsistentAssignmentError,
    ProvisioningView,
)
from tests.builders.workloads import make_template, make_workload, with_status
from tests.unit.controllers.provisioning.worlds import config, counting, holding, pod_set, view

GPU = "nvidia.com/gpu"
SAME = "IdenticalPodTemplates"
EQUAL = "IdenticalWorkloadSchedulingRequirements"


def asking(
    *pod_sets: PodSet, counts: dict[str, int] | None = None, **spec: Any
) -> ProvisioningView:
    workload = holding(workload=make_workload(pod_sets=pod_sets))
    return view(counting(workload, **(counts or {})), spec=config(**spec))


def demanded(world: ProvisioningView) -> list[tuple[str, int]]:
    return [(d.pod_set.name, d.count) for d in list_demands(world, world.checks[0])]


def with_container(name: str, **container: Any) -> PodSet:
    template = {"spec": {"containers": [{"name": "c", "image": "i", **container}]}}
    return PodSet(name=name, count=1, template=template)


def test_all_pod_sets_are_asked_for_with_their_counts() -> None:
    assert demanded(asking(pod_set("a", 2), pod_set("b", 3))) == [("a", 2), ("b", 3)]


def test_a_pod_set_without_pods_is_left_out() -> None:
    assert demanded(asking(pod_set("a", 0), pod_set("b", 1))) == [("b", 1)]


def test_a_pod_set_that_was_scaled_to_nothing_is_left_out() -> None:
    assert demanded(asking(pod_set("a", 0), pod_set("b", 1), counts={"a": 2})) == [("b", 1)]


def test_partial_admission_asks_for_what_was_assigned() -> None:
    world = asking(pod_set("a", 5), pod_set("b", 5), counts={"a": 2, "b": 0})
    assert demanded(world) == [("a", 2)]


def test_what_has_no_pods_needs_nothing() -> None:
    world = asking(pod_set("a", 5), counts={"a": 0})
    assert not is_needed(world, world.checks[0])


@pytest.mark.parametrize(
    ("resources", "needed"),
    [
        pytest.param({"requests": {GPU: "1"}}, True, id="requested"),
        pytest.param({"limits": {GPU: "1"}}, True, id="limited"),
        pytest.param({"requests": {"cpu": "1"}}, False, id="another resource"),
        pytest.param({}, False, id="nothing"),
    ],
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_only_managed_resources_count(resources: dict[str, Any], needed: bool, where: str) -> None:
    template: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    template["spec"][where] = [{"name": "c", "image": "i", "resources": resources}]
    world = asking(
        PodSet(name="a", count=1, template=template), pod_set("b"), managed_resources=(GPU,)
    )
    assert demanded(world) == ([("a", 1)] if needed else [])
    assert is_needed(world, world.checks[0]) is needed


def test_an_inactive_check_needs_nothing() -> None:
    world = view(inactive=True)
    assert not is_needed(world, world.checks[0])


def test_a_missing_assignment_is_an_error() -> None:
    workload = holding(workload=make_workload(pod_sets=(pod_set("a"), pod_set("b"))))
    admission = workload.status.admission
    assert admission is not None
    cut = msgspec.structs.replace(admission, pod_set_assignments=admission.pod_set_assignments[:1])
    broken = with_status(workload, msgspec.structs.replace(workload.status, admission=cut))
    world = view(broken)
    with pytest.raises(InconsistentAssignmentError, match=r'inconsistent.*pod set "b"'):
        is_needed(world, world.checks[0])


def test_nothing_is_merged_without_a_policy() -> None:
    assert demanded(asking(pod_set("a"), pod_set("b"))) == [("a", 1), ("b", 1)]


def test_equal_templates_are_merged_into_the_first() -> None:
    pods = (pod_set("a", 1), pod_set("b", 2), pod_set("c", 3, cpu="2"), pod_set("d", 4, cpu="2"))
    world = asking(*pods, pod_set_merge_policy=SAME)
    assert demanded(world) == [("a", 3), ("c", 7)]


def test_it_is_the_first_match_that_counts_not_the_neighbour() -> None:
    pods = (pod_set("a", 1), pod_set("b", 2, cpu="2"), pod_set("c", 3))
    assert demanded(asking(*pods, pod_set_merge_policy=SAME)) == [("a", 4), ("b", 2)]


def test_templates_that_differ_in_words_are_merged_by_requirements_only() -> None:
    other = pod_set("b", 2)
    other.template["spec"]["containers"][0]["image"] = "another"
    pods = (pod_set("a", 1), other)
    assert demanded(asking(*pods, pod_set_merge_policy=SAME)) == [("a", 1), ("b", 2)]
    assert demanded(asking(*pods, pod_set_merge_policy=EQUAL)) == [("a", 3)]


@pytest.mark.parametrize(
    "difference",
    [
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {}}},
        {"resourceClaims": [{"name": "x"}]},
        {"resources": {"requests": {"cpu": "3"}}},
        {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}, {"name": "d"}]},
    ],
    ids=lambda difference: next(iter(difference)),
)
def test_what_decides_where_a_pod_fits_keeps_pod_sets_apart(difference: dict[str, Any]) -> None:
    template = make_template()
    template["spec"] = {**template["spec"], **difference}
    pods = (pod_set("a"), PodSet(name="b", count=1, template=template))
    assert len(demanded(asking(*pods, pod_set_merge_policy=EQUAL))) == 2


def test_equal_amounts_in_other_words_are_equal() -> None:
    pods = (
        with_container("a", resources={"requests": {"cpu": "1"}}),
        with_container("b", resources={"requests": {"cpu": "1000m"}}),
        with_container("c", resources={"limits": {"cpu": 1}}),
    )
    assert demanded(asking(*pods, pod_set_merge_policy=EQUAL)) == [("a", 3)]


def test_pod_sets_on_different_flavors_stay_apart() -> None:
    world = asking(pod_set("a"), pod_set("b"), pod_set_merge_policy=SAME)
    admission = world.workload.status.admission
    assert admission is not None
    first, second = admission.pod_set_assignments
    moved = msgspec.structs.replace(second, flavors={"cpu": "spot"})
    other = msgspec.structs.replace(admission, pod_set_assignments=(first, moved))
    status = msgspec.structs.replace(world.workload.status, admission=other)
    world = view(with_status(world.workload, status), spec=config(pod_set_merge_policy=SAME))
    assert demanded(world) == [("a", 1), ("b", 1)]
