"""How a dispatcher that binds to one cluster chooses, stays, gives up and races."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from multiqueue.plugins import CopyState, Forecast, Prospect, Round, Tier, bind, survey
from multiqueue.plugins.options import LOOK_AGAIN, PATIENCE, STOP_TIME
from multiqueue.plugins.testing import T0, make_cluster, make_lost_cluster, make_queue, make_view

BEST_FIRST = (
    Prospect.FITS,
    Prospect.BORROWS,
    Prospect.PREEMPTS,
    Prospect.UNKNOWN,
    Prospect.WAITS,
)


def foreseen(name: str, prospect: Prospect, **fields) -> object:
    return replace(make_cluster(name), forecast=Forecast(prospect=prospect), **fields)


def choose(*clusters, race: int = 1, **fields):
    found = survey(make_view(clusters=clusters, **fields))
    return bind(found, lambda option: option.cluster.running, race=race)


def held(name: str, since: timedelta) -> dict[str, object]:
    return {"nominated": [name], "history": [Round(at=T0 - since, clusters=(name,))]}


def test_each_tier_is_tried_on_all_clusters_before_the_next():
    for better, worse in pairwise(BEST_FIRST):
        got = choose(foreseen("b", better, running=9), foreseen("a", worse))
        assert got.clusters == ("b",), (better, worse)


def test_within_a_tier_the_preference_decides_then_the_name():
    first, second = foreseen("b", Prospect.FITS), foreseen("a", Prospect.FITS, running=1)
    assert choose(first, second).clusters == ("b",)
    assert choose(first, foreseen("a", Prospect.FITS)).clusters == ("a",)


def test_what_the_dispatcher_does_not_want_is_told_but_what_holds_quota_stays():
    def why_not(option) -> str:
        return f"{option.name} is not wanted"

    holding = foreseen("b", Prospect.FITS, copy=CopyState.RESERVED)
    found = survey(make_view(clusters=[foreseen("a", Prospect.FITS), holding]), why_not=why_not)
    assert [option.name for option in found.options] == ["b"]
    assert found.refusals == {"a": "a is not wanted"}


def test_what_decided_is_told():
    found = survey(make_view(clusters=[foreseen("a", Prospect.FITS, running=3)]))
    got = bind(
        found, lambda o: o.cluster.running, because=lambda o: f"has {o.cluster.running} jobs"
    )
    assert got.verdicts[0].reason.endswith("has 3 jobs")


def test_what_can_never_take_it_is_no_option_and_says_why():
    never = replace(
        make_cluster("a"), forecast=Forecast(prospect=Prospect.NEVER, reason="has at most 1")
    )
    found = survey(make_view(clusters=[never, make_lost_cluster("b")]))
    assert found.options == ()
    assert found.refusals == {"a": "has at most 1", "b": "is not connected"}


def test_a_cluster_that_must_stop_others_first_is_given_the_time():
    here, there = foreseen("a", Prospect.PREEMPTS), foreseen("b", Prospect.PREEMPTS)
    assert choose(here, there, **held("a", 2 * PATIENCE)).clusters == ("a",)
    assert choose(here, there, **held("a", PATIENCE + STOP_TIME)).clusters == ("b",)


def test_one_with_room_is_given_up_sooner_for_the_next_with_room_but_not_for_a_queue():
    here = foreseen("a", Prospect.FITS)
    got = choose(here, foreseen("b", Prospect.FITS, running=9), **held("a", PATIENCE))
    assert got.clusters == ("b",)
    stays = choose(here, foreseen("b", Prospect.WAITS), **held("a", PATIENCE))
    assert stays.clusters == ("a",)
    assert "did not start it before" in got.verdicts[0].reason
    assert survey(make_view(clusters=[here], **held("a", PATIENCE))).options[0].tier is Tier.WAIT


def test_of_those_that_wait_one_that_did_not_start_it_lately_comes_last():
    gave_up = [Round(at=T0 - 2 * PATIENCE, clusters=("a",))]
    clusters = foreseen("a", Prospect.FITS), foreseen("b", Prospect.WAITS, running=9)
    assert choose(*clusters, history=gave_up).clusters == ("b",)


def test_it_asks_again_when_its_patience_is_over():
    here = foreseen("a", Prospect.FITS)
    begun = timedelta(seconds=10)
    assert choose(here, **held("a", begun)).ask_again_at == T0 - begun + PATIENCE
    assert choose(foreseen("a", Prospect.WAITS)).ask_again_at == T0 + LOOK_AGAIN


class TestRacing:
    def provisioned(self, name: str, **fields):
        queue = replace(make_queue(), checks=("machines",))
        return replace(make_cluster(name), queue=queue, **fields)

    def test_clusters_whose_own_checks_come_after_quota_race(self):
        clusters = [self.provisioned(name) for name in "abc"]
        assert choose(*clusters, race=2).clusters == ("a", "b")

    def test_one_without_checks_does_not_race(self):
        assert choose(make_cluster("a"), self.provisioned("b"), race=2).clusters == ("a",)
        assert choose(self.provisioned("a"), make_cluster("b"), race=2).clusters == ("a",)

    def test_only_those_that_start_it_equally_soon_race(self):
        late = replace(self.provisioned("b"), forecast=Forecast(prospect=Prospect.WAITS))
        assert choose(self.provisioned("a"), late, race=2).clusters == ("a",)

    def test_none_that_got_quota_is_stopped_when_fewer_may_race(self):
        all_of_them = [self.provisioned(name, copy=CopyState.RESERVED) for name in "abc"]
        got = choose(*all_of_them, race=2, nominated=["a", "b", "c"])
        assert got.clusters == ("a", "b", "c")

    def test_whoever_got_quota_in_a_race_goes_on_when_the_other_is_lost(self):
        ahead = self.provisioned("b", copy=CopyState.RESERVED, running=9)
        clusters = [make_lost_cluster("a"), ahead, self.provisioned("c"), self.provisioned("d")]
        assert choose(*clusters, race=2, nominated=["a", "b"]).clusters == ("b", "c")
        both = [self.provisioned("a"), ahead, self.provisioned("c")]
        assert choose(*both, race=2, nominated=["a", "b"]).clusters == ("b", "a")

    def test_the_first_of_a_race_stays_the_first(self):
        clusters = [self.provisioned("a", running=5), self.provisioned("b")]
        got = choose(*clusters, race=2, nominated=["a", "b"])
        assert got.clusters == ("a", "b")


def test_a_copy_that_holds_quota_stays_whatever_opens_elsewhere():
    here = foreseen("a", Prospect.WAITS, copy=CopyState.RESERVED)
    assert choose(here, foreseen("b", Prospect.FITS), nominated=["a"]).clusters == ("a",)


class TestADispatcherThatMayWait:
    """``may_wait``: a start soon enough is as good as one now."""

    @staticmethod
    def waiting(name: str, minutes: int) -> object:
        return make_cluster(name, starts_in=timedelta(minutes=minutes))

    @staticmethod
    def choose(*clusters, **fields) -> tuple[str, ...]:
        """Fewest running jobs, among those that start within ten minutes."""
        found = survey(
            make_view(clusters=clusters, **fields), may_wait=lambda _: timedelta(minutes=10)
        )
        return bind(found, lambda option: option.cluster.running).clusters

    def test_the_preference_decides_across_tiers_within_that_time(self):
        room = foreseen("room", Prospect.FITS, running=9)
        lent = foreseen("lent", Prospect.BORROWS, running=5)
        assert self.choose(room, lent, self.waiting("soon", 10)) == ("soon",)
        assert self.choose(room, lent, self.waiting("late", 11)) == ("lent",)

    def test_who_would_be_stopped_and_what_is_not_known_stay_behind(self):
        room = foreseen("room", Prospect.FITS, running=9)
        others = [foreseen("stops", Prospect.PREEMPTS), foreseen("dark", Prospect.UNKNOWN)]
        assert self.choose(room, *others, foreseen("some-time", Prospect.WAITS)) == ("room",)

    def test_it_is_told(self):
        found = survey(
            make_view(clusters=[self.waiting("a", 5)]), may_wait=lambda _: timedelta(minutes=10)
        )
        (verdict,) = bind(found, lambda _: 0).verdicts
        assert verdict.tier == "Soon"

    def test_an_estimate_that_slides_is_not_believed_for_longer_than_that(self):
        room, soon = foreseen("room", Prospect.FITS, running=9), self.waiting("soon", 5)
        for minutes, want in ((9, "soon"), (10, "room")):
            since = held("soon", timedelta(minutes=minutes))
            assert self.choose(room, soon, **since) == (want,)

    def test_one_with_room_disappoints_as_soon_as_ever(self):
        full = foreseen("room", Prospect.FITS)
        other = foreseen("other", Prospect.FITS, running=9)
        assert self.choose(full, other, **held("room", PATIENCE)) == ("other",)
