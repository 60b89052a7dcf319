from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.simulation.fleet import Cluster, SimulatedFleet
from multiqueue.simulation.metrics import finish_ratios, measure, percentile, summarise
from multiqueue.simulation.progress import Guess, Stay
from multiqueue.simulation.records import JobRecord, RunRecord
from multiqueue.simulation.timeline import build_timeline
from tests.unit.simulation.worlds import make_trace_job

FLEET = SimulatedFleet(clusters=(Cluster(name="one", gpus={"a100": 8}),))


def stay(begun: float, ended: float, *, lost: float = 0.0, cluster: str = "one") -> Stay:
    return Stay(cluster=cluster, flavor="a100", begun=begun, ended=ended, lost=lost)


def ran(name: str, *stays: Stay, **fields: object) -> JobRecord:
    return JobRecord(job=make_trace_job(name, **fields), stays=stays, copies=2, local_writes=5)


def make_run(*jobs: JobRecord, fleet: SimulatedFleet = FLEET) -> RunRecord:
    return RunRecord(label="test", seed=1, trace="t", fleet=fleet, jobs=jobs)


RUN = make_run(
    ran("a", stay(0, 100), gpus=8),
    ran("b", stay(100, 150), gpus=4, submit=50, duration=50.0),
    ran("c", stay(150, 160), gpus=4, submit=100, duration=10.0),
)
"""Judged from 20 s on, the first fifth, to 100 s; so without the first job."""


def test_waiting_is_all_time_without_running() -> None:
    job = ran("a", stay(10, 40), stay(70, 100), submit=0)
    assert (job.completion, job.waited) == (100, 40)


def test_waits_and_completions_are_of_those_that_came_after_the_warm_up() -> None:
    got = measure(RUN)
    assert got["mean_wait"] == pytest.approx((50 + 50) / 2)
    assert got["mean_completion"] == pytest.approx((100 + 60) / 2)
    assert got["makespan"] == 160


def test_gpus_in_use_and_idle_are_parts_of_what_there_was_while_jobs_came() -> None:
    got = measure(RUN)
    assert got["utilisation"] == pytest.approx(100)
    assert got["idle_while_waiting"] == 0
    half = make_run(ran("a", stay(0, 100), gpus=4), ran("b", stay(100, 150), gpus=4, submit=50))
    assert measure(half)["utilisation"] == pytest.approx(50)
    # From 10 s on to 50 s, b is not there yet; then it would wait beside 4 idle GPUs.
    late = make_run(*half.jobs, ran("c", stay(100, 101), submit=100, duration=1.0))
    assert measure(late)["idle_while_waiting"] == pytest.approx(100 * 50 * 4 / (80 * 8))


def test_lost_work_and_preemptions_are_counted() -> None:
    job = ran("a", stay(0, 50, lost=3600 * 2), stay(60, 160), submit=0)
    got = measure(make_run(job))
    assert (got["preemptions"], got["lost_hours"], got["copies"]) == (100, 2, 2)


def test_teams_are_compared_by_how_long_their_jobs_took() -> None:
    slow = ran("a", stay(300, 400), team="slow")
    fast = ran("b", stay(0, 100), team="fast")
    assert finish_ratios([slow, fast]) == {"fast": 1.0, "slow": 4.0}
    got = measure(make_run(slow, fast))
    assert (got["worst_team"], got["unfairness"]) == (4.0, 4.0)


def test_cost_and_energy_are_told_where_they_are_known() -> None:
    assert "cost" not in measure(RUN)
    priced = SimulatedFleet(
        clusters=(Cluster(name="one", gpus={"a100": 8}, prices={"a100": 2000}),),
        watts={"a100": 400.0},
    )
    got = measure(make_run(ran("a", stay(0, 3600), gpus=8), fleet=priced))
    assert got["cost"] == pytest.approx(16)
    assert got["energy"] == pytest.approx(3.2)


def test_starts_are_held_against_their_intervals() -> None:
    guesses = (Guess(0, 10, 5), Guess(0, 10, 41), Guess(0, 10, 40), Guess(35, 40, 4))
    got = measure(make_run(replace(ran("a", stay(0, 1)), guesses=guesses)))
    assert (got["guesses"], got["calibration"]) == (4, 50)


def test_the_timeline_knows_what_was_in_use_and_who_waited() -> None:
    line = build_timeline(RUN)
    steps = line.clusters["one"]
    assert [steps.at(moment) for moment in (-1, 0, 99, 100, 155, 160)] == [0, 8, 8, 4, 4, 0]
    assert [line.waiting.at(moment) for moment in (0, 50, 100, 149, 150)] == [0, 1, 1, 1, 0]
    assert steps.integrate(50, 200) == 50 * 8 + 50 * 4 + 10 * 4


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, p) for p in (1, 50, 99, 100)] == [1, 50, 99, 100]
    assert percentile([], 99) == 0


def test_seeds_are_averaged_by_those_that_have_a_figure() -> None:
    got = summarise([{"mean_wait": 1.0}, {"mean_wait": 3.0, "calibration": 80.0}])
    assert got == {"mean_wait": 2.0, "calibration": 80.0}
