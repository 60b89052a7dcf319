"""The scenario ``hundred-gpus``: its jobs, its cluster, and what is measured."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.cli.commands import simulate
from multiqueue.model.disruption_policy import build_disruption_rules
from multiqueue.simulation.report.table import format_seconds
from multiqueue.simulation.scenarios import figures
from multiqueue.simulation.scenarios.hundred_gpus import (
    DAY,
    GENTLE,
    GPUS,
    MAIN,
    MEAN_GPU_SECONDS,
    QUEUED,
    VARIATIONS,
    PoolJob,
    System,
    Variation,
    lay_out,
    make_jobs,
)
from multiqueue.simulation.scenarios.no_queue import UnqueuedPool
from multiqueue.simulation.scenarios.page import build_page
from multiqueue.simulation.scenarios.pool import GpuPool, PoolRun
from tests.unit.simulation.test_comparison import Checker

SAMPLES = Path(__file__).parents[3] / "config" / "samples-disruption"


def job(name: str, gpus: int, hours: float, *, at: float = 0, urgent: bool = False) -> PoolJob:
    return PoolJob(
        name=name,
        team="team-1",
        gpus=gpus,
        submitted=at * 3600,
        seconds=hours * 3600,
        is_interactive=urgent,
    )


def play(system: System, *jobs: PoolJob) -> dict[str, PoolRun]:
    return {run.job.name: run for run in GpuPool(lay_out(system)).play(jobs)}


def test_the_policy_is_the_shipped_sample() -> None:
    text = (SAMPLES / "1-gentle.yaml").read_text()
    assert build_disruption_rules(decode(DisruptionPolicy, yaml.safe_load(text))) == GENTLE


def test_jobs_are_the_same_for_a_seed_and_have_the_stated_mean() -> None:
    jobs = make_jobs(3, 12.0)
    assert jobs == make_jobs(3, 12.0)
    assert jobs != make_jobs(4, 12.0)
    mean = sum(each.gpus * each.seconds for each in jobs) / len(jobs)
    assert mean == pytest.approx(MEAN_GPU_SECONDS, rel=1e-6)
    assert len(jobs) == pytest.approx(12 * 24 * 12, rel=0.1)
    assert sum(each.is_interactive for each in jobs) / len(jobs) == pytest.approx(0.35, abs=0.03)
    assert not any(each.saves_on_notice for each in jobs if each.is_interactive)
    batch = [each.saves_on_notice for each in jobs if not each.is_interactive]
    assert sum(batch) / len(batch) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("system", QUEUED)
def test_the_queues_have_all_gpus(system: System) -> None:
    nominal = [
        quota.nominal
        for queue in lay_out(system).queues
        for group in queue.resource_groups
        for flavor in group.flavors
        for quota in flavor.quotas.values()
    ]
    assert sum(nominal) == GPUS


def test_who_is_stopped_goes_on_from_its_last_checkpoint() -> None:
    """At 1:10 an urgent job takes all GPUs for half an hour; 40 minutes of work are saved."""
    runs = play(System.COHORT, job("batch", 100, 2), job("now", 50, 0.5, at=7 / 6, urgent=True))
    batch, urgent = runs["batch"], runs["now"]
    assert batch.stops == 1
    assert urgent.waited == pytest.approx(5, abs=2)
    assert batch.lost == pytest.approx(600 - 10 + 120, abs=2)
    assert batch.finished == pytest.approx(urgent.finished + 10 + 120 + 3600, abs=2)
    assert batch.waited == pytest.approx(1800 + 10, abs=5)


def test_who_gets_notice_goes_on_from_where_it_got_it() -> None:
    """At 1:10 an urgent job takes all GPUs for half an hour; the minute of saving is lost."""
    told = replace(job("batch", 100, 2), saves_on_notice=True)
    runs = play(System.GENTLE, told, job("now", 50, 0.5, at=7 / 6, urgent=True))
    batch, urgent = runs["batch"], runs["now"]
    assert batch.notices == [60]
    assert urgent.waited == pytest.approx(60 + 5, abs=2)
    assert batch.lost == pytest.approx(60 + 120, abs=2)
    assert batch.finished == pytest.approx(urgent.finished + 10 + 120 + 3000 + 10, abs=5)


def test_a_notice_is_taken_back_if_room_comes_free() -> None:
    """An urgent job wants the GPUs of the batch job, and another one ends before that has saved."""
    batch = replace(job("batch", 50, 2), saves_on_notice=True)
    ending = job("ends", 50, 1.005, urgent=True)
    runs = play(System.GENTLE, ending, batch, job("now", 50, 0.1, at=1, urgent=True))
    assert runs["now"].waited == pytest.approx(28, abs=2), "until the other one ends"
    assert runs["batch"].stops == runs["batch"].lost == 0
    assert runs["batch"].workload.notice is None
    assert runs["batch"].saved == 0, "it had not saved yet, and works on"


def test_in_order_of_arrival_a_small_job_waits_behind_a_large_one() -> None:
    jobs = (job("runs", 60, 1), job("large", 80, 1, at=0.1), job("small", 1, 0.1, at=0.2))
    assert play(System.FIRST_COME, *jobs)["small"].waited == pytest.approx(2890, abs=2)
    assert play(System.COHORT, *jobs)["small"].waited < 10


def test_who_takes_less_passes_if_jobs_declare_their_run_times() -> None:
    """Both want what one GPU is too little for; the later one takes far less."""
    jobs = (job("runs", 60, 1), job("long", 80, 20, at=0.1), job("short", 80, 0.5, at=0.2))
    untold, told = play(System.GENTLE, *jobs), play(System.TOLD, *jobs)
    assert untold["long"].stays[0] < untold["short"].stays[0]
    assert told["short"].stays[0] < told["long"].stays[0]


def test_without_a_queue_gangs_hold_parts_until_one_gives_up() -> None:
    """Two gangs of 60 share what becomes free: 100 GPUs. Neither has 60 by luck with this seed."""
    jobs = (job("holds", 90, 1), job("a", 60, 1, at=0.5), job("b", 60, 1, at=0.5))
    holds, *gangs = UnqueuedPool(2).play(jobs)
    assert holds.waited == 0
    assert holds.finished == 3610
    loser = next(run for run in gangs if run.gave_up is not None)
    winner = next(run for run in gangs if run.gave_up is None)
    assert loser.gave_up == loser.parts[0][0] + 1800
    assert loser.waited == loser.waited_first == 1800
    assert 1 < len(loser.parts) < 60
    assert len(winner.parts) == 60
    assert winner.stays[0][0] == 3610


def test_half_an_hour_after_its_first_pod_a_gang_gives_up() -> None:
    jobs = (job("holds", 99, 1), job("pair", 2, 1, at=0.1))
    _, pair = UnqueuedPool(1).play(jobs)
    assert pair.parts == [(360, 2160)]
    assert pair.gave_up == 2160


def test_the_figures_add_up() -> None:
    runs = GpuPool(lay_out(System.FIRST_COME)).play(
        tuple(job(f"job-{n}", 8, 1, at=n, urgent=n == 2) for n in range(24))
    )
    found = figures.measure_run(System.FIRST_COME, 1.0, 1, runs, begin=0.0)
    assert found.wait == pytest.approx(0, abs=2)
    assert found.used == pytest.approx(0.08, abs=0.005)
    assert found.useful == found.used
    assert found.completed == pytest.approx(1, abs=0.05)


@pytest.fixture(scope="module")
def two_days() -> figures.ScenarioOutcome:
    runs = [
        figures.play_seed(system, rate, seed, days=2)
        for seed in (1, 2)
        for rate in figures.RATES
        for system in System
    ]
    return figures.ScenarioOutcome(
        runs=runs, largest={System.STATIC_HALVES: 7.25, System.GENTLE: 11.5}
    )


def test_the_command_prints_all_systems_and_says_what_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_days: figures.ScenarioOutcome
) -> None:
    monkeypatch.setattr("multiqueue.cli.scenario.play_all", lambda _seeds, **_options: two_days)
    table, page = tmp_path / "runs.csv", tmp_path / "page.html"
    result = CliRunner().invoke(
        simulate.command,
        ["--scenario", "hundred-gpus", "--csv", str(table), "--report", str(page)],
        env={"COLUMNS": "200"},
    )
    assert result.exit_code == 0, result.output
    for system in System:
        assert system in result.output
    assert "missed" in result.output
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(two_days.runs)
    assert float(rows[0]["wait"]) == pytest.approx(two_days.runs[0].wait)
    assert page.read_text() == build_page(two_days)


def test_the_command_prints_all_figures_for_programs(
    monkeypatch: pytest.MonkeyPatch, two_days: figures.ScenarioOutcome
) -> None:
    monkeypatch.setattr("multiqueue.cli.scenario.play_all", lambda _seeds, **_options: two_days)
    result = CliRunner().invoke(simulate.command, ["--scenario", "hundred-gpus", "-o", "json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["variation"] == "none"
    assert document["largestRates"] == {"static-halves": 7.25, "cohort+gentle": 11.5}
    assert len(document["runs"]) == len(two_days.runs)
    assert len(document["goals"]) == 13


def test_the_page_is_whole_and_has_what_is_missed_first(
    two_days: figures.ScenarioOutcome,
) -> None:
    page = build_page(two_days)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.fetched == []
    assert page.count("<svg") == 6
    assert page.count("<circle") >= len(two_days.runs)
    missed = [goal.words for goal in figures.judge(two_days) if not goal.reached]
    assert missed
    assert page.rindex(">missed<") < page.index(">reached<")
    for run in two_days.runs:
        assert f"{run.system}, seed {run.seed}: {format_seconds(run.wait)}" in page


def test_only_who_has_no_queue_gives_up(two_days: figures.ScenarioOutcome) -> None:
    unqueued = [run for run in two_days.runs if run.system is System.NO_QUEUE]
    assert sum(run.gave_up for run in unqueued) > 0
    assert sum(run.used - run.useful for run in unqueued) > 0.01
    assert all(run.overhead == 0 for run in unqueued)
    assert not any(run.gave_up for run in two_days.runs if run not in unqueued)


def test_the_parts_by_size_are_the_mean_wait(two_days: figures.ScenarioOutcome) -> None:
    for run in two_days.runs:
        assert sum(size.part for size in run.sizes) == pytest.approx(run.wait)
        assert max(size.longest for size in run.sizes) >= run.p99
        assert -1e-6 < run.wait_again < run.wait + 1e-6


def test_room_is_kept_for_a_gang_that_waits_long_if_run_times_are_declared() -> None:
    def claims(system: System, limit: int) -> int:
        pool = GpuPool(lay_out(system), declare=lambda _, w: replace(w, run_limit=limit))
        jobs = [job(f"holds-{n}", 25, 8, at=n / 10) for n in range(4)]
        runs = pool.play((*jobs, job("waits", 90, 1, at=1)))
        return sum(run.was_promised for run in runs)

    assert claims(System.GENTLE, limit=12 * 3600) == 1
    assert claims(System.GENTLE, limit=0) == 0
    assert claims(System.COHORT, limit=12 * 3600) == 0


def test_the_command_names_the_variations() -> None:
    (option,) = (each for each in simulate.command.params if each.name == "variation")
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == list(Variation) == list(VARIATIONS)


def test_variations_change_what_they_say_and_not_the_work() -> None:
    jobs = {each: make_jobs(3, 12.0, variation=each) for each in Variation}
    for each in Variation:
        mean = sum(job.gpus * job.seconds for job in jobs[each]) / len(jobs[each])
        assert mean == pytest.approx(MEAN_GPU_SECONDS, rel=1e-6)
        assert sorted(jobs[each], key=lambda job: job.submitted) == list(jobs[each])
    batch = {
        each: [math.log(job.seconds) for job in of if not job.is_interactive]
        for each, of in jobs.items()
    }
    even, stated, uneven = (
        statistics.stdev(batch[each]) for each in (Variation.EVEN, Variation.NONE, Variation.UNEVEN)
    )
    assert even < 0.9 * stated < 0.8 * uneven
    sizes = Counter(job.gpus for job in jobs[Variation.GANGS])
    assert sizes[32] == pytest.approx(sizes[16], rel=0.5)
    by_person = Counter(job.person for job in jobs[Variation.FEW_USERS])
    few = sum(by_person[person] for person in range(5))
    assert few == pytest.approx(by_person.total() / 2, rel=0.1)
    nights = [job for job in jobs[Variation.BY_HOUR] if job.submitted % DAY < DAY / 3]
    assert len(nights) < len(jobs[Variation.BY_HOUR]) / 4


def test_a_variation_is_played_by_four_systems() -> None:
    outcome = figures.play_all([1], variation=Variation.GANGS, days=1)
    assert {run.system for run in outcome.runs} == set(MAIN)
    assert len(outcome.runs) == 2 * len(MAIN)
    assert outcome.largest == {}
    assert VARIATIONS[Variation.GANGS] in build_page(outcome)


def test_the_largest_rate_is_the_last_one_that_reaches_the_goal() -> None:
    played = []

    def play(*columns: Iterable[float]) -> Any:
        _, rates, seeds, _ = map(list, columns)
        played.append(rates[0])
        assert len(rates) == len(seeds) == 2
        return [SimpleNamespace(wait=figures.GOAL_WAIT * rate / 9.6) for rate in rates]

    assert figures.find_largest_rate(System.GENTLE, [1, 2], play) == 9.5
    assert len(played) <= 6


def test_a_run_ends_every_job() -> None:
    runs = GpuPool(lay_out(System.GENTLE)).play(make_jobs(1, 12.0, days=1))
    assert all(run.finished is not None for run in runs)
    assert all(run.waited >= -1e-6 for run in runs)
    assert max(run.finished or 0 for run in runs) < 5 * DAY
