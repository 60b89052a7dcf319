"""Rounds of the incremental dispatcher (T-366 to T-382, G-5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from multiqueue_dispatchers.incremental import ROUND_TIME, Incremental

from multiqueue.plugins import ClusterView, CopyState, Nomination
from multiqueue.plugins.testing import (
    T0,
    assert_dispatcher_contract,
    make_cluster,
    make_lost_cluster,
    make_queue,
    make_view,
)

DISPATCHER = Incremental()
A_MINUTE = timedelta(minutes=1)


def fleet(*names: str, offered: str = "", at: datetime = T0) -> list[ClusterView]:
    """Full clusters of these names; those in ``offered`` have had a copy since then."""
    return [
        make_cluster(
            name,
            used=8,
            copy=CopyState.PENDING if name in offered.split() else CopyState.ABSENT,
            offered_at=at if name in offered.split() else None,
        )
        for name in names
    ]


def ask(clusters: list[ClusterView], *, nominated: str = "", **fields: object) -> Nomination:
    return DISPATCHER.nominate(make_view(clusters=clusters, nominated=nominated.split(), **fields))


def test_it_keeps_the_contract():
    assert_dispatcher_contract(DISPATCHER, order_matters=True)


@pytest.mark.parametrize("count", [1, 2, 3, 15])
def test_the_first_round_has_the_first_three_as_the_configuration_lists_them(count):
    """T-366 to T-369, M-111, M-112."""
    names = [f"w{number}" for number in range(count)][::-1]
    got = ask(fleet(*names))
    assert got.clusters == tuple(names[:3])
    assert got.ask_again_at == (T0 + ROUND_TIME if count > 3 else None)


def test_within_a_round_nothing_changes():
    """T-373."""
    clusters = fleet(*"abcdef", offered="a b c")
    got = ask(clusters, nominated="a b c", now=T0 + ROUND_TIME - A_MINUTE)
    assert got.clusters == ("a", "b", "c")
    assert got.ask_again_at == T0 + ROUND_TIME
    assert got.note == "from 12:05:00 UTC on also to d, e, f"


def test_a_round_that_is_over_adds_a_step_and_takes_nothing_away():
    """T-372, T-374, M-111."""
    now = T0 + ROUND_TIME
    got = ask(fleet(*"abcdefgh", offered="a b c"), nominated="a b c", now=now)
    assert got.clusters == tuple("abcdef")
    assert got.ask_again_at == now + ROUND_TIME
    got = ask(fleet(*"abcd", offered="a b c"), nominated="a b c", now=now)
    assert got.clusters == tuple("abcd")


def test_a_round_is_counted_from_the_last_offer_however_old_the_others_are():
    """M-113."""
    clusters = [
        *fleet(*"abc", offered="a b c", at=T0 - ROUND_TIME),
        *fleet(*"defgh", offered="d e f"),
    ]
    got = ask(clusters, nominated="a b c d e f", now=T0 + A_MINUTE)
    assert got.clusters == tuple("abcdef")


def test_after_a_long_time_without_a_manager_there_is_one_step_only():
    """G-5: rounds that nobody counted are not made up for; that would be a herd."""
    now = T0 + 10 * ROUND_TIME
    got = ask(fleet(*"abcdefgh", offered="a b c"), nominated="a b c", now=now)
    assert got.clusters == tuple("abcdef")
    assert got.ask_again_at == now + ROUND_TIME


def test_copies_that_are_not_there_yet_belong_to_a_round_that_begins_now():
    """G-5: killed between the nomination and the copies."""
    clusters = [*fleet(*"abc", offered="a b c"), *fleet(*"defgh")]
    got = ask(clusters, nominated="a b c d e f", now=T0 + ROUND_TIME)
    assert got.clusters == tuple("abcdef")
    assert got.ask_again_at == T0 + 2 * ROUND_TIME


@pytest.mark.parametrize("names", ["abc", "a", ""])
def test_when_all_were_tried_it_says_so_and_stops_asking(names):
    """T-370, T-371, T-375; G-5."""
    clusters = fleet(*names, offered=" ".join(names))
    got = ask(clusters, nominated=" ".join(names), now=T0 + ROUND_TIME)
    assert got.clusters == tuple(names)
    assert got.ask_again_at is None
    assert got.note == ("no other cluster is left to try" if names else "")


@pytest.mark.parametrize(
    ("arguments", "first", "second"),
    [
        ({}, "cab", "cabedf"),
        ({"stepSize": 2}, "ca", "cabe"),
        ({"order": "Name"}, "abc", "abcdef"),
        ({"order": "Name", "stepSize": 2}, "ab", "abcd"),
    ],
)
def test_steps_and_order_are_those_of_the_arguments(arguments, first, second):
    """T-376 to T-382."""
    got = ask(fleet(*"cabedfg"), arguments=arguments)
    assert got.clusters == tuple(first)
    clusters = fleet(*"cabedfg", offered=" ".join(first))
    now = T0 + ROUND_TIME
    got = ask(clusters, nominated=" ".join(first), arguments=arguments, now=now)
    assert got.clusters == tuple(second)


def test_what_was_nominated_before_the_order_changed_stays_in_front():
    """T-381."""
    clusters = fleet(*"abcd", offered="d")
    now = T0 + ROUND_TIME
    got = ask(clusters, nominated="d", arguments={"order": "Name", "stepSize": 2}, now=now)
    assert got.clusters == ("d", "a", "b")


def test_the_time_of_a_round_can_be_set():
    got = ask(fleet(*"abcd"), arguments={"roundTime": "90s", "stepSize": 1})
    assert got.ask_again_at == T0 + timedelta(seconds=90)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"stepSize": 0}, "argument stepSize: 0 must be a whole number of at least 1"),
        ({"stepSize": "x"}, "argument stepSize: 'x' must be"),
        ({"stepSize": True}, "argument stepSize: True must be"),
        ({"roundTime": "soon"}, 'argument roundTime: "soon" is not a duration'),
        ({"roundTime": "-5m"}, "must be longer than nothing"),
        ({"roundTime": 5}, 'argument roundTime: "5" is not a duration'),
        ({"order": "random"}, "argument order: 'random' must be one of Config, Name"),
    ],
)
def test_malformed_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        ask(fleet("a"), arguments=arguments)


def test_clusters_that_cannot_take_it_use_up_no_step():
    clusters = [
        make_lost_cluster("lost"),
        replace(make_cluster("queueless"), queue=None),
        replace(make_cluster("stopped"), queue=make_queue(active=False)),
        make_cluster("small", gpus=0),
        *fleet(*"abcd"),
    ]
    got = ask(clusters)
    assert got.clusters == ("a", "b", "c")
    reasons = {verdict.cluster: verdict.reason for verdict in got.verdicts}
    assert reasons["lost"] == "is not connected"
    assert "has at most 0" in reasons["small"]
    assert reasons["d"] == ""


def test_a_round_that_nobody_can_win_is_over_at_once():
    """M-115."""
    hopeless = [replace(cluster, queue=None) for cluster in fleet(*"abc", offered="a b c")]
    got = ask([*hopeless, *fleet(*"def")], nominated="a b c", now=T0 + A_MINUTE)
    assert got.clusters == tuple("abcdef")


def test_one_that_may_still_win_keeps_the_round_going():
    hopeless = [replace(cluster, queue=None) for cluster in fleet(*"ab", offered="a b")]
    full = fleet("c", offered="c")
    got = ask([*hopeless, *full, *fleet(*"def")], nominated="a b c", now=T0 + A_MINUTE)
    assert got.clusters == tuple("abc")


def test_a_cluster_that_is_lost_gives_its_place_to_nobody_before_the_round_is_over():
    clusters = [make_lost_cluster("a"), *fleet(*"bcdef", offered="b c")]
    got = ask(clusters, nominated="a b c", now=T0 + A_MINUTE)
    assert got.clusters == ("b", "c")
    got = ask(clusters, nominated="b c", now=T0 + ROUND_TIME)
    assert got.clusters == tuple("bcdef")


def test_one_that_comes_back_with_its_copy_keeps_its_place_in_the_queue_there():
    clusters = fleet(*"abcd", offered="a b c")
    got = ask(clusters, nominated="b c", now=T0 + A_MINUTE)
    assert set(got.clusters) == {"a", "b", "c"}


def test_one_that_comes_back_empty_has_its_turn_first_in_the_next_round():
    clusters = fleet(*"abcdef", offered="b c")
    got = ask(clusters, nominated="b c", now=T0 + A_MINUTE)
    assert got.clusters == ("b", "c")
    got = ask(clusters, nominated="b c", now=T0 + ROUND_TIME)
    assert got.clusters == ("b", "c", "a", "d", "e")
