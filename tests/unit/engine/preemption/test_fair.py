"""Whom a search with fair sharing preempts (E-96 to E-101)."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from multiqueue.api.conditions import Reason
from multiqueue.engine.options import EngineOptions, FairSharing, FairStrategy
from multiqueue.engine.pending_reasons import ShareLoss
from multiqueue.engine.preemption.fair import find_share_loss
from multiqueue.engine.preemption.room import fits
from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.lib.quantity import parse_quantity
from multiqueue.model.cluster_queue import ClusterQueue, Cohort, PreemptionPolicy
from tests.builders.engine import T0, seconds
from tests.preemption_world import ANY, LOWER, NEVER, Holdings, make_cpu_queue

OWN = Reason.IN_CLUSTER_QUEUE
RECLAIM = Reason.IN_COHORT_RECLAMATION
FAIR = Reason.IN_COHORT_FAIR_SHARING
FINAL, INITIAL = (
    FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,
    FairStrategy.LESS_THAN_INITIAL_SHARE,
)


def fair(*queues: ClusterQueue, cohorts: tuple[Cohort, ...] = (), **options: object) -> Holdings:
    sharing = FairSharing(**options)
    return Holdings(*queues, cohorts=cohorts, options=EngineOptions(fair_sharing=sharing))


def member(name: str, cpu: int, *, weight: str = "1", **fields: object) -> ClusterQueue:
    fields = {"cohort": "team", "reclaim": ANY, **fields}
    return replace(make_cpu_queue(name, cpu, **fields), weight=parse_quantity(weight))


def fill(world: Holdings, queue: str, count: int, cpu: int = 1) -> None:
    for i in range(count):
        world.hold(f"{queue}{i}", queue, reserved_at=T0 + seconds(i), cpu=cpu)


# ------------------------------------------------------------------ whose share is large enough


def test_who_has_more_than_the_preemptor_will_have_gives_up_to_equality() -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 6))
    fill(world, "a", 6)

    # After three have left, both have 3 of 6.
    assert world.targets(world.request("b", cpu=3)) == [("a5", FAIR), ("a4", FAIR), ("a3", FAIR)]
    assert world.targets(world.request("b", cpu=4)) == []


def test_equal_shares_are_left_alone() -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 6))
    fill(world, "a", 3)
    fill(world, "b", 3)

    assert world.targets(world.request("b", cpu=1)) == []


def test_weights_move_the_balance() -> None:
    world = fair(member("a", 0), member("b", 0, weight="2"), member("c", 6))
    fill(world, "a", 6)

    assert len(world.targets(world.request("b", cpu=4))) == 4
    assert world.targets(world.request("b", cpu=5)) == []


def test_weight_zero_gives_to_everybody_and_takes_from_nobody() -> None:
    world = fair(member("a", 0, weight="0"), member("b", 0), member("c", 6))
    fill(world, "a", 6)

    assert len(world.targets(world.request("b", cpu=6))) == 6

    other = fair(member("a", 0), member("b", 0, weight="0"), member("c", 6))
    fill(other, "a", 6)
    assert other.targets(other.request("b", cpu=1)) == []


def test_the_largest_share_gives_first() -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 0), member("lender", 9))
    fill(world, "a", 5)
    fill(world, "b", 4)

    assert world.names(world.request("c", cpu=1)) == ["a4"]
    assert sorted(world.names(world.request("c", cpu=2))) == ["a3", "a4"]
    assert sorted(world.names(world.request("c", cpu=3))) == ["a3", "a4", "b3"]


def test_of_equal_shares_the_first_candidate_decides() -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 0), member("lender", 6))
    fill(world, "a", 3)
    for i, priority in enumerate([-1, 0, 0]):
        world.hold(f"b{i}", "b", priority=priority, cpu=1)

    assert world.names(world.request("c", cpu=1)) == ["b0"]


# ------------------------------------------------------------------ strategies


@pytest.mark.parametrize(
    ("strategies", "names"),
    [
        pytest.param((FINAL,), [], id="its share would end below that of the preemptor"),
        pytest.param((INITIAL,), ["big"], id="its share is larger now"),
        pytest.param((FINAL, INITIAL), ["big"], id="the second strategy takes what the first left"),
    ],
)
def test_one_large_workload(strategies: tuple[FairStrategy, ...], names: list[str]) -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 6), strategies=strategies)
    world.hold("big", "a", cpu=6)

    assert world.names(world.request("b", cpu=4)) == names


def test_the_second_strategy_needs_a_share_that_is_really_larger() -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 6))
    world.hold("big", "a", cpu=6)

    assert world.targets(world.request("b", cpu=5)) == [("big", FAIR)]
    assert world.names(world.request("b", cpu=6)) == []


def test_final_shares_may_be_equal_and_initial_ones_may_not() -> None:
    final = fair(member("a", 0), member("b", 0), member("c", 6), strategies=(FINAL,))
    fill(final, "a", 6)
    assert len(final.targets(final.request("b", cpu=3))) == 3

    initial = fair(member("a", 0), member("b", 0), member("c", 6), strategies=(INITIAL,))
    fill(initial, "a", 3)
    fill(initial, "b", 2)
    fill(initial, "c", 1)
    assert initial.targets(initial.request("b", cpu=1)) == []


# ------------------------------------------------------------------ own queue and own quota


def test_the_own_queue_gives_by_priority_alone() -> None:
    world = fair(member("a", 0), member("b", 0, own=LOWER), member("c", 6))
    fill(world, "a", 3)
    fill(world, "b", 3)

    assert world.targets(world.request("b", priority=1, cpu=1)) == [("b2", OWN)]


def test_own_quota_is_taken_back_whatever_the_shares() -> None:
    world = fair(member("a", 4), member("b", 2), member("c", 4))
    world.hold("big", "a", cpu=10)

    assert world.targets(world.request("b", cpu=2)) == [("big", RECLAIM)]


def test_own_quota_is_compared_too_without_the_gate() -> None:
    world = fair(member("a", 4), member("b", 2), member("c", 4), preempt_within_nominal=False)
    world.hold("big", "a", cpu=10)

    assert world.targets(world.request("b", cpu=2)) == [("big", FAIR)]


def test_who_does_not_borrow_is_no_candidate() -> None:
    world = fair(member("a", 4), member("b", 0), member("c", 0))
    fill(world, "a", 4)

    assert world.targets(world.request("b", cpu=1)) == []


@pytest.mark.parametrize(
    ("reclaim", "priority", "found"), [(NEVER, 9, 0), (LOWER, 0, 0), (LOWER, 1, 1), (ANY, -1, 1)]
)
def test_the_policy_limits_whom_to_reclaim_from(reclaim: object, priority: int, found: int) -> None:
    world = fair(member("a", 0), member("b", 0, reclaim=reclaim), member("c", 6))
    fill(world, "a", 6)

    assert len(world.targets(world.request("b", priority=priority, cpu=1))) == found


def test_a_queue_on_its_own_preempts_as_ever() -> None:
    world = fair(member("a", 3, cohort="", own=LOWER))
    fill(world, "a", 3)

    assert world.targets(world.request("a", priority=1, cpu=1)) == [("a2", OWN)]


@pytest.mark.parametrize(
    ("policy", "want"), [pytest.param(LOWER, ["own1", "own0"]), pytest.param(NEVER, [])]
)
def test_a_queue_within_its_quota_takes_from_itself_if_its_policy_says_so(
    policy: PreemptionPolicy, want: list[str]
) -> None:
    world = fair(member("own", 4, own=policy, reclaim=NEVER), member("b", 0))
    fill(world, "own", 2)
    fill(world, "b", 2)

    assert world.names(world.request("own", priority=1, cpu=2)) == want


def test_an_endless_share_gives_before_the_largest() -> None:
    world = fair(member("a", 0), member("b", 0, weight="0"), member("c", 0), member("lender", 6))
    fill(world, "a", 4)
    fill(world, "b", 2)

    assert world.names(world.request("c", cpu=1)) == ["b1"]


def test_nobody_is_preempted_twice_in_a_cycle() -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 6))
    fill(world, "a", 6)

    assert world.names(world.request("b", cpu=1), "a5") == ["a4"]


def test_who_used_more_in_the_past_leaves_first_within_its_queue() -> None:
    world = fair(member("a", 0), member("b", 0), member("c", 6))
    used = {"team/little": 1.0, "team/much": 2.0}
    world.past_usage = lambda _, key: used.get(key)
    world.hold("light", "a", local_queue="little", priority=0, cpu=3)
    world.hold("heavy", "a", local_queue="much", priority=1, cpu=3)

    assert world.names(world.request("b", cpu=1)) == ["heavy"]
    world.past_usage = None
    assert world.names(world.request("b", cpu=1)) == ["light"]


# ------------------------------------------------------------------ hierarchies


def deep(**options: object) -> Holdings:
    """Two departments with two queues each; all quota belongs to the root."""
    cohorts = (
        Cohort(name="root"),
        Cohort(name="left", parent="root"),
        Cohort(name="right", parent="root"),
    )
    return fair(
        member("a", 0, cohort="left"),
        member("b", 0, cohort="left"),
        member("c", 0, cohort="right"),
        member("d", 0, cohort="right"),
        member("lender", 8, cohort="root"),
        cohorts=cohorts,
        **options,
    )


def test_departments_are_compared_before_their_queues() -> None:
    world = deep()
    fill(world, "a", 4)
    fill(world, "b", 2)
    fill(world, "c", 2)

    # left has 6 of 8 and right 2; c may grow to 3 at the expense of a, the largest in left.
    assert world.targets(world.request("c", cpu=1)) == [("a3", FAIR)]
    # d has nothing at all, and inside right c gives nothing that left could not give.
    assert world.names(world.request("d", cpu=2)) == ["a3", "a2"]


def test_inside_a_department_only_its_own_queues_are_compared() -> None:
    world = deep()
    fill(world, "a", 4)
    fill(world, "c", 4)

    # left would have 5 and right 3: only a may give.
    assert world.names(world.request("b", cpu=1)) == ["a3"]


def mixed(**options: object) -> Holdings:
    """A queue beside a department, and one that waits; all quota belongs to the root."""
    return fair(
        member("a", 0, cohort="left"),
        member("beside", 0, cohort="root"),
        member("b", 0, cohort="root"),
        member("lender", 8, cohort="root"),
        cohorts=(Cohort(name="root"), Cohort(name="left", parent="root")),
        **options,
    )


@pytest.mark.parametrize(
    ("inside", "beside", "want"),
    [
        pytest.param(5, 3, "a4", id="the department has more"),
        pytest.param(3, 5, "beside4", id="the queue has more"),
        pytest.param(4, 4, "a3", id="of equal shares the department is first"),
    ],
)
def test_a_queue_is_compared_with_a_department(inside: int, beside: int, want: str) -> None:
    world = mixed()
    fill(world, "a", inside)
    fill(world, "beside", beside)

    assert world.targets(world.request("b", cpu=1)) == [(want, FAIR)]


def test_departments_that_borrow_nothing_are_passed_over_and_the_first_of_equals_gives() -> None:
    cohorts = (Cohort(name="root"), *(Cohort(name=name, parent="root") for name in "pqr"))
    world = fair(
        member("shielded", 0, cohort="p"),
        member("quota", 3, cohort="p"),
        member("a", 0, cohort="q"),
        member("b", 0, cohort="r"),
        member("waits", 0, cohort="root"),
        member("lender", 6, cohort="root"),
        cohorts=cohorts,
    )
    fill(world, "shielded", 3)
    fill(world, "a", 3)
    fill(world, "b", 3)

    assert world.names(world.request("waits", cpu=2)) == ["a2", "b2"]


# ------------------------------------------------------------------ what keeps a request waiting


def test_the_shares_told_are_those_of_others_even_if_own_workloads_could_leave() -> None:
    world = fair(member("a", 0), member("b", 0, own=LOWER), member("c", 6))
    fill(world, "a", 2)
    world.hold("own", "b", cpu=4)
    request = world.request("b", priority=1, cpu=1)

    assert find_share_loss(request, world.context()) == ShareLoss("b", 834, "a", 334)


def test_no_shares_are_told_where_a_department_shields_who_borrows() -> None:
    cohorts = (Cohort(name="root"), Cohort(name="right", parent="root"))
    world = fair(
        member("a", 0, cohort="root"),
        member("c", 0, cohort="right"),
        member("d", 4, cohort="right"),
        cohorts=cohorts,
    )
    fill(world, "c", 4)

    assert find_share_loss(world.request("a", cpu=1), world.context()) is None


# ------------------------------------------------------------------ properties


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[tuple[str, str, int, int]], int, int, str]:
    holders = draw(
        st.lists(
            st.tuples(
                st.sampled_from("abcd"), st.integers(1, 4), st.integers(0, 2), st.integers(0, 3)
            ),
            max_size=8,
        )
    )
    named = [(f"w{i}", queue, cpu, priority) for i, (queue, cpu, priority, _) in enumerate(holders)]
    return (
        named,
        draw(st.integers(1, 8)),
        draw(st.integers(0, 2)),
        draw(st.sampled_from("abcd")),
    )


def build(holders: list[tuple[str, str, int, int]]) -> Holdings:
    world = deep()
    for name, queue, cpu, priority in holders:
        world.hold(name, queue, cpu=cpu, priority=priority)
    return world


def request_of(world: Holdings, cpu: int, priority: int, queue: str) -> PreemptionRequest:
    return world.request(queue, cpu=cpu, priority=priority)


@given(worlds())
def test_targets_make_room_and_the_search_leaves_no_trace(
    drawn: tuple[list[tuple[str, str, int, int]], int, int, str],
) -> None:
    holders, cpu, priority, queue = drawn
    world = build(holders)
    request = request_of(world, cpu, priority, queue)
    assume(not fits(request, may_borrow=True))
    before = world.usage()
    found = world.find(request)

    assert world.usage() == before
    if found:
        with without(request.tree, (target.entry for target in found)):
            assert fits(request, may_borrow=True)
        for spared in found:
            others = [target.entry for target in found if target is not spared]
            with without(request.tree, others):
                assert not fits(request, may_borrow=True)


@given(worlds())
def test_the_order_in_which_holders_came_does_not_matter(
    drawn: tuple[list[tuple[str, str, int, int]], int, int, str],
) -> None:
    holders, cpu, priority, queue = drawn
    one, other = build(holders), build(holders[::-1])

    assert one.targets(request_of(one, cpu, priority, queue)) == other.targets(
        request_of(other, cpu, priority, queue)
    )
