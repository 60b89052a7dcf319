"""Whom a search without fair sharing preempts, in one cohort (E-88 to E-95)."""

from dataclasses import replace

import pytest

from multiqueue.api.conditions import Reason
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.model.cluster_queue import StopPolicy
from tests.builders.engine import T0, flavor_quotas, group, make_queue, seconds
from tests.preemption_world import (
    ANY,
    LOWER,
    LOWER_OR_NEWER,
    Holdings,
    make_cpu_queue,
    make_preemption,
)

OWN = Reason.IN_CLUSTER_QUEUE
RECLAIM = Reason.IN_COHORT_RECLAMATION
BORROWING = Reason.IN_COHORT_RECLAIM_WHILE_BORROWING

# ------------------------------------------------------------------ own queue


def test_the_lowest_priority_leaves_first_and_no_more_than_needed() -> None:
    world = Holdings(make_cpu_queue("cq", 6, own=LOWER))
    world.hold("high", "cq", priority=2, cpu=2)
    world.hold("low", "cq", priority=0, cpu=2)
    world.hold("middle", "cq", priority=1, cpu=2)

    assert world.targets(world.request("cq", priority=9, cpu=3)) == [("low", OWN), ("middle", OWN)]


def test_free_quota_is_used_before_anybody_leaves() -> None:
    world = Holdings(make_cpu_queue("cq", 6, own=LOWER))
    world.hold("a", "cq", cpu=2)
    world.hold("b", "cq", cpu=2)

    assert world.targets(world.request("cq", priority=9, cpu=4)) == [("a", OWN)]


def test_nobody_leaves_where_not_even_all_of_them_make_room() -> None:
    world = Holdings(make_cpu_queue("cq", 6, own=LOWER))
    world.hold("low", "cq", cpu=2)
    world.hold("equal", "cq", priority=9, cpu=4)

    assert world.targets(world.request("cq", priority=9, cpu=3)) == []


def test_nobody_leaves_where_the_policies_are_never() -> None:
    world = Holdings(make_cpu_queue("cq", 2))
    world.hold("low", "cq", cpu=2)

    assert world.targets(world.request("cq", priority=9, cpu=1)) == []


def test_an_equal_priority_leaves_if_it_is_newer_and_the_policy_says_so() -> None:
    world = Holdings(make_cpu_queue("cq", 4, own=LOWER_OR_NEWER))
    world.hold("older", "cq", at=T0 - seconds(1), cpu=2)
    world.hold("newer", "cq", at=T0 + seconds(1), cpu=2)

    assert world.targets(world.request("cq", cpu=2)) == [("newer", OWN)]
    assert world.targets(world.request("cq", cpu=4)) == []


def test_a_large_workload_lets_smaller_ones_before_it_stay() -> None:
    world = Holdings(make_cpu_queue("cq", 10, own=LOWER))
    for priority, (name, cpu) in enumerate([("a", 3), ("b", 1), ("c", 3), ("d", 3)]):
        world.hold(name, "cq", priority=priority, cpu=cpu)

    # b may stay; d, the last, takes its place in the list.
    assert world.names(world.request("cq", priority=9, cpu=9)) == ["a", "d", "c"]


def test_the_one_that_made_room_leaves_alone_if_it_is_large_enough() -> None:
    world = Holdings(make_cpu_queue("cq", 6, own=LOWER))
    for priority, (name, cpu) in enumerate([("a", 1), ("b", 1), ("c", 4)]):
        world.hold(name, "cq", priority=priority, cpu=cpu)

    assert world.names(world.request("cq", priority=9, cpu=3)) == ["c"]


def test_all_contested_resources_have_to_become_free() -> None:
    queue = make_queue(
        "cq",
        group(flavor_quotas("default", cpu=4, memory=4)),
        preemption=make_preemption(own=LOWER),
    )
    world = Holdings(queue)
    world.hold("cpu", "cq", priority=0, cpu=4)
    world.hold("memory", "cq", priority=1, memory=4)

    both = world.request("cq", priority=9, cpu=1, memory=1)
    assert world.names(both) == ["cpu", "memory"]
    assert world.names(world.request("cq", priority=9, memory=1)) == ["memory"]


def test_what_a_victim_holds_besides_stays_out_of_the_question() -> None:
    queue = make_queue(
        "cq",
        group(flavor_quotas("default", cpu=4, memory=4)),
        preemption=make_preemption(own=LOWER),
    )
    world = Holdings(queue)
    world.hold("a", "cq", cpu=2, memory=2)
    world.hold("b", "cq", cpu=2, memory=2)
    before = world.usage()

    assert world.names(world.request("cq", priority=9, cpu=1)) == ["a"]
    assert world.usage() == before


def test_only_users_of_what_is_contested_leave_but_everything_asked_for_has_to_fit() -> None:
    queue = make_queue(
        "cq",
        group(flavor_quotas("default", cpu=4, memory=4)),
        preemption=make_preemption(own=LOWER),
    )
    world = Holdings(queue)
    world.hold("cpu", "cq", cpu=4)
    world.hold("memory", "cq", memory=4)

    request = world.request("cq", priority=9, cpu=1, memory=1, contested=["cpu"])
    assert world.names(request) == []
    world.release("memory")
    assert world.names(request) == ["cpu"]


# ------------------------------------------------------------------ one cohort


def test_what_was_lent_is_taken_back_until_nobody_borrows() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", reclaim=ANY),
        make_cpu_queue("b", 4, cohort="co"),
        make_cpu_queue("c", 4, cohort="co"),
    )
    for name in ("b1", "b2", "b3"):
        world.hold(name, "b", priority=9, cpu=2)
    for name in ("c1", "c2"):
        world.hold(name, "c", priority=9, cpu=3)

    # After b1 has left, b is within its quota and keeps the rest.
    request = world.request("a", cpu=4)
    assert world.targets(request) == [("b1", RECLAIM), ("c1", RECLAIM)]


def test_a_queue_that_may_not_reclaim_takes_nothing_back() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER), make_cpu_queue("b", 4, cohort="co")
    )
    world.hold("borrower", "b", cpu=8)

    assert world.targets(world.request("a", priority=9, cpu=4)) == []


@pytest.mark.parametrize(
    ("priority", "want"),
    [
        pytest.param(5, [], id="an equal priority keeps what it borrowed"),
        pytest.param(6, [("borrower", RECLAIM)], id="a lower one does not"),
    ],
)
def test_the_reclaim_policy_compares_priorities(
    priority: int, want: list[tuple[str, Reason]]
) -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", reclaim=LOWER), make_cpu_queue("b", 4, cohort="co")
    )
    world.hold("borrower", "b", priority=5, cpu=8)

    assert world.targets(world.request("a", priority=priority, cpu=4)) == want


def test_other_queues_give_back_before_own_workloads_leave() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 4, cohort="co"),
    )
    world.hold("own", "a", priority=0, cpu=2)
    world.hold("borrower", "b", priority=9, cpu=6)

    assert world.targets(world.request("a", priority=1, cpu=2)) == [("borrower", RECLAIM)]


def test_whoever_leaves_anyway_is_taken_first_from_any_queue() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 4, cohort="co"),
    )
    world.hold("own", "a", priority=0, cpu=2, is_evicted=True)
    world.hold("borrower", "b", priority=9, cpu=6)

    assert world.targets(world.request("a", priority=1, cpu=2)) == [("own", OWN)]


def test_workloads_of_an_inactive_queue_are_left_alone() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", reclaim=ANY), make_cpu_queue("b", 4, cohort="co")
    )
    world.hold("borrower", "b", cpu=8)
    stopped = replace(world.queue("b").spec, stop_policy=StopPolicy.HOLD)
    world.cache.upsert_cluster_queue(stopped)

    assert world.targets(world.request("a", cpu=4)) == []


def test_nobody_is_preempted_twice_in_a_cycle() -> None:
    world = Holdings(make_cpu_queue("cq", 4, own=LOWER))
    world.hold("gone", "cq", cpu=2)
    world.hold("other", "cq", priority=1, cpu=2)

    assert world.names(world.request("cq", priority=9, cpu=2), "gone") == ["other"]


# ------------------------------------------------------------------ with and without borrowing


def borrower_world(**fields: object) -> Holdings:
    """Queue a may use more than its 4 cpu; b has lent everything it has, and borrows 2."""
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", reclaim=ANY, **fields),
        make_cpu_queue("b", 4, cohort="co"),
        make_cpu_queue("c", 4, cohort="co"),
    )
    world.hold("low", "b", priority=0, cpu=4)
    world.hold("high", "b", priority=7, cpu=4)
    return world


def test_a_queue_borrows_at_no_cost_of_others_by_default() -> None:
    assert borrower_world().targets(borrower_world().request("a", priority=9, cpu=6)) == []


def test_borrow_within_cohort_takes_from_lower_priorities_even_to_borrow() -> None:
    world = borrower_world(while_borrowing=LOWER)

    assert world.targets(world.request("a", priority=9, cpu=6)) == [("low", BORROWING)]
    assert world.targets(world.request("a", priority=0, cpu=6)) == []


@pytest.mark.parametrize(
    ("threshold", "want"),
    [
        pytest.param(0, [("low", BORROWING)], id="the threshold itself may be taken from"),
        pytest.param(-1, [], id="who is above it keeps what it has"),
    ],
)
def test_the_threshold_bounds_whom_a_borrower_takes_from(
    threshold: int, want: list[tuple[str, Reason]]
) -> None:
    world = borrower_world(while_borrowing=LOWER, threshold=threshold)

    assert world.targets(world.request("a", priority=9, cpu=6)) == want


def test_within_its_own_quota_a_queue_takes_back_from_any_priority() -> None:
    world = borrower_world(while_borrowing=LOWER, threshold=-1)
    world.hold("filler", "c", cpu=4)

    assert world.targets(world.request("a", cpu=4)) == [("low", RECLAIM)]


def test_a_queue_under_its_quota_first_tries_to_end_within_it() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 4, cohort="co"),
    )
    world.hold("own", "a", cpu=3)
    world.hold("borrower", "b", priority=9, cpu=5)

    # With 3 of its 4 in use, 4 more only fit without borrowing when its own workload left too.
    request = world.request("a", priority=5, cpu=4)
    assert world.targets(request) == [("borrower", RECLAIM), ("own", OWN)]


def test_a_queue_that_uses_its_quota_up_takes_from_itself_only() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 5, cohort="co"),
    )
    world.hold("own", "a", cpu=4)
    world.hold("borrower", "b", priority=9, cpu=5)
    world.hold("zero", "b", priority=9, cpu=0)

    assert world.targets(world.request("a", priority=5, cpu=4)) == [("own", OWN)]


def test_borrowing_is_tried_first_where_it_may_preempt_and_else_not_at_all() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER, reclaim=ANY, while_borrowing=LOWER),
        make_cpu_queue("b", 4, cohort="co"),
    )
    world.hold("own", "a", cpu=3)
    world.hold("equal", "b", priority=5, cpu=5)

    # Borrowing, "equal" is above the preemptor and 3 cpu of "own" are too few; within the quota
    # both may leave.
    request = world.request("a", priority=5, cpu=4)
    assert world.targets(request) == [("equal", RECLAIM), ("own", OWN)]
    assert world.targets(world.request("a", priority=6, cpu=4)) == [("equal", BORROWING)]


# ------------------------------------------------------------------ pods, and errors


def placeable(request: PreemptionRequest, *, below: int) -> PreemptionRequest:
    """The request, for pods that find a place only while the queue uses less than so much cpu."""
    node = request.queue.node
    (slot,) = request.usage
    return PreemptionRequest(
        tree=request.tree,
        queue=request.queue,
        workload=request.workload,
        usage=request.usage,
        contested=request.contested,
        is_placeable=lambda: node.usage[slot] < below,
    )


def test_pods_have_to_find_a_place_too() -> None:
    world = Holdings(make_cpu_queue("cq", 4, own=LOWER))
    for name in ("a", "b", "c", "d"):
        world.hold(name, "cq", cpu=1)
    request = world.request("cq", priority=9, cpu=1)

    assert world.names(request) == ["a"]
    assert world.names(placeable(request, below=2000)) == ["a", "b", "c"]
    assert world.names(placeable(request, below=0)) == []


def test_an_error_leaves_the_usage_as_it_was() -> None:
    world = Holdings(make_cpu_queue("cq", 4, own=LOWER))
    world.hold("a", "cq", cpu=4)
    before = world.usage()
    request = world.request("cq", priority=9, cpu=1)

    def fail() -> bool:
        raise ValueError

    failing = PreemptionRequest(
        tree=request.tree,
        queue=request.queue,
        workload=request.workload,
        usage=request.usage,
        contested=request.contested,
        is_placeable=fail,
    )
    with pytest.raises(ValueError):
        world.find(failing)

    assert world.usage() == before


def test_own_workloads_leave_so_that_those_who_borrow_may_be_taken_too() -> None:
    """Only an attempt without borrowing may take from the other queue, and it needs both."""
    world = Holdings(
        make_cpu_queue("a", 6, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 4, cohort="co"),
    )
    world.hold("own", "a", cpu=3)
    world.hold("kept", "b", priority=1, cpu=4)
    world.hold("borrower", "b", cpu=3)

    assert sorted(world.names(world.request("a", priority=5, cpu=5))) == ["borrower", "own"]
    assert world.names(world.request("a", priority=5, cpu=7)) == []


# ------------------------------------------------------------------ attempts, one by one


def test_a_borrower_spares_whom_it_does_not_need() -> None:
    world = Holdings(
        make_cpu_queue("a", 2, cohort="co", reclaim=ANY, while_borrowing=LOWER),
        make_cpu_queue("b", 8, cohort="co"),
    )
    world.hold("small", "b", priority=0, cpu=1)
    world.hold("large", "b", priority=1, cpu=9)

    assert world.targets(world.request("a", priority=9, cpu=3)) == [("large", BORROWING)]


def test_with_own_candidates_only_a_queue_may_end_beyond_its_quota() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER), make_cpu_queue("b", 4, cohort="co")
    )
    world.hold("first", "a", priority=0, cpu=1)
    world.hold("second", "a", priority=1, cpu=2)
    world.hold("other", "b", cpu=3)

    # 2 of 8 are free: one more lets 3 in, but only without "second" is that within the quota.
    assert world.targets(world.request("a", priority=9, cpu=3)) == [("first", OWN)]


def test_a_queue_that_uses_just_its_quota_looks_for_room_beyond_it() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 4, cohort="co"),
        make_cpu_queue("c", 2, cohort="co"),
    )
    world.hold("first", "a", priority=0, cpu=1)
    world.hold("second", "a", priority=1, cpu=3)
    world.hold("borrower", "b", priority=9, cpu=5)

    assert world.targets(world.request("a", priority=9, cpu=2)) == [("first", OWN)]


def test_a_queue_under_its_quota_rather_ends_within_it_than_takes_more_from_itself() -> None:
    world = Holdings(
        make_cpu_queue("a", 4, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 4, cohort="co"),
    )
    world.hold("first", "a", priority=0, cpu=1)
    world.hold("second", "a", priority=1, cpu=2)
    world.hold("borrower", "b", priority=9, cpu=5)

    request = world.request("a", priority=9, cpu=2)
    assert world.targets(request) == [("borrower", RECLAIM), ("first", OWN)]


def two_resources(memory: int, held: int) -> Holdings:
    """Queue a under its quota of cpu, which b has borrowed the rest of; memory is free."""
    queue = make_queue(
        "a",
        group(flavor_quotas("default", cpu=4, memory=memory)),
        cohort="co",
        preemption=make_preemption(own=LOWER, reclaim=ANY),
    )
    lender = make_queue("b", group(flavor_quotas("default", cpu=4, memory=4)), cohort="co")
    world = Holdings(queue, lender)
    world.hold("own", "a", cpu=3, memory=held)
    world.hold("borrower", "b", priority=9, cpu=5)
    return world


def test_a_request_that_borrows_something_else_is_tried_with_borrowing_too() -> None:
    world = two_resources(memory=1, held=0)

    request = world.request("a", priority=9, cpu=2, memory=2, contested=["cpu"])
    assert world.targets(request) == [("own", OWN)]


def test_what_victims_give_back_besides_counts_for_the_quota() -> None:
    world = two_resources(memory=2, held=2)

    request = world.request("a", priority=9, cpu=4, memory=2, contested=["cpu"])
    assert world.targets(request) == [("borrower", RECLAIM), ("own", OWN)]


# ------------------------------------------------------------------ past usage


def test_who_used_more_in_the_past_leaves_first_within_its_queue() -> None:
    """Before priority; equal usage and usage that does not count leave the order as it is."""
    world = Holdings(make_cpu_queue("cq", 4, own=LOWER))
    used = {"team/little": 1.0, "team/much": 2.0}
    world.past_usage = lambda _, key: used.get(key)
    world.hold("light", "cq", local_queue="little", priority=0, cpu=1)
    world.hold("heavy", "cq", local_queue="much", priority=2, cpu=1)
    world.hold("lighter", "cq", local_queue="little", priority=1, cpu=2)

    assert world.names(world.request("cq", priority=9, cpu=1)) == ["heavy"]
    for little in (2.0, 3.0):
        used["team/little"] = little
        assert world.names(world.request("cq", priority=9, cpu=1)) == ["light"]
