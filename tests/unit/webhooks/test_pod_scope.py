"""About which pods the API server asks: an outage of the manager must not stop those of others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.config import Integrations
from multiqueue.embedded.server.cel.match_conditions import all_hold, compile_conditions
from multiqueue.jobs.framework.integration import JobPatch, PodSetInfo
from multiqueue.jobs.setup import build_registry
from multiqueue.lib.merge_patch import apply_merge_patch
from multiqueue.webhooks.addresses import Address
from multiqueue.webhooks.registration import build_configurations
from tests.pod_objects import PODS_ENABLED, make_group, make_pod, pod_kind, stored

QUEUED, STAMPED = f"'{names.QUEUE_NAME}' in", f"'{names.POD_SUSPENDING_PARENT}' in"


def hooks(config: Any) -> dict[str, dict[str, Any]]:
    address = Address(url="https://127.0.0.1:9443")
    made = build_configurations(config, build_registry(config), address, b"ca")
    return {hook["name"]: hook for each in made for hook in each["webhooks"]}


@pytest.mark.parametrize("name", ["mpod.kb.io", "vpod.kb.io"])
def test_only_pods_with_a_queue_or_a_stamp_need_an_answer(name: str) -> None:
    hook = hooks(PODS_ENABLED)[name]
    condition = hook["matchConditions"][0]
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


MEMBER = stored(make_pod("p0", group="g", total=1))
METADATA = MEMBER["metadata"]


def is_validated(new: dict[str, Any], old: dict[str, Any] | None) -> bool:
    conditions = compile_conditions(hooks(PODS_ENABLED)["vpod.kb.io"]["matchConditions"])
    return all_hold(conditions, {"object": new, "oldObject": old})


def changed(part: str, **changes: str | None) -> dict[str, Any]:
    """The pod with labels or annotations of our group set, or taken off."""
    given = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in changes.items()}
    merged = {**METADATA[part], **given}
    kept = {key: value for key, value in merged.items() if value is not None}
    return {**MEMBER, "metadata": {**METADATA, part: kept}}


@pytest.mark.parametrize(
    "new",
    [
        changed("labels", queue_name="other"),
        changed("labels", queue_name=None),
        changed("labels", managed="false"),
        changed("labels", priority_class="high"),
        changed("annotations", pod_group_total_count="9"),
        changed("annotations", retriable_in_group="false"),
        changed("annotations", pod_group_name=None),
        {**MEMBER, "metadata": {k: v for k, v in METADATA.items() if k != "annotations"}},
    ],
    ids=[
        "another queue",
        "no queue",
        "a label with another value",
        "a new label",
        "an annotation with another value",
        "a new annotation",
        "one annotation less",
        "no annotations",
    ],
)
def test_changes_of_labels_and_annotations_are_validated(new: dict[str, Any]) -> None:
    assert is_validated(new, MEMBER)


def test_a_new_pod_is_validated_but_neither_its_start_nor_its_release() -> None:
    labels = {names.PODSET: "main", names.LOCAL_QUEUE_NAME: "lq", names.CLUSTER_QUEUE_NAME: "cq"}
    role = METADATA["annotations"][names.ROLE_HASH]
    annotations = {names.WORKLOAD: "g"}
    info = PodSetInfo(name=role, count=1, labels=labels, annotations=annotations)
    (start,) = pod_kind().start_writes(make_group(MEMBER), [info])
    (patch,) = start.steps
    assert isinstance(patch, JobPatch)
    started = apply_merge_patch(MEMBER, patch.patch)
    assert started["spec"]["schedulingGates"] == []
    released = {**started, "metadata": {**started["metadata"], "finalizers": []}}
    assert is_validated(MEMBER, None)
    assert not is_validated(started, MEMBER)
    assert not is_validated(released, started)
