from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.names import DISPATCH_PROFILE, V1ALPHA1
from tests.unit.lint.objects import cluster_queue, find, local_queue, obj, told


def profile(name: str = "gpu", **spec: Any) -> dict[str, Any]:
    return obj("DispatchProfile", name, {"dispatcher": "score", **spec}, version=V1ALPHA1)


def naming(queue: dict[str, Any], name: str = "gpu") -> dict[str, Any]:
    queue["metadata"]["annotations"] = {DISPATCH_PROFILE: name}
    return queue


@pytest.mark.parametrize(
    "queue", [local_queue(), cluster_queue(), obj("MultiKueueConfig", "c", {"clusters": ["w"]})]
)
def test_a_profile_that_does_not_exist_is_named(queue: dict[str, Any]) -> None:
    queue = naming(queue)
    assert told("dispatch-profile-missing", queue, complete=["DispatchProfile"]) == [
        f'metadata.annotations[{DISPATCH_PROFILE}]: DispatchProfile "gpu" does not exist'
    ]
    assert not find("dispatch-profile-missing", queue, profile())


def test_the_sides_of_a_profile_are_looked_for_too() -> None:
    mine = profile(shadow={"profile": "next"}, canary={"profile": "moon", "percent": 5})
    assert told("dispatch-profile-missing", mine, profile("next")) == [
        'spec.canary.profile: DispatchProfile "moon" is not among what was read'
    ]


def test_a_profile_that_refers_to_itself_is_told() -> None:
    mine = profile(fallback="score", shadow={"profile": "gpu"})
    assert told("dispatch-profile-of-itself", mine) == [
        'spec.fallback: "score" is the dispatcher that it should stand in for',
        'spec.shadow.profile: "gpu" is this profile',
    ]
    assert not find("dispatch-profile-of-itself", profile(fallback="all-at-once"))


def test_fields_that_do_not_exist_are_told_and_arguments_are_free() -> None:
    assert told("unknown-field", profile(dispatchr="x", arguments={"a": {"b": 1}})) == [
        "spec.dispatchr: there is no such field"
    ]


def test_fields_of_policies_are_told_with_those_that_there_are() -> None:
    policy = obj("DisruptionPolicy", "p", {"protection": {"hours": 2}}, version=V1ALPHA1)
    (found,) = find("unknown-field", policy)
    assert found.path == "spec.protection.hours"
    assert found.todo.startswith("use one of ")
    assert "minRun" in found.todo
