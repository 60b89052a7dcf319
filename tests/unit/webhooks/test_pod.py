"""What the webhook does to pods (Part E 37 and 38)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.config import Integrations
from multiqueue.jobs.pod.webhook import PodWebhook
from tests.pod_objects import PODS_ENABLED, make_pod, pod_kind, running, stored
from tests.unit.webhooks.lookups import Queues

WEBHOOK = PodWebhook(pod_kind())
IMPLIED = msgspec.structs.replace(
    PODS_ENABLED, integrations=Integrations(frameworks=("batch/job", "deployment"))
)
TOTAL = f"metadata.annotations[{names.POD_GROUP_TOTAL_COUNT}]"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}


def default(pod: dict[str, Any], queues: Queues | None = None, **what: Any) -> dict[str, Any]:
    return WEBHOOK.default(pod, queues or Queues(), what.get("config", PODS_ENABLED)).job


def gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def refusals(pod: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    errors = (
        WEBHOOK.validate_create(pod, PODS_ENABLED)
        if old is None
        else WEBHOOK.validate_update(pod, old, PODS_ENABLED)
    )
    return [(error.path, error.message) for error in errors]


def test_a_queued_pod_is_gated_labelled_and_held() -> None:
    """pod-1."""
    pod = default(make_pod())
    assert gates(pod) == [names.ADMISSION_GATE, names.TOPOLOGY_GATE]
    assert pod["metadata"]["labels"][names.MANAGED] == "true"
    assert pod["metadata"]["finalizers"] == [names.MANAGED]
    assert len(pod["metadata"]["annotations"][names.ROLE_HASH]) == 8
    assert default(pod) == pod  # J-51


@pytest.mark.parametrize(
    ("pod", "queues", "config"),
    [
        (make_pod(queue=""), Queues(), PODS_ENABLED),
        (make_pod("child"), Queues(children=frozenset({"child"})), PODS_ENABLED),
        (make_pod(), Queues(), IMPLIED),
    ],
    ids=["without a queue", "of a queued owner (pod-3)", "pods are only implied (fw-13)"],
)
def test_other_pods_are_left_as_they_are(pod: Any, queues: Queues, config: Any) -> None:
    pod["metadata"]["ownerReferences"] = [OWNER]
    assert default(pod, queues, config=config) == pod


def test_a_pod_in_an_unmanaged_namespace_is_left_as_it_is() -> None:
    """pod-2."""
    pod = make_pod()
    pod["metadata"]["namespace"] = "kube-system"
    assert default(pod) == pod


@pytest.mark.parametrize("config", [PODS_ENABLED, IMPLIED], ids=["named", "implied"])
def test_a_stamped_pod_is_gated_but_not_held(config: Any) -> None:
    """J-210."""
    pod = make_pod(queue="", annotations={names.POD_SUSPENDING_PARENT: "statefulset"})
    got = default(pod, config=config)
    assert gates(got) == [names.ADMISSION_GATE, names.TOPOLOGY_GATE]
    assert names.ROLE_HASH in got["metadata"]["annotations"]
    assert "finalizers" not in got["metadata"]
    # Deviates: labelled at once, because only labelled pods are watched.
    assert got["metadata"]["labels"][names.MANAGED] == "true"


def test_the_rank_is_copied_from_the_named_label() -> None:
    """pod-16."""
    pod = make_pod(
        annotations={names.POD_GROUP_POD_INDEX_LABEL: "job-index"}, labels={"job-index": "3"}
    )
    assert default(pod)["metadata"]["labels"][names.POD_GROUP_POD_INDEX] == "3"


def test_a_marked_pod_of_a_queued_owner_is_warned_about() -> None:
    """pod-11."""
    pod = make_pod("child", labels={names.MANAGED: "true"})
    pod["metadata"]["ownerReferences"] = [OWNER]
    queues = Queues(children=frozenset({"child"}))
    (warning,) = WEBHOOK.default(pod, queues, PODS_ENABLED).warnings
    assert "might lead to unexpected behaviour" in warning


@pytest.mark.parametrize(
    ("pod", "path", "message"),
    [
        (
            make_pod(labels={names.MANAGED: "no"}),
            f"metadata.labels[{names.MANAGED}]",
            "managed label value can only be 'true'",
        ),
        (make_pod(labels={names.POD_GROUP_NAME: "g"}), TOTAL, "label should be set"),
        (make_pod(annotations={names.POD_GROUP_NAME: "g"}), TOTAL, "annotation should be set"),
        (
            make_pod(annotations={names.POD_GROUP_TOTAL_COUNT: "2"}),
            f"metadata.labels[{names.POD_GROUP_NAME}]",
            "should be set",
        ),
        (make_pod(group="g", total=0), TOTAL, "should be greater than zero"),
        (
            make_pod(group="g", annotations={names.POD_GROUP_TOTAL_COUNT: "two"}, total="x"),
            TOTAL,
            "whole number",
        ),
        (
            make_pod(group="Not_A_Name", total=2),
            f"metadata.annotations[{names.POD_GROUP_NAME}]",
            "RFC 1123",
        ),
        (
            make_pod(group="g", total=2, labels={names.PREBUILT_WORKLOAD_NAME: "other"}),
            f"metadata.labels[{names.PREBUILT_WORKLOAD_NAME}]",
            "prebuilt workload and pod group should be equal",
        ),
        (
            make_pod(annotations={names.ELASTIC_JOB: "true"}),
            f"metadata.annotations[{names.ELASTIC_JOB}]",
            'elastic job is not supported for "/v1, Kind=Pod"',
        ),
    ],
    ids=[
        "managed",
        "no total for a label",
        "no total for an annotation",
        "no name",
        "zero",
        "no number",
        "name",
        "prebuilt",
        "elastic",
    ],
)
def test_what_is_refused(pod: dict[str, Any], path: str, message: str) -> None:
    ((at, why),) = refusals(pod)
    assert at == path
    assert message in why


def test_a_group_stays_the_same() -> None:
    """group-8."""
    old, new = (stored(make_pod(group=group, total=2)) for group in ("g", "h"))
    ((path, message),) = refusals(new, old)
    assert path == f"metadata.annotations[{names.POD_GROUP_NAME}]"
    assert "immutable" in message


def test_an_unretriable_group_stays_unretriable() -> None:
    """group-9."""
    old, new = (
        stored(make_pod(group="g", total=2, annotations={names.RETRIABLE_IN_GROUP: value}))
        for value in ("false", "true")
    )
    ((_, message),) = refusals(new, old)
    assert "unretriable pod group can't be converted to retriable" in message
    assert refusals(old, new) == []


def test_the_queue_of_a_pod_that_runs_is_immutable() -> None:
    old, new = (make_pod(queue=queue) for queue in ("lq", "other"))
    assert refusals(stored(new), stored(old)) == []
    ((path, _),) = refusals(running(new), running(old))
    assert path == f"metadata.labels[{names.QUEUE_NAME}]"
