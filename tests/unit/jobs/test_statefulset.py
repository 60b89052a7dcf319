"""StatefulSets: which changes are refused, and how their pods are stamped (J-274 to J-289)."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.jobs.pod_owners.groups import is_old_revision, pod_patch
from multiqueue.jobs.pod_owners.multikueue import PodOwnerAdapter
from multiqueue.jobs.setup import load_kind
from multiqueue.jobs.statefulset.integration import StatefulSetKind
from tests.job_kinds import ROWS
from tests.pod_objects import make_pod, stored
from tests.unit.webhooks.lookups import Queues

KIND = StatefulSetKind(ROWS["statefulset"])
WEBHOOK = load_kind(ROWS["statefulset"]).webhook
CONFIG = Configuration()
LIMIT = 253


def make(wanted: int | None = 3, *, queue: str = "lq", **status: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
    spec: dict[str, Any] = {
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}}
    }
    if wanted is not None:
        spec["replicas"] = wanted
    labels = {names.QUEUE_NAME: queue} if queue else {}
    metadata = {"name": "db", "namespace": "ns", "uid": "u1", "labels": labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def errors_of(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [str(error) for error in WEBHOOK.validate_update(new, old, CONFIG)]


def test_only_the_parent_is_written_into_the_template() -> None:
    """J-275."""
    template = WEBHOOK.default(make(), Queues(), CONFIG).job["spec"]["template"]
    assert template["metadata"] == {
        "labels": {"app": "db"},
        "annotations": {names.POD_SUSPENDING_PARENT: "statefulset"},
    }


def test_a_set_below_a_leader_worker_set_is_left_alone() -> None:
    """J-274."""
    job = make()
    job["spec"]["template"]["metadata"]["annotations"] = {names.POD_SUSPENDING_PARENT: "other"}
    assert KIND.is_skipped(job)
    assert WEBHOOK.default(job, Queues(), CONFIG).job == job


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (make(3), make(5), "spec.replicas: Invalid value: 5: field is immutable"),
        (make(None), make(2), "spec.replicas: Invalid value: 2: field is immutable"),
        (
            make(0, replicas=1),
            make(3),
            "spec.replicas: Forbidden: scaling down is still in progress",
        ),
        (make(3), make(0), None),
        (make(0), make(5), None),
        (make(3, queue=""), make(5, queue=""), None),
    ],
)
def test_a_set_changes_its_size_through_zero_only(
    old: dict[str, Any], new: dict[str, Any], refused: str | None
) -> None:
    """J-285."""
    assert errors_of(new, old) == ([refused] if refused else [])


def test_a_new_image_is_allowed_but_not_another_shape() -> None:
    """J-288."""
    new = make()
    pod = new["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = "i:2"
    assert errors_of(new, make()) == []
    pod["nodeSelector"] = {"disk": "ssd"}
    pod["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
    assert errors_of(new, make()) == [
        'spec.template.spec.nodeSelector: Invalid value: {"disk":"ssd"}: field is immutable',
        (
            'spec.template.spec.containers[0].resources.requests: Invalid value: {"cpu":"5"}:'
            " field is immutable"
        ),
    ]


def test_the_pods_of_a_set_request_what_its_template_says() -> None:
    [group] = KIND.groups(make(3), LIMIT)
    [pod_set] = group.pod_sets
    assert (pod_set.name, pod_set.count, sorted(pod_set.template)) == ("main", 3, ["spec"])
    assert pod_set.topology_request is not None
    assert pod_set.topology_request.pod_index_label == "apps.kubernetes.io/pod-index"
    assert KIND.groups(make(None), LIMIT)[0].pod_sets[0].count == 1


def test_a_pod_is_stamped_once_and_follows_the_queue_of_its_set() -> None:
    """J-279, J-280."""
    pod = stored(make_pod("db-0"))
    stamped = KIND.stamp(make(3), pod, LIMIT)
    annotations = stamped["metadata"]["annotations"]
    assert annotations[names.POD_GROUP_NAME] == annotations[names.PREBUILT_WORKLOAD_NAME]
    assert annotations[names.POD_GROUP_TOTAL_COUNT] == "3"
    assert pod_patch(stamped, KIND.stamp(make(3), stamped, LIMIT), ungated=False) == {}
    moved = pod_patch(stamped, KIND.stamp(make(3, queue="b"), stamped, LIMIT), ungated=False)
    assert moved == {"metadata": {"labels": {names.QUEUE_NAME: "b"}}}


def test_a_pod_of_the_old_revision_does_not_wait() -> None:
    """J-289: another scheduling gate stays."""
    rolling = make(3, currentRevision="a", updateRevision="b")
    pod = stored(make_pod("db-0", labels={"controller-revision-hash": "a"}))
    assert is_old_revision(rolling, pod)
    assert not is_old_revision(make(3, currentRevision="a", updateRevision="a"), pod)
    pod["spec"]["schedulingGates"].append({"name": "example.com/other"})
    patch = pod_patch(pod, pod, ungated=True)
    assert patch == {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}


def test_a_copy_on_a_worker_names_the_managers_workload() -> None:
    """J-294: with the prebuilt name, and also without it, by the uid of the original."""
    local = make(3)
    name = KIND.groups(local, LIMIT)[0].workload
    copy = PodOwnerAdapter(KIND).remote_job(local, workload_name=name, origin="hub")
    copy["metadata"]["uid"] = "another"
    assert KIND.groups(copy, LIMIT)[0].workload == name
    del copy["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME]
    del copy["metadata"]["labels"][names.PREBUILT_WORKLOAD_NAME]
    assert KIND.groups(copy, LIMIT)[0].workload == name
