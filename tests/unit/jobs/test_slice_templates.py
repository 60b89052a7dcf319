"""The templates of a slice that replaces another one."""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.framework.slice_templates import original_pod_sets, show_start
from tests.builders.workloads import NAMESPACE, make_workload

STARTED = {
    "metadata": {
        "labels": {names.PODSET: "w", names.LOCAL_QUEUE_NAME: "lq", "check": "added"},
        "annotations": {names.WORKLOAD: "one", names.WORKLOAD_SLICE_NAME: "one"},
    },
    "spec": {"nodeSelector": {"zone": "a"}},
}
WRITTEN: dict[str, Any] = {"metadata": {"labels": {"user": "a"}}, "spec": {"containers": []}}


def pod_set(template: dict[str, Any]) -> PodSet:
    return PodSet(name="w", count=1, template=template)


def test_a_larger_slice_shows_labels_and_annotations_of_the_start_only() -> None:
    shown = show_start(pod_set(WRITTEN), pod_set(STARTED))
    assert shown.template["spec"] == WRITTEN["spec"]
    assert shown.template["metadata"] == {
        "labels": {"user": "a", names.PODSET: "w", names.LOCAL_QUEUE_NAME: "lq"},
        "annotations": STARTED["metadata"]["annotations"],
    }


def test_a_third_slice_shows_those_of_the_present_run() -> None:
    second = show_start(pod_set(WRITTEN), pod_set(STARTED))
    assert show_start(second, pod_set(WRITTEN)).template == WRITTEN


def test_a_stop_restores_what_the_user_wrote() -> None:
    second = show_start(pod_set(WRITTEN), pod_set(STARTED))
    replaces = {names.WORKLOAD_SLICE_REPLACEMENT_FOR: f"{NAMESPACE}/one"}
    slice_ = make_workload("two", pod_sets=(second,), annotations=replaces)
    assert [each.template for each in original_pod_sets(slice_)] == [WRITTEN]
    first = make_workload("one", pod_sets=(second,))
    assert original_pod_sets(first) == (second,)
