"""What a benchmark counts, from what a watch shows."""

from __future__ import annotations

import msgspec
import pytest

from tests.bench.upstream.course import CLASS, LAST, Course, SeenWorkload

CORES = 20
"""Quota of the one cohort."""


def make_seen(
    *true: str, name: str = "w", cpu: str = "5", pods: int = 1, work_class: str = "medium"
) -> SeenWorkload:
    """Return a Workload with these conditions, as the server sends it."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {
            "namespace": "cq-0-5-cohort-1",
            "name": name,
            "resourceVersion": "1",
            "labels": {CLASS: work_class},
        },
        "spec": {"podSets": [{"count": pods, "template": {"spec": {"containers": [container]}}}]},
        "status": {"conditions": [{"type": each, "status": "True"} for each in true]},
    }
    return msgspec.convert(body, SeenWorkload)


RUNNING = "QuotaReserved", "Admitted"


def test_a_life_without_preemption() -> None:
    course = Course()
    course.see(10.0, make_seen())
    course.see(12.0, make_seen(*RUNNING))
    course.see(13.0, make_seen(*RUNNING, "Finished"))
    assert course.counts == {"admitted": 1, "finished": 1, "stopped": 0}
    assert course.wall_seconds() == 3.0
    assert course.seconds_to_admission() == {"medium": 2.0}


def test_time_to_admission_is_that_of_the_newest_admission() -> None:
    course = Course()
    course.see(0.0, make_seen())
    course.see(1.0, make_seen(*RUNNING))
    course.see(2.0, make_seen(*RUNNING, "Evicted"))
    course.see(3.0, make_seen("Evicted"))
    course.see(7.0, make_seen(*RUNNING))
    assert course.counts == {"admitted": 2, "evicted": 1, "stopped": 1}
    assert course.seconds_to_admission() == {"medium": 7.0}


def test_usage_counts_only_while_something_waits() -> None:
    course = Course()
    course.see(0.0, make_seen(name="first", cpu="2500m", pods=4))
    course.see(0.0, make_seen(*RUNNING, name="first", cpu="2500m", pods=4))
    course.see(5.0, make_seen(name="second"))
    course.see(7.0, make_seen(*RUNNING, "Finished", name="first"))
    course.see(9.0, make_seen(*RUNNING, name="second"))
    # Two seconds with 10 of 20 cores, two with none, and nothing waits after that.
    assert course.usage_while_work_waits(CORES) == pytest.approx(0.25)


def test_usage_is_0_if_nothing_ever_waits() -> None:
    assert Course().usage_while_work_waits(CORES) == 0.0


def test_the_workload_that_tells_the_runner_when_to_end_does_not_count() -> None:
    course = Course()
    course.see(1.0, make_seen(work_class=LAST))
    assert not course.lives
    assert course.began is None
