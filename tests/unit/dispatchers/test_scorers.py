"""Each scorer of `score` prefers what it says, and its arguments are checked beforehand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from multiqueue_dispatchers.score import Score
from multiqueue_dispatchers.scorers import BEST, SCORERS, WEIGHTS

from multiqueue.plugins import Forecast, Prospect, Runtime, StartEstimate, StoppedWorkload, survey
from multiqueue.plugins.testing import (
    GPU,
    T0,
    make_cluster,
    make_queue,
    make_unknown_cluster,
    make_view,
    make_workload,
)

HOUR = timedelta(hours=1)
PAIR = ("gpu", GPU)


def estimate(hours: float) -> StartEstimate:
    at = T0 + hours * HOUR
    return StartEstimate(at=at, earliest=T0, latest=at + HOUR)


def score(name: str, *clusters, workload=None, usual=None) -> dict[str, int]:
    view = make_view(clusters=clusters, workload=workload)
    view = replace(view, usual_speeds=usual or {})
    options = survey(view).options
    values = SCORERS[name](view, options)
    assert all(0 <= value <= BEST for value in values)
    return {option.name: value for option, value in zip(options, values, strict=True)}


def foreseen(name: str, **fields) -> object:
    return replace(make_cluster(name), forecast=Forecast(**fields))


def best(scores: dict[str, int]) -> str:
    assert len(set(scores.values())) > 1, scores
    return max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("name", SCORERS)
def test_equal_clusters_score_the_same_and_none_is_no_error(name):
    assert len(set(score(name, make_cluster("a"), make_cluster("b")).values())) == 1
    assert SCORERS[name](make_view(), ()) == []


@pytest.mark.parametrize("name", SCORERS)
def test_a_cluster_of_which_nothing_is_known_can_be_scored(name):
    score(name, make_unknown_cluster("a"), make_unknown_cluster("b"))


def test_packing_prefers_the_least_left_over_and_spreading_the_most():
    clusters = make_cluster("a", used=1), make_cluster("b", used=5)
    assert best(score("packing", *clusters)) == "b"
    assert best(score("spreading", *clusters)) == "a"


def test_guaranteed_prefers_what_is_not_lent():
    lent = foreseen("a", prospect=Prospect.BORROWS, taken={PAIR: 4}, borrowed={PAIR: 4})
    partly = foreseen("b", prospect=Prospect.BORROWS, taken={PAIR: 4}, borrowed={PAIR: 1})
    assert score("guaranteed", lent, partly) == {"a": 0, "b": 750}
    cpu = foreseen("c", prospect=Prospect.BORROWS, taken={PAIR: 4}, borrowed={("x", "cpu"): 9})
    assert score("guaranteed", cpu) == {"c": 1000}, "what is scarce counts"


def test_start_weighs_the_wait_by_the_time_that_the_job_runs():
    early = foreseen("a", prospect=Prospect.WAITS, start=estimate(1))
    late = foreseen("b", prospect=Prospect.WAITS, start=estimate(3))
    workload = replace(make_workload(), runtime=Runtime(expected=HOUR, low=HOUR, high=HOUR))
    assert score("start", early, late, workload=workload) == {"a": 500, "b": 250}


def test_finish_may_prefer_a_late_start_on_faster_hardware():
    old = replace(foreseen("old", prospect=Prospect.WAITS, start=estimate(1)))
    new = replace(
        make_cluster("new", labels={"accelerator": "h100"}),
        forecast=Forecast(prospect=Prospect.WAITS, start=estimate(2)),
    )
    long = Runtime(expected=10 * HOUR, low=HOUR, high=20 * HOUR)
    workload = replace(make_workload(), runtime=long, speeds={"h100": 2000})
    assert best(score("finish", old, new, workload=workload)) == "new"
    assert best(score("start", old, new, workload=workload)) == "old"


def test_speed_is_told_by_the_flavor_or_by_its_labels():
    workload = replace(make_workload(), speeds={"h100": 2000})
    clusters = make_cluster("a"), make_cluster("b", flavor="h100")
    assert score("speed", *clusters, workload=workload) == {"a": 500, "b": 1000}
    labelled = make_cluster("b", labels={"accelerator": "h100"})
    assert best(score("speed", make_cluster("a"), labelled, workload=workload)) == "b"


def test_gain_leaves_hardware_to_those_that_gain_more_from_it():
    workload = replace(make_workload(), speeds={"h100": 1500})
    clusters = make_cluster("a", flavor="a100"), make_cluster("b", flavor="h100")
    usual = {"a100": 667, "h100": 1333}
    assert best(score("gain", *clusters, workload=workload, usual=usual)) == "a"
    keen = replace(workload, speeds={"h100": 2500})
    assert best(score("gain", *clusters, workload=keen, usual=usual)) == "b"


def test_gain_is_speed_until_anything_is_usual():
    workload = replace(make_workload(), speeds={"h100": 1500})
    clusters = make_cluster("a", flavor="a100"), make_cluster("b", flavor="h100")
    assert best(score("gain", *clusters, workload=workload)) == "b"


def test_load_prefers_the_shorter_queue():
    queued = replace(make_cluster("a", used=8), queue=replace(make_queue(used=8), backlog={GPU: 8}))
    assert best(score("load", queued, make_cluster("b", used=8))) == "b"


def test_price_is_of_the_whole_job():
    cheap = replace(make_cluster("a"), prices={"gpu": 1000})
    dear = replace(make_cluster("b", flavor="h100"), prices={"h100": 1500})
    assert best(score("price", cheap, dear)) == "a"
    fast = replace(make_workload(), speeds={"h100": 2000})
    assert best(score("price", cheap, dear, workload=fast)) == "b"
    assert score("price", cheap, make_cluster("c"))["c"] == 0


def test_locality_counts_data_that_is_there():
    workload = replace(make_workload(), data=frozenset({"x", "y"}))
    some = replace(make_cluster("a"), data=frozenset({"x"}))
    assert score("locality", some, make_cluster("b"), workload=workload) == {"a": 500, "b": 0}


def test_victims_counts_lost_work_before_heads():
    one = foreseen(
        "a", prospect=Prospect.PREEMPTS, victims=(StoppedWorkload(key="x/y", lost=9 * HOUR),)
    )
    two = foreseen(
        "b",
        prospect=Prospect.PREEMPTS,
        victims=(StoppedWorkload(key="x/y"), StoppedWorkload(key="x/z")),
    )
    assert best(score("victims", one, two)) == "b"


def test_together_and_apart_look_at_the_same_local_queue():
    clusters = replace(make_cluster("a"), neighbours=3), make_cluster("b")
    assert best(score("together", *clusters)) == "a"
    assert best(score("apart", *clusters)) == "b"


def test_health_prefers_workers_that_do_well():
    assert best(score("health", replace(make_cluster("a"), health=0.4), make_cluster("b"))) == "b"


def test_hardware_that_was_asked_for_outweighs_everything_else_together():
    others = sum(weight for name, weight in WEIGHTS.items() if name != "hardware")
    asked = make_workload(node_selector={"accelerator": "h100"})
    match, silent = make_cluster("a", labels={"accelerator": "h100"}), make_cluster("b")
    scores = score("hardware", match, silent, workload=asked)
    assert WEIGHTS["hardware"] * (scores["a"] - scores["b"]) >= others * BEST * 99 // 100


class TestArguments:
    def check(self, **arguments: object) -> tuple[str, ...]:
        return tuple(Score().check_arguments(arguments))

    def test_good_ones_pass(self):
        assert self.check(scorers={"price": 9}, filters=["healthy"], race=1) == ()

    def test_all_that_is_wrong_is_told_at_once(self):
        got = self.check(scorers={"prize": 9}, filters=["fast"], race=0, colour="blue")
        there = "scorers, filters, race, wait, passing, claimAfter"
        assert got == (
            f"argument colour: is unknown; there are: {there}",
            "argument filters: 'fast' must be one of has-data, healthy, known, stops-nobody",
            "argument race: 0 must be a whole number of at least 1",
            f"argument scorers: 'prize' must be one of {', '.join(sorted(SCORERS))}",
        )

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"scorers": ["price"]}, "argument scorers: ['price'] must be names with weights"),
            ({"scorers": {"price": -1}}, "scorers.price: -1 must be a whole number of at least 0"),
            ({"scorers": {"price": True}}, "scorers.price: True must be a whole number"),
            ({"filters": "healthy"}, "argument filters: 'healthy' must be a list"),
        ],
    )
    def test_malformed_ones_say_what_to_write(self, arguments, words):
        (problem,) = self.check(**arguments)
        assert words in problem

    def test_weights_change_the_choice(self):
        cheap = replace(make_cluster("a"), prices={"gpu": 1})
        near = replace(make_cluster("b"), prices={"gpu": 9}, data=frozenset({"x"}))
        workload = replace(make_workload(), data=frozenset({"x"}))
        for scorers, want in (({"price": 100}, "a"), ({"price": 0}, "b")):
            view = make_view(
                clusters=[cheap, near], workload=workload, arguments={"scorers": scorers}
            )
            assert Score().nominate(view).clusters == (want,)

    def test_a_filter_says_why_it_leaves_a_cluster_out(self):
        ill = replace(make_cluster("a"), health=0.2)
        view = make_view(clusters=[ill], arguments={"filters": ["healthy"]})
        got = Score().nominate(view)
        assert (got.clusters, got.verdicts[0].reason) == ((), "its health is 0.20")


def test_a_verdict_tells_what_the_score_is_made_of():
    (verdict,) = Score().nominate(make_view(clusters=[make_cluster("a")])).verdicts
    assert verdict.tier == "Fit"
    assert verdict.score is not None
    assert {term.name for term in verdict.terms} == {n for n, w in WEIGHTS.items() if w}
    total = sum(t.value * t.weight for t in verdict.terms) // sum(t.weight for t in verdict.terms)
    assert total == verdict.score
