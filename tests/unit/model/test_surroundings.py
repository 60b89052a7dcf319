"""E-2 and E-10: overhead, defaults and bounds that pods get from where they run."""

from typing import Any

from multiqueue.model.pod_template import sum_pod_requests
from multiqueue.model.surroundings import (
    NOTHING,
    NamespaceSurroundings,
    adjust_template,
    find_broken_limits,
    summarize_limit_ranges,
)


def limit_range(name: str, type_: str = "Container", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"limits": [{"type": type_, **fields}]}}


def surroundings(
    *limit_ranges: dict[str, Any], **overheads: dict[str, str]
) -> NamespaceSurroundings:
    return NamespaceSurroundings(limits=summarize_limit_ranges(limit_ranges), overheads=overheads)


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


def template(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


def requests_of(pod: dict[str, Any], around: NamespaceSurroundings) -> dict[str, int]:
    return dict(sum_pod_requests(adjust_template(pod, around)).requests)


def test_a_runtime_class_adds_its_overhead_where_the_pod_has_none() -> None:
    around = surroundings(kata={"cpu": "250m"})
    one = container(requests={"cpu": "1"})

    assert requests_of(template(one, runtimeClassName="kata"), around) == {"cpu": 1250}
    assert requests_of(template(one, runtimeClassName="runc"), around) == {"cpu": 1000}
    own = template(one, runtimeClassName="kata", overhead={"cpu": "1"})
    assert requests_of(own, around) == {"cpu": 2000}


def test_defaults_fill_what_containers_and_init_containers_leave_out() -> None:
    around = surroundings(limit_range("a", default={"cpu": "2"}, defaultRequest={"cpu": "1"}))

    assert requests_of(template(container()), around) == {"cpu": 1000}
    assert requests_of(template(container(requests={"cpu": "3"})), around) == {"cpu": 3000}
    init = template(container(), initContainers=[container(requests={"cpu": "4"})])
    assert requests_of(init, around) == {"cpu": 4000}


def test_a_default_limit_is_the_request_where_there_is_no_other() -> None:
    around = surroundings(limit_range("a", default={"cpu": "2"}))

    assert requests_of(template(container()), around) == {"cpu": 2000}


def test_only_a_pod_with_resources_of_its_own_gets_the_defaults_for_pods() -> None:
    around = surroundings(limit_range("a", "Pod", default={"cpu": "8"}))

    assert requests_of(template(container(requests={"cpu": "1"})), around) == {"cpu": 1000}
    pod = template(container(requests={"cpu": "1"}), resources={"requests": {"memory": "1Gi"}})
    assert requests_of(pod, around) == {"cpu": 8000, "memory": 2**30}


def test_of_several_limit_ranges_the_strictest_bound_and_the_first_default_count() -> None:
    around = summarize_limit_ranges(
        [
            limit_range("b", default={"cpu": "4"}, max={"cpu": "4"}, min={"cpu": "1"}),
            limit_range("a", default={"cpu": "2"}, max={"cpu": "8"}, min={"cpu": "100m"}),
        ]
    )["Container"]

    assert around.default == {"cpu": "2"}
    assert str(around.maximum["cpu"]) == "4"
    assert str(around.minimum["cpu"]) == "1"


def test_bounds_hold_for_requests_and_limits_of_each_container() -> None:
    around = surroundings(limit_range("a", max={"cpu": "4"}, min={"cpu": "1"}))

    good = template(container(requests={"cpu": "1"}, limits={"cpu": "4"}))
    assert list(find_broken_limits(good, around)) == []
    bad = template(container(requests={"cpu": "500m"}, limits={"cpu": "5"}))
    assert list(find_broken_limits(bad, around)) == [
        'container "c" asks for 500m cpu, less than the minimum 1 of the namespace\'s LimitRanges',
        'container "c" asks for 5 cpu, more than the maximum 4 of the namespace\'s LimitRanges',
    ]


def test_bounds_for_pods_hold_for_the_sum() -> None:
    around = surroundings(limit_range("a", "Pod", max={"cpu": "3"}))
    two = container(requests={"cpu": "2"})

    assert list(find_broken_limits(template(two), around)) == []
    assert list(find_broken_limits(template(two, two), around)) == [
        "the pod asks for 4 cpu, more than the maximum 3 of the namespace's LimitRanges"
    ]


def test_nothing_around_changes_nothing() -> None:
    pod = template(container(), runtimeClassName="kata")

    assert adjust_template(pod, NOTHING) is pod
    assert adjust_template({"spec": None}, surroundings(kata={"cpu": "1"})) == {"spec": None}
