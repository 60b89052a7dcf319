"""The best rival of each trace, and what a dispatcher is worth beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.simulation.compare import Comparison, Contestant, Plan, compare
from multiqueue.simulation.fleet import make_fleet
from multiqueue.simulation.rivals import (
    BEST,
    give_quotas,
    judge_beside_best,
    list_traces,
    narrow,
)
from multiqueue.simulation.traces.make import TraceRequest

CONTESTANTS = (
    Contestant(label="race", dispatcher="all-at-once"),
    Contestant(label="few", dispatcher="incremental"),
    Contestant(label="ours", dispatcher="score"),
)


@pytest.fixture(scope="module")
def played() -> Comparison:
    plan = Plan(
        wanted=TraceRequest(source="helios-like", count=30, load=1.5, teams=2),
        fleet=make_fleet(2),
        contestants=give_quotas(CONTESTANTS, [30, 400]),
        seeds=(1, 2),
    )
    return compare(plan, processes=1)


def with_figures(played: Comparison, **of: list[float]) -> Comparison:
    """Replace the figure ``mean_wait`` of each contestant, seed by seed."""
    figures = {
        label: [{**run, "mean_wait": wait} for run, wait in zip(runs, of[name], strict=True)]
        for name, (label, runs) in zip(of, played.figures.items(), strict=True)
    }
    return replace(played, figures=figures)


def test_rivals_play_with_each_quota_and_the_last_dispatcher_with_the_last() -> None:
    given = [(each.label, each.quota_percent) for each in give_quotas(CONTESTANTS, [100, 400])]
    rivals = [("race@100", 100), ("race@400", 400), ("few@100", 100), ("few@400", 400)]
    assert given == [*rivals, ("ours", 400)]
    assert [each.label for each in give_quotas(CONTESTANTS, [400])] == ["race", "few", "ours"]


def test_the_quota_of_the_manager_is_that_of_the_contestant(played: Comparison) -> None:
    percents = {label: runs[0].fleet.quota_percent for label, runs in played.runs.items()}
    assert percents == {
        "race@30": 30,
        "race@400": 400,
        "few@30": 30,
        "few@400": 400,
        "ours": 400,
    }
    little, much = played.figures["race@30"][0], played.figures["race@400"][0]
    assert little["mean_wait"] > much["mean_wait"]


def test_on_each_trace_the_rival_with_the_shortest_mean_wait_counts(played: Comparison) -> None:
    beside = narrow(with_figures(played, a=[9, 9], b=[5, 8], c=[9, 9], d=[7, 4], ours=[6, 2]))
    assert list(beside.runs) == [BEST, "ours"]
    assert [run.label for run in beside.runs[BEST]] == ["race@400", "few@400"]
    assert [run["mean_wait"] for run in beside.figures[BEST]] == [5, 4]
    rows = list_traces(beside)
    assert [row[:3] for row in rows] == [
        ["1", "race@400", "6 s (+20 %)"],
        ["2", "few@400", "2 s (-50 %)"],
    ], "the worst trace comes first"
    goals = {goal.words: goal for goal in judge_beside_best(beside)}
    mean = goals["mean wait, of the best rival <= 0.7"]
    assert (mean.measured, mean.reached) == ("0.889", False)
    worst = goals["mean wait of the worst trace (1), of the best rival <= 1.05"]
    assert (worst.measured, worst.reached) == ("1.2", False)


def test_what_is_reached_is_said(played: Comparison) -> None:
    waits = {"a": [9.0, 9.0], "b": [9.0, 9.0], "c": [9.0, 9.0], "d": [9.0, 9.0], "ours": [6.0, 6.0]}
    goals = judge_beside_best(narrow(with_figures(played, **waits)))
    assert [goal.reached for goal in goals if goal.words.startswith("mean wait")] == [True, True]


def test_a_trace_without_waits_has_no_change(played: Comparison) -> None:
    waits = {"a": [0.0, 2.0], "b": [0.0, 2.0], "c": [0.0, 2.0], "d": [0.0, 2.0], "ours": [0.0, 2.0]}
    beside = narrow(with_figures(played, **waits))
    assert [row[2] for row in list_traces(beside)] == ["2 s (0 %)", "0 s"]


def test_with_one_quota_all_are_shown(played: Comparison) -> None:
    plan = replace(played.plan, contestants=give_quotas(CONTESTANTS, [100]))
    alike = replace(played, plan=plan)
    assert narrow(alike) is alike
