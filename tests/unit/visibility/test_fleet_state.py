"""What the fleet API keeps: the journal of changes, the history, and the counts."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from multiqueue.api.names import CORDON
from multiqueue.api.v1beta2 import Condition, MultiKueueCluster, ObjectMeta, Workload
from multiqueue.visibility.fleet.census import Census
from multiqueue.visibility.fleet.history import History
from multiqueue.visibility.fleet.journal import Journal
from tests.builders.workloads import NAMESPACE, T0, admitted, make_workload, minutes, reserved

READY = Condition(type="Active", status="True", reason="Active", last_transition_time="")

# ---------------------------------------------------------------- journal


def test_a_reader_gets_each_changed_key_once_the_oldest_change_first() -> None:
    journal = Journal(T0)
    begin = journal.version
    for key in ("a", "b", "a"):
        journal.note("standings", key)
    journal.note("quotas", "q")
    assert [key for key, _ in journal.since("standings", begin)] == ["b", "a"]
    [(_, at_b), (_, at_a)] = journal.since("standings", begin)
    assert journal.since("standings", at_b) == [("a", at_a)]
    assert journal.since("standings", journal.version) == []


def test_a_reader_too_far_behind_is_told() -> None:
    journal = Journal(T0, max_keys=2)
    begin = journal.version
    for key in ("a", "b", "c"):
        journal.note("standings", key)
    assert not journal.knows_since("standings", begin)
    assert journal.knows_since("standings", begin + 1)
    assert journal.knows_since("quotas", begin)
    assert not journal.knows_since("standings", journal.version + 1)


def test_marks_of_another_start_are_unknown() -> None:
    journal, later = Journal(T0), Journal(minutes(1))
    assert journal.read_mark(f'"{journal.mark}"') == journal.version
    assert later.read_mark(journal.mark) is None
    assert journal.read_mark("x.y") is None
    assert not later.knows_since("standings", journal.version)


# ---------------------------------------------------------------- history


def test_transitions_are_kept_if_phase_or_worker_changes() -> None:
    history, waiting = History(T0), make_workload("a", queue="q")
    running = admitted(waiting, on="cq", at=minutes(1))
    key = waiting.metadata.key
    history.note_workload(None, waiting, T0)
    assert history.find_transitions(key) == ()
    history.note_workload(waiting, running, minutes(1))
    history.note_workload(running, admitted(waiting, on="cq", at=minutes(1)), minutes(2))
    assert [step.phase for step in history.find_transitions(key)] == ["Admitted"]
    history.note_workload(running, None, minutes(3))
    assert history.find_transitions(key) == ()


def test_a_job_whose_pods_start_and_run_is_a_transition_of_its_workload() -> None:
    history, waiting = History(T0), make_workload("a", queue="q")
    running = admitted(waiting, on="cq", at=minutes(1))
    history.note_workload(waiting, running, minutes(1))
    pods = [{"spec": {"parallelism": 2}, "status": {"ready": ready}} for ready in (0, 1, 2, 1)]
    for number, (old, new) in enumerate(pairwise(pods), start=2):
        history.note_job(running, old, new, minutes(number))
    history.note_job(running, pods[-1], None, minutes(5))
    told = [(step.phase, step.at) for step in history.find_transitions(running.metadata.key)]
    assert told == [("Admitted", minutes(1)), ("Running", minutes(3)), ("Starting", minutes(4))]


def test_a_job_that_is_seen_for_the_first_time_has_not_started_just_now() -> None:
    history, running = History(T0), admitted(make_workload("a", queue="q"), on="cq", at=T0)
    for ready in (0, 2):
        job = {"spec": {"parallelism": 2}, "status": {"ready": ready}}
        history.note_job(running, None, job, minutes(90))
    assert history.find_transitions(running.metadata.key) == ()


def test_the_transitions_of_the_workload_unchanged_for_longest_go_first() -> None:
    history = History(T0, most=2)
    for name in ("a", "b", "c"):
        waiting = make_workload(name, queue="q")
        history.note_workload(waiting, admitted(waiting, on="cq", at=T0), T0)
    kept = [len(history.find_transitions(f"{NAMESPACE}/{name}")) for name in ("a", "b", "c")]
    assert sum(kept) == 2
    assert kept[0] == 0


def test_minutes_go_back_one_day_and_starvation_is_counted() -> None:
    history, now = History(T0), T0
    for _ in range(25 * 60):
        now += timedelta(minutes=1)
        history.note_minute("q", now, {"waiting": 1, "gpus": 3})
    found = history.list_minutes("q", now)
    assert len(found) == 144
    assert found[-1] == {**found[-1], "waiting": 1, "gpus": 3, "share": None}
    assert history.count_starved("q", nominal=4, now=now) == 24 * 60
    assert history.count_starved("q", nominal=3, now=now) == 0
    history.note_minute("q", now + timedelta(minutes=1), {"waiting": 0, "gpus": 0})
    assert history.count_starved("q", nominal=4, now=now + timedelta(minutes=1)) == 0
    history.keep_minutes_of(set())
    assert history.list_minutes("q", now) == []


def test_what_was_done_on_the_dashboard_is_kept_without_names_of_jobs() -> None:
    history = History(T0)
    history.note_action("ClusterQueue", "cq", "hold", "ada", T0)
    history.note_action("Workload", "team/secret-plan", "evict", "bob", T0)
    told = [(each.kind, each.name, each.action, each.by) for each in history.changes]
    assert told == [("ClusterQueue", "cq", "hold", "ada"), ("Workload", "team", "evict", "bob")]
    assert [each.number for each in history.changes] == [1, 2]


def test_changes_of_specs_and_cordons_are_kept_but_not_those_of_a_status() -> None:
    history = History(T0)
    plain = MultiKueueCluster(metadata=ObjectMeta(name="w"))
    ordered = MultiKueueCluster(metadata=ObjectMeta(name="w", annotations={CORDON: "broken"}))
    busy = replace(ordered, status=replace(ordered.status, conditions=(READY,)))
    told = [
        history.note_spec("MultiKueueCluster", old, new, T0)
        for old, new in ((None, plain), (plain, ordered), (ordered, busy), (busy, None))
    ]
    assert told == ["1", "2", None, "3"]
    assert [change.action for change in history.changes] == ["created", "changed", "deleted"]
    assert history.changes[1].fields == ((f"annotations.{CORDON}", None, "broken"),)


# ---------------------------------------------------------------- census


class Found:
    def __init__(self) -> None:
        self.workloads: dict[str, Workload] = {}
        self.looks = 0

    def get(self, key: str) -> Workload | None:
        self.looks += 1
        return self.workloads.get(key)

    def census(self) -> Census:
        engine: Any = lambda _: None  # noqa: E731
        return Census(self.get, engine)


async def test_counts_follow_workloads_when_somebody_reads() -> None:
    found = Found()
    census = found.census()
    for name in ("a", "b"):
        workload = make_workload(name, queue="q")
        found.workloads[workload.metadata.key] = workload
        census.note(workload.metadata.key)
        census.note(workload.metadata.key)
    assert (found.looks, census.waiting.total()) == (0, 0)
    await census.catch_up()
    assert (found.looks, census.waiting.total()) == (2, 2)
    assert census.find_oldest() is not None
    key = next(iter(found.workloads))
    found.workloads[key] = reserved(found.workloads[key], on="cq", at=T0)
    census.note(key)
    await census.catch_up()
    assert (census.waiting.total(), census.holding.total()) == (1, 1)
    for gone in list(found.workloads):
        del found.workloads[gone]
        census.note(gone)
    await census.catch_up()
    assert (census.waiting.total(), census.holding.total()) == (0, 0)
    assert census.find_oldest() is None
