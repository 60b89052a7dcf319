"""What finished jobs say about the next ones."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from multiqueue.api.names import JOB_CLASS, RUNTIME
from multiqueue.api.v1beta2 import Admission, PodSetAssignment, Workload
from multiqueue.api.workload_state import finish, reserve_quota, sync_admitted
from multiqueue.forecast.curve import OVERDUE, UNKNOWN, Curve, summarize
from multiqueue.forecast.history import Outliers, RuntimeHistory, speed_on
from multiqueue.forecast.traits import (
    FinishedRun,
    Traits,
    read_finished,
    read_traits,
    stem_of,
)
from multiqueue.model.build_workload import build_workload
from multiqueue.plugins.forecast import Basis, Runtime
from tests.builders.workloads import make_workload, minutes, with_status

GPU = "nvidia.com/gpu"
SECONDS = st.floats(1, 1e6)


def traits(job_class: str = "team/bert", **fields: object) -> Traits:
    return Traits(job_class=job_class, **fields)


def learned(*runs: tuple[str, float], **fields: object) -> RuntimeHistory:
    history = RuntimeHistory()
    for index, (flavor, taken) in enumerate(runs):
        took = timedelta(minutes=taken)
        of = traits(**fields)
        history.learn(FinishedRun(uid=f"u{index}", traits=of, flavor=flavor, took=took))
    return history


def test_a_class_is_as_its_runs_were() -> None:
    found = learned(*[("a100", float(taken)) for taken in range(50, 71)]).runtime(traits())
    assert found.basis is Basis.HISTORICAL
    assert found.expected == pytest.approx(timedelta(minutes=60), abs=timedelta(seconds=1))
    assert timedelta(minutes=49) < found.low < found.expected < found.high < timedelta(minutes=72)


def test_few_runs_say_how_long_a_class_takes_but_not_how_much_it_varies() -> None:
    """P-85: the mean of the last two, with wide tenths."""
    found = learned(("a100", 40.0), ("a100", 80.0)).runtime(traits())
    assert (found.basis, found.expected) == (Basis.HISTORICAL, timedelta(hours=1))
    assert (found.low, found.high) == (timedelta(minutes=18), timedelta(hours=3))


def test_the_mean_is_longer_than_the_median_the_less_is_known() -> None:
    hour = timedelta(hours=1)
    sure = Runtime(expected=hour, low=hour, high=hour)
    known = Runtime(expected=hour, low=hour * 0.3, high=3 * hour)
    unknown = Runtime(expected=hour, low=hour / 30, high=24 * hour)
    assert sure.mean == hour
    # exp(sigma² / 2), where sigma = ln(3) / 1.2816
    assert known.mean == pytest.approx(1.444 * hour, rel=1e-3)
    assert unknown.mean == pytest.approx(21.63 * hour, rel=1e-3)
    assert replace(unknown, high=48 * hour).mean == 48 * hour


def test_what_is_declared_counts_until_it_turns_out_otherwise() -> None:
    declared = traits(declared=timedelta(hours=2))
    found = learned().runtime(declared)
    assert (found.basis, found.expected) == (Basis.DECLARED, timedelta(hours=2))
    halved = learned(*[("a100", 60.0)] * 10, declared=timedelta(hours=2)).runtime(declared)
    assert (halved.basis, halved.expected) == (Basis.DECLARED, timedelta(hours=1))


def test_each_run_changes_what_is_told() -> None:
    history = learned()
    for minutes_taken in (60, 20):
        took = timedelta(minutes=minutes_taken)
        history.learn(FinishedRun(uid=str(took), traits=traits(), flavor="a100", took=took))
        told = history.runtime(traits())
        assert told is history.runtime(traits()), "it is computed once for each class"
    assert told.expected == timedelta(minutes=40)


def test_a_limit_bounds_whatever_is_known() -> None:
    limit = timedelta(minutes=30)
    bounded = learned(*[("a100", 60.0)] * 3).runtime(traits(limit=limit))
    assert (bounded.basis, bounded.expected, bounded.high) == (Basis.HISTORICAL, limit, limit)
    assert learned().runtime(traits(limit=limit)).basis is Basis.LIMITED


def test_of_an_unknown_class_only_jobs_in_general_are_known() -> None:
    assert replace(learned().runtime(traits()), astray=0.0) == UNKNOWN
    found = learned(*[("a100", 5.0)] * 10, job_class="other/x").runtime(traits())
    assert (found.basis, found.expected) == (Basis.ASSUMED, timedelta(minutes=5))


def test_speeds_are_learned_from_runs_on_several_flavors() -> None:
    history = learned(*[("a100", 60.0)] * 4, *[("h100", 30.0)] * 3, ("v100", 90.0))
    assert history.speeds(traits()) == {"a100": 1000, "h100": 2000}
    # All of them say how long it takes on the reference.
    assert history.runtime(traits()).expected == timedelta(hours=1)


def test_declared_speeds_win() -> None:
    history = learned(*[("a100", 60.0)] * 3, *[("h100", 30.0)] * 3)
    assert history.speeds(traits(speeds={"h100": 1500})) == {"h100": 1500}


def test_a_run_is_learned_once() -> None:
    history = learned(("a100", 60.0))
    version = history.version
    run = FinishedRun(uid="u0", traits=traits(), flavor="a100", took=timedelta(minutes=1))
    history.learn(run)
    assert history.version == version


def test_speeds_are_found_by_flavor_or_label() -> None:
    speeds = {"h100": 2000}
    assert speed_on(speeds, "h100") == 2000
    assert speed_on(speeds, "pool-3", ["eu", "h100"]) == 2000
    assert speed_on(speeds, "a100") == 1000


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("train-bert-17", "train-bert"),
        ("train-bert-20260102-x7f3k", "train-bert"),
        ("eval12", "eval"),
        ("train", "train"),
        ("2026", "2026"),
    ],
)
def test_what_differs_between_runs_is_dropped_from_names(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def ended(workload: Workload, *, after: float, reason: str = "Succeeded") -> Workload:
    assignment = PodSetAssignment(
        name="main", flavors={"cpu": "default"}, resource_usage={"cpu": "1"}, count=1
    )
    admission = Admission(cluster_queue="cq", pod_set_assignments=(assignment,))
    status = reserve_quota(workload.status, admission, now=minutes(5))
    status = sync_admitted(status, now=minutes(10))
    status = finish(status, reason, "done", now=minutes(10 + after))
    return with_status(workload, status)


def test_a_run_lasts_from_its_admission_to_its_end() -> None:
    workload = ended(make_workload("job-train-7-0af31"), after=20)
    of = read_traits(workload, {RUNTIME: "25m"}, build_workload(workload).pod_sets)
    assert of.job_class == "team-a/lq/train/0"
    run = read_finished(workload, of)
    assert run is not None
    assert (run.flavor, run.took) == ("default", timedelta(minutes=20))
    assert of.declared == timedelta(minutes=25)


@pytest.mark.parametrize("reason", ["WorkloadSliceReplaced", "OutOfSync"])
def test_what_did_not_end_by_itself_tells_nothing(reason: str) -> None:
    """Its job runs on under another slice, or was not the one that was asked about."""
    workload = ended(make_workload("job-train-7-0af31"), after=20, reason=reason)
    assert read_finished(workload, traits()) is None


def test_a_class_may_be_declared() -> None:
    workload = make_workload("x", labels={JOB_CLASS: "nightly"})
    assert read_traits(workload, {}, ()).job_class == "team-a/nightly"
    assert read_finished(workload, traits()) is None


@given(st.lists(SECONDS, min_size=1, max_size=80))
def test_tenths_are_in_order_and_about_what_was_seen(seen: list[float]) -> None:
    found = summarize(seen)
    assert found.low <= found.expected <= found.high
    slack = timedelta(microseconds=1) + found.expected * 1e-9
    assert timedelta(seconds=min(seen)) - slack <= found.expected
    assert found.expected <= timedelta(seconds=max(seen)) + slack


@given(st.lists(SECONDS, min_size=1, max_size=9), st.floats(0, 1e7), st.floats(0.01, 0.99))
def test_what_runs_ends_later_than_now_and_later_the_older_it_is(
    seen: list[float], age: float, share: float
) -> None:
    curve = Curve.of(summarize(seen))
    (end,) = curve.ends(age, [share])
    assert age <= end < math.inf
    older = age * 1.1 + 1
    becomes_overdue = curve.share(age) < OVERDUE <= curve.share(older)
    assert becomes_overdue or end <= curve.ends(older, [share])[0] * (1 + 1e-9)


@given(SECONDS, st.floats(0.0, 0.5), st.floats(0.0, 3.0), st.floats(0.1, 10.0))
@example(60.0, 0.125, 0.0, 1.0)
def test_ends_are_spread_as_the_shares_of_the_curve_say(
    median: float, astray: float, age: float, later: float
) -> None:
    curve = Curve.of(replace(summarize([median / 3, median, median * 2]), astray=astray))
    age, until = age * median, (age + later) * median
    before = curve.share(age)
    assume(before < 0.98)
    ends = curve.ends(age, [(index + 0.5) / 500 for index in range(500)])
    ended = sum(end <= until for end in ends) / len(ends)
    assert ended == pytest.approx((curve.share(until) - before) / (1 - before), abs=0.005)


def test_the_older_a_run_the_likelier_it_is_nothing_like_its_kind() -> None:
    curve = Curve.of(replace(summarize([60.0, 66.0, 72.0]), astray=0.05))
    (as_said,) = curve.ends(0.0, [0.5])
    (strange,) = curve.ends(600.0, [0.5])
    assert 60 < as_said < 72
    assert strange > 1200


def test_how_many_go_astray_is_learned() -> None:
    tenth = timedelta(minutes=6)
    said = Runtime(expected=10 * tenth, low=9 * tenth, high=11 * tenth, basis=Basis.DECLARED)
    usual, strange = Outliers(), Outliers()
    for index in range(100):
        usual.learn(said, 3600 + 10 * (index % 20))
        strange.learn(said, 3600 if index % 2 else 60 * (index + 1))
    assert usual.mark(said).astray < 0.05
    assert 0.35 < strange.mark(said).astray < 0.6
    other = replace(said, basis=Basis.HISTORICAL)
    assert strange.mark(other).astray == 0.1
