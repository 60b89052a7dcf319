"""LimitRanges: defaults and bounds for pods."""

from typing import Any

import pytest

from multiqueue.embedded.server.kinds import AdmissionRefused
from tests.unit.embedded.server.kind_builders import (
    admitted,
    container,
    create_causes,
    created,
    pod,
    texts,
)


def limits(**item: Any) -> dict[str, Any]:
    return {
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "ns"},
        "spec": {"limits": [{"type": "Container", **item}]},
    }


def resources_with(limit_range: dict, **given: Any) -> dict[str, Any]:
    got = created("", "pods", pod(containers=[container(resources=given)]), limit_range)
    resources: dict[str, Any] = got["spec"]["containers"][0]["resources"]
    return resources


def test_what_a_container_does_not_say_comes_from_the_range() -> None:
    limit_range = limits(default={"cpu": "2"}, defaultRequest={"cpu": "1"})
    assert resources_with(limit_range) == {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    own = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    assert resources_with(limit_range, **own) == own


@pytest.mark.parametrize(
    ("item", "given", "want"),
    [
        (
            {"max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        ({"max": {"cpu": "1"}}, {}, "maximum cpu usage per Container is 1.  No limit is specified"),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "500m"}},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Pod is 1, but limit is 2",
        ),
    ],
)
def test_a_broken_bound_refuses_the_pod(item: dict, given: dict, want: str) -> None:
    with pytest.raises(AdmissionRefused) as refusal:
        resources_with(limits(**item), **given)
    assert str(refusal.value) == want


def test_other_namespaces_have_other_ranges() -> None:
    elsewhere = limits(max={"cpu": "1"}) | {"metadata": {"name": "l", "namespace": "other"}}
    assert resources_with(elsewhere) == {}


def test_defaults_follow_from_bounds() -> None:
    got = admitted("", "limitranges", limits(max={"cpu": "2"}, min={"memory": "1Gi"})).obj
    assert got["spec"]["limits"][0] == {
        "type": "Container",
        "max": {"cpu": "2"},
        "min": {"memory": "1Gi"},
        "default": {"cpu": "2"},
        "defaultRequest": {"cpu": "2", "memory": "1Gi"},
    }


def test_bounds_must_not_contradict_each_other() -> None:
    got = texts(create_causes("", "limitranges", limits(min={"cpu": "2"}, max={"cpu": "1"})))
    assert (
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'
        in got
    )
