"""How a decision is told: in a sentence, and a line per cluster with tier, score and start."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from multiqueue_dispatchers.score import Score

from multiqueue.cli.views.decisions import (
    describe_clusters,
    describe_decision,
    list_decision_rows,
    list_terms,
    select_decisions,
    to_dict,
)
from multiqueue.plugins import Forecast, Nomination, Prospect, StartEstimate, StoppedWorkload
from multiqueue.plugins.recording import Decision
from multiqueue.plugins.testing import (
    GPU,
    T0,
    make_cluster,
    make_lost_cluster,
    make_view,
    make_workload,
)

MINUTE = timedelta(minutes=1)


def decide(*clusters, gpus: int = 1) -> Decision:
    view = make_view(clusters=clusters, gpus=gpus)
    return Decision(dispatcher="score", view=view, nomination=Score().nominate(view))


def test_the_nominated_come_first_then_the_best_then_what_cannot_take_it():
    lines = describe_clusters(
        decide(make_lost_cluster("a"), make_cluster("b", used=8), make_cluster("c"), gpus=2)
    )
    assert [(line.name, line.nominated, line.tier) for line in lines] == [
        ("c", True, "Fit"),
        ("b", False, "Wait"),
        ("a", False, ""),
    ]
    assert lines[2].why == "is not connected"
    assert lines[0].start == "now"
    assert "packing" in list_terms(lines)


def test_a_start_tells_who_is_stopped_or_how_long_it_waits():
    stops = Forecast(
        prospect=Prospect.PREEMPTS,
        victims=(
            StoppedWorkload(key="x/a", lost=90 * MINUTE),
            StoppedWorkload(key="", lost=30 * MINUTE),
        ),
    )
    start = StartEstimate(at=T0 + 12 * MINUTE, earliest=T0 + 4 * MINUTE, latest=T0 + 40 * MINUTE)
    waits = Forecast(prospect=Prospect.WAITS, start=replace(start, ahead=3))
    never = Forecast(prospect=Prospect.NEVER, reason="has at most 2", largest=2)
    lines = describe_clusters(
        decide(
            replace(make_cluster("a"), forecast=stops),
            replace(make_cluster("b"), forecast=waits),
            replace(make_cluster("c"), forecast=never),
        )
    )
    assert [line.start for line in lines] == [
        "after stopping 2 (2.0 GPU-hours lost)",
        "in 12m (4m to 40m), 3 ahead",
        "never: at most 2 pods",
    ]
    assert lines[2].why == "has at most 2"


def test_a_decision_is_a_sentence():
    view = make_view(clusters=[make_cluster("a")])
    made = Decision(dispatcher="x", view=view, nomination=Nomination(clusters=("a",), note="try"))
    assert describe_decision(made, T0 + 12 * MINUTE) == 'Offered to a by "x", 12m ago (try)'
    profiled = replace(made, profile="fast", nomination=Nomination())
    assert describe_decision(profiled) == (
        'Offered to nowhere for now by "x" of DispatchProfile "fast"'
    )
    assert describe_decision(replace(made, nomination=None, problem="it hung")) == (
        'Not decided by "x": it hung'
    )
    refused = replace(made, nomination=Nomination(refusal="too large"))
    assert describe_decision(refused) == 'Rejected by "x": too large'


def test_programs_get_all_of_it():
    told = to_dict(decide(make_cluster("a"), make_cluster("b", used=8), gpus=2))
    assert told["nominated"] == ["a"]
    first = told["clusters"][0]
    assert (first["cluster"], first["tier"], first["start"]) == ("a", "Fit", "now")
    assert first["terms"]["packing"].keys() == {"value", "weight"}
    assert first["victims"] == []
    assert (first["prospect"], first["borrowed"]) == ("Fits", [])
    assert first["taken"] == [{"flavor": "gpu", "resource": GPU, "amount": 2}]
    assert first["left"] == [{"flavor": "gpu", "resource": GPU, "amount": 6}]
    assert (first["largestGang"], told["note"], told["external"]) == (None, None, False)
    noted = replace(decide(), nomination=Nomination(note="others decide", external=True))
    assert (to_dict(noted)["note"], to_dict(noted)["external"]) == ("others decide", True)


def test_the_largest_gang_is_told_of_what_the_core_keeps_away_for_its_size():
    """However the gang came to be kept away: what is closed besides is too small all the same."""
    view = make_view(
        workload=make_workload(pods=5, gpus=3),
        clusters=[replace(make_cluster("a"), unusable="has at most 8, 15 asked")],
    )
    (line,) = describe_clusters(Decision(dispatcher="x", view=view, nomination=Nomination()))
    assert line.start == "never: at most 2 pods"
    assert line.why == "has at most 8, 15 asked"
    assert line.to_dict()["largestGang"] == 2
    small = replace(view, workload=make_workload(gpus=3))
    (line,) = describe_clusters(Decision(dispatcher="x", view=small, nomination=Nomination()))
    assert line.start == ""


def test_decisions_are_selected_by_time_worker_and_profile_the_newest_first():
    first = replace(decide(make_cluster("a")), profile="slow")
    later = decide(make_cluster("b"))
    later = replace(later, profile="fast", view=replace(later.view, now=T0 + MINUTE))
    failed = Decision(dispatcher="own", view=first.view, problem="it timed out")
    known = [first, later, failed]
    assert select_decisions(known, T0) == [later, first, failed]
    assert select_decisions(known, T0 + MINUTE) == [later]
    assert select_decisions(known, T0, workers=["a", "c"]) == [first]
    assert select_decisions(known, T0, profiles=["fast", "slow"]) == [later, first]
    assert select_decisions(known, T0, workers=["a"], profiles=["fast"]) == []


def test_a_row_says_where_a_workload_was_offered_or_why_it_was_not():
    offered = decide(make_cluster("a"), make_cluster("b", used=8), gpus=2)
    key, now = offered.view.workload.key, T0 + 5 * MINUTE
    failed = Decision(dispatcher="own", view=offered.view, problem="it timed out")
    refused = replace(offered, nomination=Nomination(refusal="no data there"), profile="fast")
    ((age, workload, where, dispatcher, _, score, stopped, why), *others) = list_decision_rows(
        [offered, failed, refused], now
    )
    assert (age, workload, where, dispatcher, stopped) == ("5m", key, "a", "score", 0)
    assert score == describe_clusters(offered)[0].score
    assert why == describe_clusters(offered)[0].why
    assert others == [
        ["5m", key, "", "own", "", None, None, "it timed out"],
        ["5m", key, "", "score", "fast", None, None, "no data there"],
    ]
