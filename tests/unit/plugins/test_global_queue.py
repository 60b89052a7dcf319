"""Who waits in the global queue, who makes way for whom, and for whom room is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from multiqueue.model.turn import LONGEST
from multiqueue.plugins import (
    ClusterClaim,
    ClusterView,
    CopyState,
    DispatchView,
    Forecast,
    Nomination,
    Prospect,
    Round,
    Runtime,
    StartEstimate,
    Tier,
    bind,
    find_turn,
    survey,
)
from multiqueue.plugins.options import LINE_AGAIN
from multiqueue.plugins.testing import (
    T0,
    make_cluster,
    make_queue,
    make_unknown_cluster,
    make_view,
    make_workload,
)

HOUR = timedelta(hours=1)
SUBMITTED = make_workload().created_at
GANG = ClusterClaim(
    key="team-b/gang", queue=make_queue().name, turn=SUBMITTED - HOUR, start=T0 + HOUR
)


def takes(hours: float, *, gpus: int = 2, priority: int = 0):
    """Return a Workload that has always taken so long."""
    time = HOUR * hours
    workload = make_workload(gpus=gpus, priority=priority)
    return replace(workload, runtime=Runtime(expected=time, low=time, high=time))


def waits(name: str, *, hours: float, ahead: int = 0) -> ClusterView:
    at = T0 + HOUR * hours
    start = StartEstimate(at=at, earliest=at, latest=at, ahead=ahead)
    forecast = Forecast(prospect=Prospect.WAITS, reason="waits", start=start)
    return replace(make_cluster(name, used=8), forecast=forecast)


def ask(*clusters: ClusterView, **fields) -> Nomination:
    return answer(make_view(clusters=clusters, **fields))


def answer(view: DispatchView) -> Nomination:
    return bind(survey(view, turn=view.workload.created_at), lambda option: option.name)


class TestTurns:
    def test_others_may_pass_for_a_part_of_what_a_job_takes_on_all_its_devices(self):
        assert find_turn(takes(1, gpus=8), percent=10) == SUBMITTED + timedelta(minutes=48)
        assert find_turn(takes(1, gpus=1), percent=10) == SUBMITTED + timedelta(minutes=6)
        assert find_turn(takes(1, gpus=8), percent=0) == SUBMITTED

    def test_an_unknown_job_does_not_pass_one_that_is_known_to_be_short(self):
        known, unknown = takes(1, gpus=2), takes(0.5, gpus=2)
        wide = replace(unknown.runtime, high=24 * HOUR)
        unknown = replace(unknown, runtime=wide, created_at=SUBMITTED + HOUR)
        assert find_turn(known, percent=100) < find_turn(unknown, percent=100)

    def test_nobody_is_passed_for_ever(self):
        assert find_turn(takes(10**6, gpus=512), percent=100) == SUBMITTED + LONGEST


class TestWaiting:
    def test_who_finds_room_does_not_stand_in_line(self):
        got = ask(make_cluster("a"), waits("b", hours=1))
        assert (got.clusters, got.global_queue) == (("a",), None)

    def test_who_finds_none_has_no_copy_and_keeps_room_where_it_starts_first(self):
        got = ask(waits("a", hours=2), waits("b", hours=1))
        assert got.clusters == ()
        assert got.global_queue is not None
        assert (got.global_queue.turn, got.global_queue.claim) == (SUBMITTED, "b")
        assert got.ask_again_at == T0 + LINE_AGAIN

    def test_a_claim_moves_only_where_the_wait_is_half_as_long(self):
        view = replace(make_view(clusters=[waits("a", hours=2), waits("b", hours=1.1)]), claim="a")
        assert answer(view).global_queue.claim == "a"
        sooner = replace(view, clusters=(waits("a", hours=2), waits("b", hours=0.9)))
        assert answer(sooner).global_queue.claim == "b"

    def test_what_somebody_before_it_claimed_is_not_claimed_again(self):
        taken = replace(waits("a", hours=1), claims=(GANG,))
        assert ask(taken, waits("b", hours=2)).global_queue.claim == "b"
        assert ask(taken).global_queue.claim == ""
        later = replace(taken, claims=(replace(GANG, turn=SUBMITTED + HOUR),))
        assert ask(later, waits("b", hours=2)).global_queue.claim == "a"

    def test_room_is_kept_once_a_workload_has_waited_or_somebody_leaves_for_it(self):
        waiting = replace(GANG, created_at=T0 - HOUR)
        cluster = replace(make_cluster("a"), claims=(waiting,))
        view = make_view(clusters=[cluster], workload=takes(2))

        def tier(view: DispatchView, after: timedelta) -> Tier:
            turn = view.workload.created_at
            return survey(view, turn=turn, claim_after=after).options[0].tier

        assert tier(view, HOUR) is Tier.WAIT
        assert tier(view, HOUR + timedelta(seconds=1)) is Tier.FIT
        promised = replace(cluster, claims=(replace(waiting, created_at=None),))
        assert tier(replace(view, clusters=(promised,)), 10 * HOUR) is Tier.WAIT

    def test_a_young_workload_is_behind_all_claims_and_an_old_one_behind_those_that_bind(self):
        young = replace(GANG, created_at=T0 - HOUR)
        taken = replace(waits("a", hours=1), claims=(young,))

        def claim(created_at: datetime) -> str:
            workload = replace(takes(2), created_at=created_at)
            view = make_view(clusters=[taken], workload=workload)
            found = survey(view, turn=SUBMITTED, claim_after=2 * HOUR)
            return bind(found, lambda option: option.name).global_queue.claim

        assert claim(T0 - HOUR) == "", (
            "the earlier claim does not bind yet, and counts all the same"
        )
        assert claim(T0 - 3 * HOUR) == "a"

    def test_nothing_is_kept_where_it_did_not_start_lately(self):
        tried = [
            Round(at=T0 - timedelta(minutes=2), clusters=("a",)),
            Round(at=T0 - timedelta(minutes=1), clusters=()),
        ]
        now = StartEstimate(at=T0, earliest=T0, latest=T0)
        fits = Forecast(prospect=Prospect.FITS, reason="fits", start=now)
        here = replace(make_cluster("a"), forecast=fits)
        got = ask(here, waits("b", hours=1), history=tried)
        assert (got.clusters, got.global_queue.claim) == ((), "b")

    @pytest.mark.parametrize("strangers", ["in its queue", "in others"])
    def test_where_others_wait_too_only_a_copy_has_a_place(self, strangers: str):
        cluster = waits("a", hours=1, ahead=2 if strangers == "in others" else 0)
        if strangers == "in its queue":
            cluster = replace(cluster, queue=replace(make_queue(used=8), pending=2))
        assert ask(cluster).clusters == ("a",)
        ours = replace(cluster, waiting=2)
        assert ask(ours).clusters == (), "they are ours, and will come up as we say"

    def test_one_that_is_about_to_start_is_left_where_it_is(self):
        held = replace(waits("a", hours=1), copy=CopyState.RESERVED)
        assert ask(held, nominated=["a"]).clusters == ("a",)

    def test_an_unknown_cluster_is_tried_before_waiting(self):
        assert ask(waits("a", hours=1), make_unknown_cluster("b")).clusters == ("b",)

    def test_a_dispatcher_that_says_nothing_of_turns_waits_on_a_cluster(self):
        view = make_view(clusters=[waits("a", hours=2)])
        assert bind(survey(view), lambda option: option.name).clusters == ("a",)


class TestMakingWay:
    def tier_of(self, workload, claim: ClusterClaim, **fields) -> Tier:
        cluster = replace(make_cluster("a"), claims=(claim,), **fields)
        (option,) = survey(make_view(clusters=[cluster], workload=workload)).options
        return option.tier

    def test_what_would_be_in_the_way_waits_and_says_for_whom(self):
        cluster = replace(make_cluster("a"), claims=(GANG,))
        got = ask(cluster, workload=takes(2))
        assert got.clusters == ()
        words = "room is kept for a Workload of another namespace, which comes first"
        assert got.verdicts[0].reason == words
        own = replace(cluster, claims=(replace(GANG, key="team-a/gang"),))
        reason = ask(own, workload=takes(2)).verdicts[0].reason
        assert reason == 'room is kept for Workload "team-a/gang", which comes first'

    def test_what_is_over_by_then_goes_first(self):
        assert self.tier_of(takes(0.9), GANG) is Tier.FIT
        assert self.tier_of(takes(1.1), GANG) is Tier.WAIT

    def test_what_may_take_longer_than_expected_is_not_trusted(self):
        unsure = replace(
            takes(0.9), runtime=Runtime(expected=HOUR / 2, low=HOUR / 9, high=2 * HOUR)
        )
        assert self.tier_of(unsure, GANG) is Tier.WAIT

    def test_what_fits_beside_it_goes_first(self):
        assert self.tier_of(takes(9, gpus=2), replace(GANG, spare=2)) is Tier.FIT
        assert self.tier_of(takes(9, gpus=3), replace(GANG, spare=2)) is Tier.WAIT

    def test_who_comes_first_does_not_make_way(self):
        assert self.tier_of(takes(9), replace(GANG, turn=SUBMITTED + HOUR)) is Tier.FIT
        assert self.tier_of(takes(9, priority=1), GANG) is Tier.FIT
        assert self.tier_of(takes(9), replace(GANG, turn=SUBMITTED + HOUR, priority=1)) is Tier.WAIT

    def test_who_is_within_its_own_quota_does_not_make_way_for_a_borrower_of_another_queue(self):
        borrower = replace(GANG, queue="theirs", yields=True)
        assert self.tier_of(takes(9), borrower) is Tier.FIT
        assert self.tier_of(takes(9), replace(borrower, priority=1)) is Tier.WAIT
        assert self.tier_of(takes(9), replace(borrower, yields=False)) is Tier.WAIT
        assert self.tier_of(takes(9), replace(GANG, yields=True)) is Tier.WAIT, "its own queue"

    def test_a_borrower_makes_way_for_who_is_within_its_own_quota(self):
        later = replace(GANG, queue="theirs", turn=SUBMITTED + HOUR)
        lent = make_queue()
        ((pair, quota),) = lent.quotas.items()
        lent = replace(lent, quotas={pair: replace(quota, used=7, available=9, most=16)})
        assert self.tier_of(takes(9), later, queue=lent) is Tier.WAIT
        assert self.tier_of(takes(9), replace(later, yields=True), queue=lent) is Tier.BORROW
        larger_than_its_quota = takes(9, gpus=9)
        assert self.tier_of(larger_than_its_quota, later, queue=lent) is not Tier.WAIT
        long_ago = replace(takes(9), created_at=T0 - timedelta(days=1))
        assert self.tier_of(long_ago, later, queue=lent) is not Tier.WAIT

    def test_nobody_gives_back_what_is_offered_already(self):
        assert self.tier_of(takes(9), GANG, copy=CopyState.PENDING) is Tier.FIT

    def test_where_no_start_is_known_only_what_is_beside_it_is_free(self):
        unknown = replace(GANG, start=None)
        assert self.tier_of(takes(0.1), unknown) is Tier.WAIT
        assert self.tier_of(takes(0.1), replace(unknown, spare=2)) is Tier.FIT
