"""What a manager assumes of clusters that it has not seen since it started."""

from __future__ import annotations

import pytest

from multiqueue.dispatch.decide.plan import Trouble
from multiqueue.dispatch.decide.view import Opening
from multiqueue.dispatch.observe.memory import FIGURES_FOR, GroupMemory, is_ask_due
from tests.unit.dispatch.builders import (
    T0,
    make_cluster,
    make_copy,
    make_local,
    make_ready,
    make_remote_job,
    minutes,
)


def test_a_nominated_cluster_is_suspect_until_it_was_looked_at_for_this_workload():
    """Also if it was connected for a moment before: nobody looked then (I-1)."""
    memory = GroupMemory()
    local = make_local(nominated=("a", "b"))
    memory.note(local, {"b"}.__contains__)
    memory.see(make_cluster("b"))
    assert memory.may_run_unseen("a", local, seen={"a", "b"})
    assert not memory.may_run_unseen("b", local, seen={"a", "b"})
    memory.note(local, {"a"}.__contains__)
    assert not memory.may_run_unseen("b", local, seen={"a", "b"})


def test_what_was_ever_evicted_may_run_wherever_nobody_has_looked_yet():
    """I-6: also where there is no connection yet, for its kubeconfig is still being read."""
    local = make_local(evicted_at=T0, was_evicted=True)
    assert GroupMemory().may_run_unseen("a", local, seen=frozenset())
    assert not GroupMemory().may_run_unseen("a", local, seen={"a"})


def test_of_what_was_evicted_before_the_start_a_connection_alone_proves_nothing():
    """I-6: it may have ended before anybody looked for this Workload there."""
    memory = GroupMemory()
    memory.note(make_local(nominated=("a",)), {"a"}.__contains__)
    evicting = make_local(evicted_at=T0, was_evicted=True)
    memory.note(evicting, set[str]().__contains__)
    assert memory.may_run_unseen("a", evicting, seen={"a"})
    memory.see(make_cluster("a"))
    assert not memory.may_run_unseen("a", evicting, seen={"a"})


@pytest.mark.parametrize(
    "before",
    [make_ready("b"), make_local(has_quota=False, epoch="")],
    ids=["ran on one", "had no quota"],
)
def test_of_what_was_evicted_since_the_start_a_connection_is_enough(before):
    """Nothing of it ran on another cluster when this process first saw it."""
    memory, evicting = GroupMemory(), make_local(evicted_at=T0, was_evicted=True)
    memory.note(before, {"a", "b"}.__contains__)
    memory.note(evicting, {"b"}.__contains__)
    assert not memory.may_run_unseen("a", evicting, seen={"a", "b"})


def test_a_cluster_that_never_shows_the_kind_is_no_suspect_once_it_is_gone():
    memory, evicting = GroupMemory(), make_local(evicted_at=T0, was_evicted=True)
    memory.note(evicting, {"a"}.__contains__)
    memory.see(make_cluster("a", job_known=False, lost_at=T0))
    assert not memory.may_run_unseen("a", evicting, seen={"a"})


def test_the_cluster_that_runs_it_may_do_so_unseen():
    assert GroupMemory().may_run_unseen("a", make_ready("a"), seen={"a"})


def test_one_that_was_seen_without_a_job_is_no_suspect_any_more():
    memory, local = GroupMemory(), make_local(nominated=("a",))
    memory.note(local, set[str]().__contains__)
    memory.see(make_cluster("a"))
    assert not memory.may_run_unseen("a", local, seen={"a"})
    memory.see(make_cluster("a", job=make_remote_job()))
    assert memory.may_run_unseen("a", local, seen={"a"})


def test_one_where_its_job_is_being_created_stays_suspect():
    memory, local = GroupMemory(), make_local()
    memory.see(make_cluster("a", creating=True))
    assert memory.may_run_unseen("a", local, seen={"a"})


def test_a_worker_that_came_back_or_was_added_is_asked_about():
    """G-4: also where it does not show its queues, so that nobody hears of room there."""
    memory, local = GroupMemory(), make_local(nominated=("a",))
    memory.note(local, {"a"}.__contains__)
    memory.asked_at, memory.fleet = T0, (1, ("a",))
    clusters = [make_cluster("a")]
    assert not is_ask_due(memory, local, clusters, (1, ("a",)), T0)
    assert is_ask_due(memory, local, clusters, (2, ("a",)), T0)
    assert is_ask_due(memory, local, clusters, (1, ("a", "b")), T0)


def test_after_a_change_of_room_only_those_whose_turn_it_is_are_asked_about():
    fleet = (1, ("a",))
    memory = GroupMemory(asked_at=T0, fleet=fleet)
    local, clusters = make_local(nominated=("a",)), [make_cluster("a", workload=make_copy())]
    assert not is_ask_due(memory, local, clusters, fleet, T0)
    memory.room_changed = True
    assert is_ask_due(memory, local, clusters, fleet, T0)
    on_its_way = [make_cluster("a", workload=make_copy(quota_reserved=True))]
    assert not is_ask_due(memory, local, on_its_way, fleet, T0)


@pytest.mark.parametrize(
    ("new", "want"),
    [
        ("w1 has 2 of 8 free", False),
        ("w1 has 3 of 8 free", False),
        ("w2 has 2 of 8 free", True),
        ("w1 is not connected", True),
    ],
    ids=["the same", "other figures", "another cluster", "another reason"],
)
def test_a_message_is_written_at_once_where_it_says_something_else(new, want):
    memory = GroupMemory(explained_at=T0)
    assert memory.may_explain("w1 has 2 of 8 free", new, T0) is want


def test_figures_are_brought_up_to_date_from_time_to_time():
    memory = GroupMemory(explained_at=T0)
    assert memory.may_explain("2 free", "3 free", T0 + FIGURES_FOR)
    assert not memory.may_explain("2 free", "2 free", T0 + FIGURES_FOR)


def test_only_trouble_of_a_new_kind_is_news():
    memory = GroupMemory()
    steps = (Trouble.NO_CLUSTER, Trouble.NO_CLUSTER, Trouble.DISPATCHER, None, Trouble.DISPATCHER)
    assert [memory.meet(trouble) for trouble in steps] == [True, False, True, False, True]


def test_a_cluster_that_goes_on_refusing_is_no_news():
    memory = GroupMemory()
    answers = [memory.refuse("a", why, T0) for why in ("taken", "taken", "gone")]
    assert answers == [True, False, True]


def test_since_when_a_cluster_is_offered_it_is_told_without_its_earlier_turns():
    memory = GroupMemory()
    for number, clusters in enumerate([("a", "b"), ("b",), ("b", "a"), ("b", "a", "c")]):
        memory.add_round(T0 + minutes(number), clusters)
    since = {name: memory.offered_since(name) for name in "abcd"}
    assert since == {"a": T0 + minutes(2), "b": T0, "c": T0 + minutes(3), "d": None}


def test_another_wish_of_the_user_is_worth_a_question():
    fleet = (1, ("a",))
    memory = GroupMemory(asked_at=T0, fleet=fleet)
    local, clusters = make_local(nominated=("a",)), [make_cluster("a", workload=make_copy())]
    for constraints, want in [(("",), False), (("",), False), (("team=x",), True)]:
        memory.hear(constraints)
        assert is_ask_due(memory, local, clusters, fleet, T0) is want


def test_what_somebody_else_nominates_is_worth_a_question():
    fleet = (1, ("a",))
    memory = GroupMemory(asked_at=T0, fleet=fleet, followed=())
    clusters = [make_cluster("a")]
    assert not is_ask_due(memory, make_local(), clusters, fleet, T0)
    assert is_ask_due(memory, make_local(nominated=("a",)), clusters, fleet, T0)


def test_another_reservation_knows_nothing_of_rounds_and_openings():
    """G-5: evicted and queued again within a round."""
    memory = GroupMemory(asked_at=T0, opening=Opening(cluster="a", at=T0), epoch="e1")
    memory.add_round(T0, ("a",))
    memory.note(make_local(epoch="e2"), {"a"}.__contains__)
    assert (memory.rounds, memory.opening, memory.asked_at) == ((), None, None)


def test_an_opening_counts_when_its_copy_is_gone_too():
    memory = GroupMemory(epoch="e2")
    memory.see(make_cluster("a", workload=make_copy(gate_opened_at=T0)))
    memory.see(make_cluster("b", workload=make_copy(gate_opened_at=T0 - minutes(1))))
    memory.see(make_cluster("c", workload=make_copy(gate_opened_at=T0 + minutes(1), epoch="e1")))
    memory.see(make_cluster("a"))
    assert memory.opening == Opening(cluster="a", at=T0)


def test_a_refusal_that_is_over_has_the_dispatcher_asked_again():
    """Whatever spoke against the cluster may be gone, and nothing else would tell."""
    memory = GroupMemory()
    memory.refuse("a", "taken", T0 + minutes(1))
    memory.asked_at = T0
    assert memory.next_refusal_end(T0) == T0 + minutes(1)
    assert memory.next_refusal_end(T0 + minutes(1)) is None
    assert memory.refusal("a", T0) == "taken"
    assert memory.asked_at is not None
    assert not memory.refusal("a", T0 + minutes(1))
    assert memory.asked_at is None
