"""How counts become figures, and figures a page."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from tests.bench.upstream import page, programs
from tests.bench.upstream.course import Course
from tests.bench.upstream.run import OURS, UPSTREAM, writes_of_others
from tests.bench.upstream.server import quantile, read_requests, watched_kinds

METRICS = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="workloads",subresource="status",verb="PATCH"} 7
apiserver_request_total{code="409",resource="workloads",subresource="status",verb="PATCH"} 2
apiserver_request_total{code="200",resource="workloads",subresource="",verb="LIST"} 5
apiserver_request_total{code="201",resource="events",subresource="",verb="POST"} 1.2e+03
apiserver_request_duration_seconds_sum{resource="workloads",subresource="status",verb="PATCH"} 0.45
apiserver_request_duration_seconds_count{resource="workloads",subresource="status",verb="PATCH"} 9
apiserver_longrunning_requests{resource="workloads",verb="WATCH"} 1
apiserver_longrunning_requests{resource="pods",verb="WATCH"} 0
"""


def make_run(program: str, **figures: Any) -> dict[str, Any]:
    process = {"cpuSeconds": 10.0, "peakMiB": 100}
    return {
        "program": program,
        "generator": "baseline",
        "limit": 0,
        "part": 0.1,
        "workloads": 1500,
        "wallSeconds": 60.0,
        "usageWhileWorkWaits": 0.5,
        "secondsToAdmission": {"large": 3.0, "small": 20.0},
        "admissions": 2000,
        "evictions": 500,
        "managerWrites": {"PATCH workloads/status": 4500, "POST events": 3000},
        "toldUntilTheEnd": 300,
        "conflicts": 0,
        "statusWriteMilliseconds": 8.0,
        "secondsToAnswerP99": 0.02,
        "processes": {"manager": process},
        "loadBefore": 1.0,
        "loadAfter": 2.0,
    } | figures


def make_report(*runs: dict[str, Any]) -> dict[str, Any]:
    about = {"date": "2026-01-01", "commit": "abc", "machine": "2 cores", "versions": "Kueue"}
    return {"command": "make bench-upstream", **about, "runs": runs}


def test_writes_are_read_from_the_servers_metrics() -> None:
    read = read_requests(METRICS)
    assert read.writes == {("workloads/status", "PATCH"): 7, ("events", "POST"): 1200}
    assert (read.conflicts, read.seconds, read.timed) == (2, 0.45, 9)


def test_a_quantile_is_estimated_within_its_bucket() -> None:
    page = "\n".join(
        f'took_bucket{{stage="{stage}",le="{bound}"}} {count}'
        for stage, counts in (("a", (10, 90, 100, 100)), ("b", (0, 0, 0, 4)))
        for bound, count in zip(("0.1", "0.5", "1.0", "+Inf"), counts, strict=True)
    )
    assert quantile(page, "took", 0.3, stage="a") == pytest.approx(0.2)
    assert quantile(page, "took", 0.5, stage="a") == pytest.approx(0.3)
    assert quantile(page, "took", 0.95, stage="a") == pytest.approx(0.75)
    assert quantile(page, "took", 0.99, stage="b") == 1.0


def test_a_kind_that_nobody_watches_any_more_is_not_watched() -> None:
    assert watched_kinds(METRICS) == {"workloads"}


def test_what_the_writes_of_others_is_not_the_managers() -> None:
    course = Course(counts=Counter(finished=10, stopped=2))
    writes = Counter(
        {
            ("workloads", "POST"): 10,
            ("workloads/status", "APPLY"): 8,
            ("workloads/status", "PATCH"): 30,
            ("events", "POST"): 5,
            ("leases", "PUT"): 3,
        }
    )
    left = writes - writes_of_others(course, writes)
    assert left == {("workloads/status", "PATCH"): 26, ("events", "POST"): 5}


def test_an_eviction_is_a_status_write_more() -> None:
    assert page.status_writes_apart_from_evictions(make_run(OURS)) == 2.0


def test_misses_come_first() -> None:
    report = make_report(make_run(OURS, wallSeconds=30.0), make_run(UPSTREAM))
    rows = [row for row in page.render(report).splitlines() if row.startswith("| no limit |")]
    judged = ["missed" in row for row in rows]
    assert judged == sorted(judged, reverse=True)
    assert "| no limit | wall, ours / upstream | <= 0.6 | 0.50 | reached |" in rows
    told = "Events and queue statuses until the last end, per admission"
    assert f"| no limit | {told} | <= 0.1 | 0.15 | **missed** |" in rows
    assert "| no limit | usage while work waits | >= 0.9 | 0.50 | **missed** |" in rows


def test_writes_are_shown_by_kind_and_verb() -> None:
    theirs = make_run(UPSTREAM, managerWrites={"APPLY workloads/status": 2600})
    rows = page.render(make_report(make_run(OURS), theirs)).splitlines()
    assert "| - workloads/status | 2.25 PATCH | 1.30 APPLY |" in rows
    assert "| - events | 1.50 POST | 0 |" in rows


def test_no_evictions_at_all_are_no_more_than_upstreams() -> None:
    runs = [make_run(program, evictions=0) for program in (OURS, UPSTREAM)]
    assert "evictions, ours / upstream | <= 1.0 | 1.00 | reached" in page.render(make_report(*runs))


def test_a_section_replaces_its_older_one_only() -> None:
    text = page.replace_section("# Performance\n", "tas", "old\n")
    text = page.replace_section(text, "baseline", "other\n")
    got = page.replace_section(text, "tas", "new\n")
    assert got == text.replace("old", "new")


@pytest.mark.parametrize(
    ("name", "part", "want"),
    [
        ("baseline", 0.1, (5, 6, 35)),
        ("tas", 0.001, (5, 6, 1)),
        ("large-scale", 0.2, (1, 6, 350)),
        ("large-scale", 0.1, (1, 3, 350)),
    ],
)
def test_a_part_has_fewer_workloads_or_fewer_queues(
    name: str, part: float, want: tuple[int, int, int]
) -> None:
    works = {"count": 350, "workloads": [{}]}
    queues = {"count": 6, "nominalQuota": "20", "workloadsSets": [works]}
    generator = {"cohorts": [{"count": 5, "queuesSets": [queues]}]}
    scaled = programs.scale(name, generator, part)
    (cohorts,) = scaled["cohorts"]
    (queues,) = cohorts["queuesSets"]
    assert (cohorts["count"], queues["count"], queues["workloadsSets"][0]["count"]) == want
    assert programs.count_workloads(scaled) == math.prod(want)
    assert programs.cohort_cores(scaled) == 20 * want[1]


def test_the_runners_end_waits_for_one_more_workload() -> None:
    works = {"count": 2, "creationIntervalMs": 100, "workloads": [{}]}
    queues = {"count": 6, "nominalQuota": "20", "workloadsSets": [works]}
    generator = {"cohorts": [{"count": 5, "queuesSets": [queues]}]}
    got = programs.with_last_cohort(generator)
    assert got["cohorts"][:-1] == generator["cohorts"]
    assert programs.count_workloads(got) == programs.count_workloads(generator) + 1
    assert programs.cohort_cores(got) == programs.cohort_cores(generator)
