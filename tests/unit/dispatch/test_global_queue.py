"""What a manager remembers of Workloads in the global queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.dispatch.wake.waiting import Rank
from multiqueue.plugins import (
    DispatchView,
    Forecast,
    Nomination,
    Prospect,
    QueuePlacement,
    StartEstimate,
)
from multiqueue.plugins.testing import T0, make_cluster, make_view, make_workload

HOUR = timedelta(hours=1)


def view_of(name: str, *, gpus: int = 2, priority: int = 0) -> DispatchView:
    start = StartEstimate(at=T0 + HOUR, earliest=T0, latest=T0 + 2 * HOUR, spare=3)
    forecast = Forecast(prospect=Prospect.WAITS, start=start)
    clusters = [replace(make_cluster(each, used=8), forecast=forecast) for each in ("a", "b")]
    workload = replace(make_workload(gpus=gpus, priority=priority), key=f"team/{name}")
    return make_view(workload=workload, clusters=clusters)


def stand(
    global_queue: GlobalQueue,
    name: str,
    *,
    turn: timedelta = HOUR,
    claim: str = "a",
    priority: int = 0,
):
    place = QueuePlacement(turn=T0 + turn, claim=claim)
    global_queue.note(view_of(name, priority=priority), Nomination(global_queue=place))


def keys(global_queue: GlobalQueue, cluster: str = "a", *, without: str = "") -> list[str]:
    return [claim.key for claim in global_queue.list_claims(cluster, without=without)]


def rank_of(name: str) -> Rank:
    return Rank(urgency=0, turn="2026-01-01T12:00:00Z", key=f"team/{name}", queue="q")


def test_those_in_line_come_up_at_their_turn_and_others_as_submitted():
    global_queue = GlobalQueue(lambda _: True)
    stand(global_queue, "one")
    assert global_queue.give_turn(rank_of("one")).turn == "2026-01-01T13:00:00Z"
    assert global_queue.give_turn(rank_of("two")).turn == "2026-01-01T12:00:00Z"
    assert global_queue.give_turn(rank_of("two")) < global_queue.give_turn(rank_of("one"))


def test_claims_are_shown_to_others_by_priority_and_turn():
    global_queue = GlobalQueue(lambda _: True)
    stand(global_queue, "late", turn=2 * HOUR)
    stand(global_queue, "soon")
    stand(global_queue, "urgent", turn=3 * HOUR, priority=5)
    stand(global_queue, "elsewhere", claim="b")
    assert keys(global_queue) == ["team/urgent", "team/soon", "team/late"]
    assert keys(global_queue, without="team/soon") == ["team/urgent", "team/late"]
    (claim,) = global_queue.list_claims("b", without="")
    assert (claim.start, claim.spare) == (T0 + HOUR, 3)


def test_a_claim_moves_with_its_workload():
    global_queue = GlobalQueue(lambda _: True)
    stand(global_queue, "one")
    assert global_queue.find_own("team/one") == "a"
    stand(global_queue, "one", claim="b")
    assert (keys(global_queue, "a"), keys(global_queue, "b")) == ([], ["team/one"])
    stand(global_queue, "one", claim="")
    assert (keys(global_queue, "b"), global_queue.find_own("team/one")) == ([], "")


def test_a_claim_on_a_cluster_that_is_not_there_is_none():
    global_queue = GlobalQueue(lambda _: True)
    stand(global_queue, "one", claim="gone")
    assert global_queue.find_own("team/one") == ""


def test_who_is_sent_somewhere_or_leaves_waits_in_global_queue_no_more():
    global_queue = GlobalQueue(lambda _: True)
    stand(global_queue, "one")
    global_queue.note(view_of("one"), Nomination(clusters=("b",)))
    assert keys(global_queue) == []
    stand(global_queue, "one")
    assert global_queue.leave("team/one"), "room was kept for it"
    assert not global_queue.leave("team/one")
    assert global_queue.give_turn(rank_of("one")) == rank_of("one")


def test_what_passes_takes_of_what_may_pass_once():
    global_queue = GlobalQueue(lambda _: True)
    stand(global_queue, "gang")
    global_queue.note(view_of("small"), Nomination(clusters=("a",)))
    global_queue.note(replace(view_of("small"), nominated=("a",)), Nomination(clusters=("a",)))
    global_queue.note(view_of("else"), Nomination(clusters=("b",)))
    (claim,) = global_queue.list_claims("a", without="")
    assert claim.spare == 1


def test_a_claim_of_one_that_went_while_it_was_asked_about_is_none():
    waiting = {"team/one"}
    global_queue = GlobalQueue(waiting.__contains__)
    stand(global_queue, "one")
    stand(global_queue, "gone")
    assert keys(global_queue) == ["team/one"]
    waiting.clear()
    assert keys(global_queue) == []


def test_what_becomes_free_is_kept_for_who_is_promised_to_start() -> None:
    """P-54, P-98: others may go first only if they end before that."""
    global_queue = GlobalQueue(lambda _: True)
    stand(global_queue, "gang")
    global_queue.promise("a", "team/gang", T0 + HOUR / 20)
    (claim,) = global_queue.list_claims("a", without="")
    assert (claim.start, claim.spare) == (T0 + HOUR / 20, 0)
    stand(global_queue, "gang")
    assert global_queue.list_claims("a", without="") == (claim,)
    stand(global_queue, "gang", claim="b")
    (claim,) = global_queue.list_claims("b", without="")
    assert (claim.start, claim.spare) == (T0 + HOUR, 3), "nothing is promised there"
    global_queue.promise("b", "team/gang", None)
    stand(global_queue, "gang")
    (claim,) = global_queue.list_claims("a", without="")
    assert claim.spare == 0, "what ends elsewhere leaves it as it is"
    global_queue.promise("a", "team/gang", None)
    (claim,) = global_queue.list_claims("a", without="")
    assert (claim.start, claim.spare) == (T0 + HOUR, 3)
