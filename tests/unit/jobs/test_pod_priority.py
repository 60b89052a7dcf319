"""A Job whose pods Kubernetes refuses for their priority holds no quota, and says why."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.plan import CreateJobWorkload, JobPlan
from multiqueue.jobs.framework.priority import PriorityClasses
from tests.unit.jobs.job_views import make_view, note_of, stored_job

HIGH = {"metadata": {"name": "high"}, "value": 100}
USUAL = {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}


def decide_about(*classes: dict[str, Any], **pod: Any) -> JobPlan:
    job = stored_job()
    job["spec"]["template"]["spec"].update(pod)
    found = {each["metadata"]["name"]: each for each in classes}
    lookups = PriorityClasses(
        find_workload_class=lambda _: None,
        find_pod_class=found.get,
        list_pod_classes=lambda: list(found.values()),
    )
    return decide(make_view(job, classes=lookups))


@pytest.mark.parametrize(
    ("classes", "pod", "source"),
    [
        ([], {"priority": 2_000_000_000}, "is 0 (without PriorityClass)"),
        ([USUAL], {"priority": 0}, 'is 5 (PriorityClass "usual")'),
        (
            [HIGH],
            {"priority": 99, "priorityClassName": "high"},
            'is 100 (PriorityClass "high")',
        ),
    ],
    ids=["no class", "the default class", "a named class"],
)
def test_another_priority_than_that_of_the_class_is_refused(classes, pod, source) -> None:
    reason, message = note_of(decide_about(*classes, **pod))
    assert reason == "ErrWorkloadCompose"
    assert message.startswith(
        f'pod set "main": the pod template sets spec.priority {pod["priority"]}'
    )
    assert source in message


@pytest.mark.parametrize(
    ("classes", "pod"),
    [
        ([], {}),
        ([], {"priority": 0}),
        ([USUAL], {"priority": 5}),
        ([HIGH], {"priority": 100, "priorityClassName": "high"}),
    ],
    ids=["none", "what pods get anyway", "that of the default class", "that of a named class"],
)
def test_the_priority_of_the_class_is_taken(classes, pod) -> None:
    assert isinstance(decide_about(*classes, **pod), CreateJobWorkload)
