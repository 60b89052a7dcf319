"""About which pods the API server asks: an outage of the manager must not stop those of others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.config import Integrations
from multiqueue.jobs.setup import build_registry
from multiqueue.webhooks.addresses import Address
from multiqueue.webhooks.registration import build_configurations
from tests.pod_objects import PODS_ENABLED

QUEUED, STAMPED = f"'{names.QUEUE_NAME}' in", f"'{names.POD_SUSPENDING_PARENT}' in"


def hooks(config: Any) -> dict[str, dict[str, Any]]:
    address = Address(url="https://127.0.0.1:9443")
    made = build_configurations(config, build_registry(config), address, b"ca")
    return {hook["name"]: hook for each in made for hook in each["webhooks"]}


@pytest.mark.parametrize("name", ["mpod.kb.io", "vpod.kb.io"])
def test_only_pods_with_a_queue_or_a_stamp_need_an_answer(name: str) -> None:
    hook = hooks(PODS_ENABLED)[name]
    (condition,) = hook["matchConditions"]
    assert QUEUED in condition["expression"]
    assert STAMPED in condition["expression"]
    assert hook["failurePolicy"] == "Fail"
    assert hook["objectSelector"] == {}


def test_pods_of_controllers_are_not_asked_about_for_their_default_queue() -> None:
    hook = hooks(PODS_ENABLED)["mpoddefault.kb.io"]
    assert hook["failurePolicy"] == "Ignore"
    assert "ownerReferences" in hook["matchConditions"][0]["expression"]
    assert hooks(PODS_ENABLED)["mjobdefault.kb.io"]["rules"][0]["resources"] == ["jobs"]


def test_implied_pods_are_asked_about_only_if_they_are_stamped() -> None:
    """J-7."""
    registry = build_registry(PODS_ENABLED)
    implied = msgspec.structs.replace(PODS_ENABLED, integrations=Integrations())
    made = build_configurations(implied, registry, Address(url="https://127.0.0.1:9443"), b"ca")
    found = {hook["name"]: hook for each in made for hook in each["webhooks"]}
    assert QUEUED not in found["mpod.kb.io"]["matchConditions"][0]["expression"]
    assert "mpoddefault.kb.io" not in found
