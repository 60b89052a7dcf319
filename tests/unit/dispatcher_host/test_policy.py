"""What a DispatchProfile asks for, and which field is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DispatchProfile
from multiqueue.dispatcher_host.policy import (
    DispatcherSetting,
    DispatchPolicy,
    build_policy,
    list_references,
)


def make_profile(name: str = "gpu", dispatcher: str = "score", **spec: Any) -> DispatchProfile:
    obj = {"metadata": {"name": name, "generation": 3}, "spec": {"dispatcher": dispatcher, **spec}}
    return decode(DispatchProfile, obj)


def build(profile: DispatchProfile, *others: DispatchProfile) -> DispatchPolicy:
    by_name = {each.metadata.name: each for each in (profile, *others)}

    def defaults(dispatcher: str) -> Mapping[str, Any]:
        return {"stepSize": 5} if dispatcher == "incremental" else {}

    return build_policy(profile, by_name.get, defaults)


def test_filters_scorers_and_arguments_are_what_the_dispatcher_is_told() -> None:
    policy = build(
        make_profile(
            filters=["flavor"],
            scorers=[{"name": "price", "weight": 3}, {"name": "free"}],
            arguments={"race": 2},
            timeBudget="250ms",
            fallback="incremental",
        )
    )
    assert (policy.profile, policy.generation, policy.problem) == ("gpu", 3, "")
    assert policy.base == DispatcherSetting(
        dispatcher="score",
        arguments={"race": 2, "filters": ["flavor"], "scorers": {"price": 3, "free": 1}},
        budget=timedelta(milliseconds=250),
        path="spec.dispatcher",
    )
    assert policy.fallback == DispatcherSetting(
        dispatcher="incremental", arguments={"stepSize": 5}, path="spec.fallback"
    )


def test_what_the_configuration_says_of_a_dispatcher_can_be_changed() -> None:
    policy = build(make_profile(dispatcher="incremental", arguments={"order": "Name"}))
    assert policy.base is not None
    assert policy.base.arguments == {"stepSize": 5, "order": "Name"}
    changed = build(make_profile(dispatcher="incremental", arguments={"stepSize": 1}))
    assert changed.base is not None
    assert changed.base.arguments == {"stepSize": 1}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"dispatcher": ""}, "spec.dispatcher: is empty"),
        ({"arguments": {"scorers": {}}}, "spec.arguments.scorers: use spec.scorers"),
        ({"timeBudget": "11s"}, "spec.timeBudget: 11s is more than 10s"),
        ({"timeBudget": "0s"}, 'spec.timeBudget: "0s" must be longer than nothing'),
        ({"fallback": "score"}, 'spec.fallback: "score" is spec.dispatcher, too'),
    ],
)
def test_a_profile_that_cannot_be_used_names_the_field(spec: dict[str, Any], problem: str) -> None:
    policy = build(make_profile(**spec))
    assert policy.base is None
    assert policy.problem.startswith(problem)


def test_a_shadow_is_a_dispatcher_or_what_another_profile_says() -> None:
    other = make_profile("next", "spread", scorers=[{"name": "free"}], timeBudget="2s")
    by_name = build(make_profile(shadow={"profile": "next"}), other).shadow
    assert by_name == DispatcherSetting(
        dispatcher="spread",
        arguments={"scorers": {"free": 1}},
        budget=timedelta(seconds=2),
        path="spec.shadow.profile",
    )
    plain = make_profile(
        timeBudget="3s", shadow={"dispatcher": "spread", "arguments": {"by": "team"}}
    )
    assert build(plain).shadow == DispatcherSetting(
        dispatcher="spread",
        arguments={"by": "team"},
        budget=timedelta(seconds=3),
        path="spec.shadow.dispatcher",
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"shadow": {"profile": "moon"}},
            'spec.shadow.profile: DispatchProfile "moon" not found',
        ),
        ({"shadow": {"profile": "gpu"}}, 'spec.shadow.profile: "gpu" is this one'),
        ({"shadow": {}}, "spec.shadow: exactly one of dispatcher and profile is required"),
        (
            {"shadow": {"profile": "next", "arguments": {"a": 1}}},
            "spec.shadow.arguments: go with dispatcher",
        ),
        (
            {"canary": {"profile": "bad", "percent": 5}},
            'spec.canary.profile: DispatchProfile "bad": spec.timeBudget: ',
        ),
        (
            {"canary": {"dispatcher": "x", "percent": 5, "limits": {"startWithin": "0s"}}},
            "spec.canary.limits.startWithin: ",
        ),
    ],
)
def test_a_side_that_cannot_be_used_is_told_and_left_out(
    spec: dict[str, Any], problem: str
) -> None:
    others = make_profile("next", "spread"), make_profile("bad", "spread", timeBudget="x")
    policy = build(make_profile(**spec), *others)
    assert policy.base is not None
    assert (policy.shadow, policy.canary) == (None, None)
    (told,) = policy.side_problems
    assert told.startswith(problem)


def test_the_limits_of_a_canary_are_shares() -> None:
    canary = build(make_profile(canary={"dispatcher": "x", "percent": 10})).canary
    assert canary is not None
    assert (canary.percent, canary.limits.failures, canary.limits.slower) == (10, 0.05, 0.5)
    assert canary.limits.start_within == timedelta(minutes=10)


def test_the_profiles_that_one_refers_to() -> None:
    profile = make_profile(shadow={"profile": "a"}, canary={"profile": "b", "percent": 1})
    assert list_references(profile) == ("a", "b")
    assert list_references(make_profile()) == ()
