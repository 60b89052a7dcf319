"""The DispatchProfile of the samples can be used as it is."""

from __future__ import annotations

from pathlib import Path

import yaml

from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DispatchProfile
from multiqueue.dispatcher_host.policy import build_policy
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.plugins import ChecksArguments

SAMPLE = Path(__file__).parents[3] / "config" / "samples-dispatch" / "1-profile.yaml"


def test_its_dispatchers_are_built_in_and_know_their_arguments() -> None:
    profile = decode(DispatchProfile, yaml.safe_load(SAMPLE.read_text()))
    policy = build_policy(profile, lambda _: None, lambda _: {})
    assert (policy.problem, policy.side_problems) == ("", ())
    for way in (policy.base, policy.fallback, policy.shadow):
        assert way is not None
        dispatcher = Dispatchers().select(way.dispatcher, outside=False).dispatcher
        assert dispatcher is not None
        if isinstance(dispatcher, ChecksArguments):
            assert list(dispatcher.check_arguments(way.arguments)) == []
