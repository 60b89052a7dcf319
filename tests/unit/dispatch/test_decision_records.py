"""Decisions are remembered as long as there is room, the last one of each Workload first of all."""

from __future__ import annotations

from multiqueue.dispatch.ask.records import DecisionRecords
from multiqueue.plugins import Nomination
from multiqueue.plugins.recording import Decision
from multiqueue.plugins.testing import make_cluster, make_view, make_workload


def decide(name: str, *to: str, clusters: int = 2, problem: str = "") -> Decision:
    view = make_view(
        workload=make_workload(name), clusters=[make_cluster(f"c{n}") for n in range(clusters)]
    )
    nomination = None if problem else Nomination(clusters=to)
    return Decision(dispatcher="score", view=view, nomination=nomination, problem=problem)


def test_the_last_decision_is_found():
    records = DecisionRecords()
    first, second = decide("a", "c0"), decide("a", "c1")
    records.note(first)
    records.note(second)
    assert records.find("team-a/a") is second
    assert records.find("team-a/b") is None
    assert records.all() == (first, second)


def test_one_that_repeats_itself_takes_the_place_of_the_one_before():
    records = DecisionRecords()
    for _ in range(3):
        records.note(decide("a"))
        records.note(decide("b", problem="it hung"))
    assert [d.view.workload.key for d in records.all()] == ["team-a/a", "team-a/b"]


def test_the_oldest_are_forgotten_when_there_are_too_many_clusters():
    records = DecisionRecords(most_clusters=9)
    for name in "abcd":
        records.note(decide(name, "c0"))
    assert [d.view.workload.key[-1] for d in records.all()] == ["b", "c", "d"]
    assert records.find("team-a/a") is None


def test_decisions_about_no_clusters_are_forgotten_too():
    records = DecisionRecords(most_clusters=3)
    for number in range(10):
        records.note(decide(f"w{number}", clusters=0))
    assert len(records.all()) == 3


def test_one_that_is_larger_than_all_room_is_kept_alone():
    records = DecisionRecords(most_clusters=4)
    records.note(decide("a", "c0"))
    records.note(decide("b", "c0", clusters=5))
    assert [d.view.workload.key for d in records.all()] == ["team-a/b"]
    records.note(decide("c", "c0", clusters=1))
    assert [d.view.workload.key for d in records.all()] == ["team-a/c"]


def test_only_the_last_decisions_about_deleted_workloads_are_kept():
    records = DecisionRecords(most_past=2)
    for name in "abcd":
        records.note(decide(name, "c0"))
    records.note(decide("a", "c1"))
    for name in "abc":
        records.retire(f"team-a/{name}")
    assert [d.view.workload.key[-1] for d in records.all()] == ["b", "c", "d"]
    assert records.find("team-a/a") is None


def test_a_decision_about_a_new_workload_of_the_same_name_is_kept():
    records = DecisionRecords(most_past=1)
    records.note(decide("a", "c0"))
    records.retire("team-a/a")
    records.note(decide("a", "c1"))
    records.note(decide("b", "c0"))
    records.retire("team-a/b")
    found = records.find("team-a/a")
    assert found is not None
    assert found.nomination == Nomination(clusters=("c1",))
    assert [d.view.workload.key[-1] for d in records.all()] == ["a", "b"]
