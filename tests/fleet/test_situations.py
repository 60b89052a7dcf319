"""Situations of docs/multikueue-scenarios.md that take a fleet; each with what upstream lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.fleet.plan import BUSY, Act, JobPlan
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import Report, run_plan
from tests.fleet.weather import WATCH_FAULTS, Fault


def make_jobs(number: int, *, within: float, seconds: float = 5.0) -> tuple[JobPlan, ...]:
    """Jobs that come evenly."""
    return tuple(
        replace(LONG, name=f"job{n}", at=1.0 + within * n / number, seconds=seconds)
        for n in range(number)
    )


def count_created(report: Report, plural: str) -> Counter[str]:
    """How many objects a manager created on each cluster before all was healed."""
    found: Counter[str] = Counter()
    for line in report.lines:
        words = line.split()
        if words[1] == "healed":
            return found
        if words[1] == "write" and words[3].startswith("manager"):
            found[words[2].rstrip(":")] += words[4:6] == ["creates", plural]
    raise AssertionError("it never healed")


def test_a_worker_that_lacks_a_kind_gets_no_job_of_it_and_the_others_get_all():
    """G-9: upstream gives up the whole worker, or waits for it."""
    lacks = Act(0.0, "unserve_jobs", ("a", BUSY - 1.0))
    report = run_plan(make_plan(lacks, jobs=make_jobs(8, within=30.0)), keep_log=True)
    assert not report.breaches
    assert not any("nominated a" in line for line in report.lines)
    assert count_created(report, "jobs")["b"] == 8


def fail_watches(fault: Fault, *clusters: str, seconds: float) -> tuple[Act, ...]:
    """Have watches of managers fail whenever they are opened, and open them again and again."""
    storms = [Act(0.5, "storm", (name, seconds, ((fault, 1.0),))) for name in clusters]
    cuts = [
        Act(at, "cut_watches", (name,)) for name in clusters for at in range(1, int(seconds), 15)
    ]
    return (*storms, *cuts)


@pytest.mark.parametrize("fault", WATCH_FAULTS)
def test_watches_that_all_fail_lose_nothing_and_start_nothing_twice(fault):
    """G-12: all of them replayed, ended as too old, late, silent or cut; clocks differ by 40 s."""
    acts = fail_watches(fault, "hub", "a", "b", seconds=60.0)
    skews = {"hub": 20.0, "a": -20.0, "b": 0.0, "manager-a": 10.0}
    report = run_plan(replace(make_plan(*acts, jobs=make_jobs(4, within=20.0)), skews=skews))
    assert not report.breaches
    assert report.counts[fault] >= 10


def test_watches_that_hang_on_one_worker_hold_up_no_other():
    """It answers, but tells nothing: who waits there gets the other one's answer."""
    hung = Act(0.5, "storm", ("a", BUSY - 1.0, ((Fault.WATCH_SILENT, 1.0),)))
    opened_anew = Act(1.0, "cut_watches", ("a",))
    report = run_plan(make_plan(hung, opened_anew, jobs=make_jobs(8, within=30.0)), keep_log=True)
    assert not report.breaches
    assert count_created(report, "jobs")["b"] >= 7


@pytest.mark.fleet
@pytest.mark.timeout(900)
def test_a_thousand_jobs_are_spread_evenly_over_twenty_workers():
    """G-11."""
    workers = {f"worker{n:02}": 8 for n in range(20)}
    jobs = make_jobs(1000, within=200.0, seconds=25.0)
    report = run_plan(make_plan(workers=workers, jobs=jobs), keep_log=True)
    assert not report.breaches
    got = [count_created(report, "jobs")[name] for name in workers]
    assert sum(got) == 1000
    assert max(got) <= 1.25 * min(got)
