"""Elastic jobs on fleets where everything goes wrong: `tests/fleet/elastic.py`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.fleet.elastic import build_elastic_checkers, make_elastic_plan, run_elastic_seed
from tests.fleet.run import run_plan

HARMLESS = {"scale", "forget_replaced", "kill_manager", "stop_manager", "cut_watches", "compact"}


@pytest.mark.parametrize("seed", [203, 204])
def test_elastic_jobs_run_once_and_end_and_leave_nothing(seed: int) -> None:
    report = run_elastic_seed(seed)
    assert not report.breaches


@pytest.mark.parametrize("seed", [1, 3])
def test_growing_starts_no_job_anew(seed: int) -> None:
    """Though managers are killed, watches break and earlier slices are deleted in the middle."""
    drawn = make_elastic_plan(seed)
    plan = replace(
        drawn,
        jobs=tuple(replace(job, priority="low") for job in drawn.jobs),
        acts=tuple(act for act in drawn.acts if act.name in HARMLESS),
    )
    report = run_plan(plan, keep_log=True, build=build_elastic_checkers)
    assert not report.breaches
    lines = [line.split() for line in report.lines]
    begun = Counter(words[5] for words in lines if words[1] == "pods" and words[-1] == "begin")
    assert begun == dict.fromkeys((job.name for job in plan.jobs), 1)
