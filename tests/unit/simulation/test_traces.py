from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from statistics import median

import pytest

from multiqueue.simulation.fleet import make_fleet
from multiqueue.simulation.traces import acme_like, helios_like
from multiqueue.simulation.traces.arrivals import Burst, arrange, time_of_share
from multiqueue.simulation.traces.csv_loader import TraceError
from multiqueue.simulation.traces.make import GENERATORS, TraceRequest, make_trace
from multiqueue.simulation.traces.trace import (
    CLASSES,
    MODELS,
    TRAINING,
    Trace,
    TraceJob,
    stretch,
)
from tests.unit.simulation.worlds import make_trace_job

FLEET = make_fleet(4)
WISH = TraceRequest(source="helios-like", count=400, load=0.9, teams=4)


@cache
def draw_helios(count: int = 20_000) -> list[TraceJob]:
    bursts = helios_like.generate(Random(1), count=count, teams=4, largest=64)
    return [job for burst in bursts for job in burst.jobs]


@cache
def draw_acme(count: int = 10_000) -> list[TraceJob]:
    bursts = acme_like.generate(Random(1), count=count, teams=4, largest=64)
    return [job for burst in bursts for job in burst.jobs]


class TestHelios:
    def test_half_of_the_jobs_end_within_minutes_and_few_take_most_of_the_time(self) -> None:
        jobs = draw_helios()
        lengths = sorted(job.duration for job in jobs)
        assert 150 < median(lengths) < 400
        assert sum(lengths[-len(lengths) // 10 :]) > 0.75 * sum(lengths)

    def test_jobs_ask_for_nearly_four_gpus_on_average_and_more_than_half_for_one(self) -> None:
        jobs = draw_helios()
        assert sum(job.gpus for job in jobs) / len(jobs) == pytest.approx(3.72, abs=0.5)
        assert 0.5 < sum(job.gpus == 1 for job in jobs) / len(jobs) < 0.65

    def test_small_jobs_take_a_small_part_of_the_gpu_time(self) -> None:
        jobs = draw_helios()
        total = sum(job.work for job in jobs)
        assert sum(job.work for job in jobs if job.gpus == 1) < 0.15 * total
        assert sum(job.work for job in jobs if job.gpus >= 8) > 0.6 * total

    def test_a_burst_is_of_one_user_and_one_size(self) -> None:
        bursts = helios_like.generate(Random(1), count=500, teams=4, largest=64)
        assert max(len(burst.jobs) for burst in bursts) > 4
        for burst in bursts:
            assert len({(job.user, job.gpus) for job in burst.jobs}) == 1

    def test_training_is_as_fast_as_its_users_model_and_trials_are_as_fast_as_trials(self) -> None:
        jobs = make_trace(WISH, FLEET, 1).jobs
        assert {job.model for job in jobs} == set(MODELS)
        assert len({(job.user, job.model) for job in jobs}) == len({job.user for job in jobs})
        for job in jobs:
            kind = CLASSES[job.kind].speeds
            assert job.speeds == (MODELS[job.model] if job.kind in TRAINING else kind)

    def test_a_fleet_may_say_how_fast_a_model_is(self) -> None:
        fleet = replace(FLEET, speeds={"speech": {"h100": 5000}, "debug": {"h100": 1000}})
        speeds = {
            (job.model, job.kind): job.speeds["h100"] for job in make_trace(WISH, fleet, 1).jobs
        }
        assert speeds["speech", "training"] == 5000
        assert speeds["transformer", "training"] == 2200
        assert speeds["transformer", "debug"] == 1000


class TestAcme:
    def test_half_of_the_jobs_end_within_about_two_minutes(self) -> None:
        assert 60 < median(job.duration for job in draw_acme()) < 200

    def test_most_jobs_evaluate_and_take_next_to_nothing(self) -> None:
        jobs = draw_acme()
        found = [job for job in jobs if job.kind == "evaluation"]
        assert 0.75 < len(found) / len(jobs) < 0.95
        assert sum(job.work for job in found) < 0.02 * sum(job.work for job in jobs)

    def test_few_jobs_pretrain_and_take_most(self) -> None:
        jobs = draw_acme()
        found = [job for job in jobs if job.kind == "pretraining"]
        assert 0.015 < len(found) / len(jobs) < 0.05
        assert sum(job.work for job in found) > 0.7 * sum(job.work for job in jobs)


@pytest.mark.parametrize("name", GENERATORS)
class TestEveryGenerator:
    def test_the_same_seed_gives_the_same_jobs_and_another_one_others(self, name: str) -> None:
        wanted = replace(WISH, source=name)
        first = make_trace(wanted, FLEET, 1)
        assert first == make_trace(wanted, FLEET, 1)
        assert first.jobs != make_trace(wanted, FLEET, 2).jobs

    def test_as_many_jobs_as_asked_for_all_of_which_can_run(self, name: str) -> None:
        jobs = make_trace(replace(WISH, source=name), FLEET, 1).jobs
        assert len({job.name for job in jobs}) == len(jobs) == WISH.count
        assert max(job.gpus for job in jobs) <= FLEET.largest
        assert list(jobs) == sorted(jobs, key=lambda job: (job.submit, job.name))


def test_twice_the_load_is_submitted_in_half_the_time() -> None:
    slow = make_trace(WISH, FLEET, 1)
    fast = make_trace(replace(WISH, load=1.8), FLEET, 1)
    assert slow.span == pytest.approx(2 * fast.span, rel=0.1)
    work = sum(job.work for job in slow.jobs)
    # H100 are faster, so a load of 0.9 is more work than 0.9 of all GPUs could do as A100.
    assert 0.9 < work / (slow.span * FLEET.total) < 0.9 * 2.6


def test_people_submit_by_day() -> None:
    bursts = [Burst(jobs=(make_trace_job(f"job-{n}"),)) for n in range(4000)]
    jobs = arrange(Random(1), bursts, 4 * 86_400.0)
    hours = [int(job.submit // 3600) % 24 for job in jobs]
    assert sum(2 <= hour < 6 for hour in hours) < 0.4 * sum(14 <= hour < 18 for hour in hours)


def test_a_stretched_trace_keeps_its_shape() -> None:
    jobs = tuple(make_trace_job(f"job-{at}", submit=float(at)) for at in (100, 150, 200))
    got = stretch(Trace(name="t", jobs=jobs), 10.0)
    assert [job.submit for job in got.jobs] == [0.0, 5.0, 10.0]


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    with pytest.raises(TraceError, match=r"neither a generator nor a file; .*helios-like"):
        make_trace(replace(WISH, source="philly"), FLEET, 1)


def test_shares_of_submissions_come_as_busy_hours_have_it() -> None:
    assert time_of_share(0.25, 3600) == 900
    day = [time_of_share(share / 100, 86_400) for share in range(101)]
    assert day == sorted(day)
    assert (day[0], day[-1]) == (0, 86_400)
    assert day[50] > 43_200, "fewer come in the first half of the day"
    assert len({b - a for a, b in pairwise(day)}) > 50
