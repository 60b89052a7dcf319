from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from multiqueue_dispatchers.all_at_once import AllAtOnce
from multiqueue_dispatchers.score import Score

from multiqueue.plugins import Basis, Dispatcher, DispatchView, Nomination
from multiqueue.simulation.fleet import Cluster, Outage, Preempting, SimulatedFleet
from multiqueue.simulation.reconciles import DispatcherError
from multiqueue.simulation.records import RunRecord
from multiqueue.simulation.timeline import build_timeline
from multiqueue.simulation.traces.trace import Trace
from multiqueue.simulation.worker import START_SECONDS
from multiqueue.simulation.world import Setting, SimulatedWorld
from tests.unit.simulation.worlds import (
    make_fleet_of,
    make_small_trace,
    make_trace_job,
    play_jobs,
    play_trace,
)


class To:
    """Sends everything to one cluster."""

    name = "to"

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self.views: list[DispatchView] = []

    def nominate(self, view: DispatchView) -> Nomination:
        self.views.append(view)
        return Nomination(clusters=(self._cluster,))


def assert_sound(run: RunRecord) -> None:
    """All work was done once, one place at a time, on no more GPUs than there are."""
    for record in run.jobs:
        job, stays = record.job, record.stays
        for before, after in pairwise(stays):
            assert before.ended is not None
            assert before.ended <= after.begun
        done = sum((s.seconds - s.lost / job.gpus) * job.speed_on(s.flavor) for s in stays)
        assert done == pytest.approx(job.duration, abs=0.01)
    line = build_timeline(run)
    for cluster in run.fleet.clusters:
        assert max(line.clusters[cluster.name].values, default=0) <= cluster.total
        assert min(line.clusters[cluster.name].values, default=0) >= 0


@pytest.mark.parametrize("dispatcher", [AllAtOnce(), Score()], ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("preempting", Preempting)
def test_no_job_is_lost_or_runs_twice_and_no_gpu_is_given_twice(
    dispatcher: Dispatcher, preempting: Preempting
) -> None:
    fleet = make_fleet_of(a100=16, h100=8, preempting=preempting)
    trace = make_small_trace(fleet)
    run = play_trace(trace, fleet, dispatcher, "test")
    assert [record.job for record in run.jobs] == list(trace.jobs)
    assert_sound(run)


def test_a_job_on_an_empty_cluster_starts_within_seconds() -> None:
    run = play_jobs(make_trace_job("one"), fleet=make_fleet_of(a100=8))
    assert START_SECONDS <= run.jobs[0].waited < START_SECONDS + 3
    assert [(stay.cluster, stay.lost) for stay in run.jobs[0].stays] == [("a100", 0.0)]


def test_a_job_runs_as_fast_as_its_hardware() -> None:
    run = play_jobs(
        make_trace_job("one", kind="training", duration=190.0),
        fleet=make_fleet_of(a100=8, h100=8),
        dispatcher=To("h100"),
    )
    assert run.jobs[0].stays[0].seconds == pytest.approx(100.0)


def test_a_gang_that_finds_no_room_waits_for_it() -> None:
    first = make_trace_job("first", gpus=8, duration=1000.0)
    second = make_trace_job("second", gpus=8, submit=10.0)
    run = play_jobs(first, second, fleet=make_fleet_of(a100=8))
    ended = run.jobs[0].stays[-1].ended
    assert ended is not None
    assert run.jobs[1].stays[0].begun >= ended


def test_the_more_urgent_job_stops_the_other_which_loses_what_it_did_since_its_checkpoint() -> None:
    low = make_trace_job("low", gpus=8, kind="training", duration=10_000.0)
    high = make_trace_job("high", gpus=8, kind="pretraining", submit=5000.0, duration=100.0)
    run = play_jobs(low, high, fleet=make_fleet_of(a100=8))
    first, second = run.jobs[0].stays
    assert first.lost == pytest.approx(8 * (first.seconds - 3600))
    assert second.begun >= run.jobs[1].finished
    assert run.jobs[1].waited < 60
    assert_sound(run)


def test_nobody_is_stopped_where_that_is_not_allowed() -> None:
    low = make_trace_job("low", gpus=8, duration=10_000.0)
    high = make_trace_job("high", gpus=8, kind="pretraining", submit=5000.0)
    run = play_jobs(low, high, fleet=make_fleet_of(a100=8, preempting=Preempting.NOBODY))
    assert [len(record.stays) for record in run.jobs] == [1, 1]


def test_copies_and_writes_are_counted() -> None:
    fleet = make_fleet_of(a100=8, h100=8)
    everywhere = play_jobs(make_trace_job("one"), fleet=fleet).jobs[0]
    one = play_jobs(make_trace_job("one"), fleet=fleet, dispatcher=To("a100")).jobs[0]
    assert (everywhere.copies, one.copies) == (2, 1)
    # The copy that lost was made and deleted.
    assert everywhere.remote_writes == one.remote_writes + 2


def test_a_cluster_may_have_hardware_of_both_kinds() -> None:
    both = SimulatedFleet(clusters=(Cluster(name="both", gpus={"a100": 8, "h100": 8}),))
    run = play_jobs(*(make_trace_job(f"job-{n}", gpus=8) for n in range(2)), fleet=both)
    assert [record.stays[0].flavor for record in run.jobs] == ["a100", "h100"]
    assert_sound(run)


def test_dispatchers_see_queues_forecasts_and_what_jobs_of_a_class_took() -> None:
    to = To("a100")
    jobs = [make_trace_job(f"job-{n}", gpus=8, submit=n * 400.0, user="u") for n in range(4)]
    play_jobs(*jobs, fleet=make_fleet_of(a100=8, h100=4), dispatcher=to)
    view = to.views[-1]
    a100, h100 = view.clusters
    assert a100.queue is not None
    assert a100.queue.quotas["a100", "nvidia.com/gpu"].free == 8
    assert a100.forecast is not None
    assert h100.forecast is not None
    assert (str(a100.forecast.prospect), str(h100.forecast.prospect)) == ("Fits", "Never")
    assert view.workload.runtime is not None
    assert view.workload.runtime.basis is Basis.HISTORICAL
    # From the admission to the end, so the start of the pods counts.
    assert view.workload.runtime.expected.total_seconds() == pytest.approx(111, abs=2)


def test_the_manager_can_be_told_exactly_how_long_each_job_runs() -> None:
    to, fleet = To("a100"), make_fleet_of(a100=8)
    trace = Trace(name="made", jobs=(make_trace_job("one", duration=1234.0),))
    SimulatedWorld(Setting(trace=trace, fleet=fleet, tells_run_times=True), "test", to).run()
    runtime = to.views[-1].workload.runtime
    assert runtime is not None
    assert {runtime.low, runtime.expected, runtime.high} == {timedelta(seconds=1234)}


def test_when_a_job_starts_is_compared_with_what_was_expected() -> None:
    jobs = [make_trace_job(f"job-{n}", gpus=8, submit=n * 10.0, duration=3000.0) for n in range(2)]
    fleet = replace(make_fleet_of(a100=8), quota_percent=200)
    run = play_jobs(*jobs, fleet=fleet, dispatcher=To("a100"))
    (guess,) = run.jobs[1].guesses
    assert guess.earliest < guess.latest
    assert run.jobs[0].finished <= guess.actual <= run.jobs[1].stays[0].begun
    assert run.jobs[0].guesses == ()


class Broken:
    """Cannot decide."""

    name = "broken"

    def nominate(self, view: DispatchView) -> Nomination:
        raise KeyError(view.workload.key)


def test_a_dispatcher_that_raises_ends_the_run_with_its_words() -> None:
    words = r'dispatcher "test" failed about a/one at 00:00:00, in .*, line \d+: KeyError: .a/one'
    with pytest.raises(DispatcherError, match=words):
        play_jobs(make_trace_job("one"), fleet=make_fleet_of(a100=8), dispatcher=Broken())


class Exits(Broken):
    """Ends the program, if that is left to it."""

    def nominate(self, view: DispatchView) -> Nomination:
        sys.exit(0)


class Vague(Broken):
    """Answers with wrong types."""

    def nominate(self, view: DispatchView) -> Nomination:
        return Nomination(clusters="a100")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dispatcher", "words"),
    [
        (Exits(), 'dispatcher "test" failed about a/one .*: SystemExit: 0'),
        (Vague(), 'dispatcher "test" gave a malformed answer about a/one: clusters is .a100'),
    ],
)
def test_what_is_no_answer_ends_the_run_too(dispatcher: Dispatcher, words: str) -> None:
    with pytest.raises(DispatcherError, match=words):
        play_jobs(make_trace_job("one"), fleet=make_fleet_of(a100=8), dispatcher=dispatcher)


def with_outage(
    fleet: SimulatedFleet, name: str, *, after: float, seconds: float
) -> SimulatedFleet:
    outage = Outage(after, seconds)
    clusters = [replace(c, outage=outage) if c.name == name else c for c in fleet.clusters]
    return replace(fleet, clusters=tuple(clusters))


@pytest.mark.parametrize("dispatcher", [AllAtOnce(), Score()], ids=lambda d: type(d).__name__)
def test_no_job_is_lost_or_runs_twice_when_a_cluster_fails(dispatcher: Dispatcher) -> None:
    fleet = make_fleet_of(a100=16, h100=8)
    trace = make_small_trace(fleet)
    halfway = trace.jobs[len(trace.jobs) // 2].submit
    fleet = with_outage(fleet, "a100", after=halfway, seconds=86_400)
    run = play_trace(trace, fleet, dispatcher, "test")
    assert [record.job for record in run.jobs] == list(trace.jobs)
    assert_sound(run)
    stays = [stay for record in run.jobs for stay in record.stays if stay.cluster == "a100"]
    assert not [s for s in stays if s.begun < halfway + 86_400 and (s.ended or 0) > halfway]
    assert any(stay.ended == halfway for stay in stays)


def test_a_job_of_a_lost_cluster_begins_elsewhere_once_it_is_given_up() -> None:
    fleet = make_fleet_of(a100=8, h100=8)
    job = make_trace_job("one", kind="training", gpus=8, duration=10_000.0)
    fleet = with_outage(fleet, "h100", after=2000, seconds=86_400)
    run = play_jobs(job, fleet=fleet, dispatcher=Score(), name="score")
    first, second = run.jobs[0].stays
    assert (first.cluster, first.ended) == ("h100", 2000)
    assert second.cluster == "a100"
    assert 2000 + 900 < second.begun < 2000 + 900 + 60, "after workerLostTimeout"


def test_a_job_that_comes_while_the_best_cluster_is_lost_goes_to_another_at_once() -> None:
    fleet = with_outage(make_fleet_of(a100=8, h100=8), "h100", after=10, seconds=86_400)
    job = make_trace_job("one", kind="training", gpus=8, submit=20.0)
    (stay,) = play_jobs(job, fleet=fleet, dispatcher=Score(), name="score").jobs[0].stays
    assert stay.cluster == "a100"
    assert stay.begun < 20 + START_SECONDS + 3


def test_a_job_that_ends_as_its_cluster_is_lost_has_ended() -> None:
    fleet = make_fleet_of(a100=8, h100=8)
    job = make_trace_job("one", kind="training", gpus=8, duration=10_000.0)
    (stay,) = play_jobs(job, fleet=fleet, dispatcher=Score(), name="score").jobs[0].stays
    assert stay.ended is not None
    fleet = with_outage(fleet, stay.cluster, after=stay.ended + 0.1, seconds=86_400)
    run = play_jobs(job, fleet=fleet, dispatcher=Score(), name="score")
    assert len(run.jobs[0].stays) == 1


def test_a_job_of_a_cluster_that_comes_back_at_once_goes_on_there() -> None:
    fleet = with_outage(make_fleet_of(a100=8, h100=8), "h100", after=2000, seconds=300)
    job = make_trace_job("one", kind="training", gpus=8, duration=10_000.0)
    run = play_jobs(job, fleet=fleet, dispatcher=Score(), name="score")
    assert [stay.cluster for stay in run.jobs[0].stays] == ["h100", "h100"]
    assert run.jobs[0].stays[1].begun == 2300 + START_SECONDS


def test_fair_sharing_lets_the_team_that_borrows_less_go_first() -> None:
    """Each team has 4 of 12 GPUs; a holds 8, b holds 4, and both want 2 more."""
    jobs = [
        make_trace_job(f"a-{n}", gpus=2, submit=float(n), duration=300.0 if n else 100.0)
        for n in range(10)
    ]
    jobs += [
        make_trace_job(f"b-{n}", team="b", gpus=2, submit=0.5, duration=1000.0) for n in range(2)
    ]
    jobs.append(make_trace_job("b-late", team="b", gpus=2, submit=50.0, duration=800.0))
    jobs.append(make_trace_job("c", team="c", gpus=2, submit=5000.0, duration=2800.0))
    began = {}
    for fair in (False, True):
        fleet = replace(make_fleet_of(a100=12), fair_sharing=fair, quota_percent=1000)
        run = play_jobs(*jobs, fleet=fleet)
        began[fair] = next(r.stays[0].begun for r in run.jobs if r.job.name == "b-late")
    assert began[True] < began[False] - 50
