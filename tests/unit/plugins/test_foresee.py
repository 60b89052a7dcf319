"""What the figures of the queues foresee where the manager has no better forecast."""

from __future__ import annotations

from dataclasses import replace

from multiqueue.plugins import Forecast, Prospect, QuotaView, foresee
from multiqueue.plugins.testing import (
    GPU,
    make_cluster,
    make_lost_cluster,
    make_queue,
    make_unknown_cluster,
    make_workload,
)

PAIR = ("gpu", GPU)


def make_borrower(*, nominal: int, used: int, available: int):
    quota = QuotaView(nominal=nominal, used=used, available=available, most=nominal + available)
    return replace(make_cluster(), queue=replace(make_queue(), quotas={PAIR: quota}))


def test_room_of_its_own_fits_and_says_what_is_left():
    got = foresee(make_workload(gpus=3), make_cluster(used=1))
    assert got is not None
    assert (got.prospect, got.taken, got.left) == (Prospect.FITS, {PAIR: 3}, {PAIR: 4})
    assert got.borrowed == {}


def test_room_of_others_is_borrowed_as_far_as_its_own_does_not_do():
    got = foresee(make_workload(gpus=6), make_borrower(nominal=4, used=1, available=7))
    assert got is not None
    assert (got.prospect, got.borrowed) == (Prospect.BORROWS, {PAIR: 3})


def test_what_was_sent_there_uses_up_its_own_first():
    cluster = make_borrower(nominal=4, used=0, available=8)
    sent = replace(cluster.queue.quotas[PAIR], in_flight=4)
    cluster = replace(cluster, queue=replace(cluster.queue, quotas={PAIR: sent}))
    got = foresee(make_workload(gpus=2), cluster)
    assert got is not None
    assert (got.prospect, got.borrowed) == (Prospect.BORROWS, {PAIR: 2})


def test_no_room_waits_and_too_little_ever_says_how_much_there_could_be():
    waits = foresee(make_workload(gpus=2), make_cluster(used=8))
    assert waits is not None
    assert waits.prospect is Prospect.WAITS
    never = foresee(make_workload(gpus=3, pods=4), make_cluster())
    assert never is not None
    assert (never.prospect, never.largest) == (Prospect.NEVER, 2)


def test_what_cannot_be_read_is_unknown_and_what_cannot_be_reached_is_not_foreseen():
    unknown = foresee(make_workload(), make_unknown_cluster())
    assert unknown is not None
    assert unknown.prospect is Prospect.UNKNOWN
    assert foresee(make_workload(), make_lost_cluster()) is None
    assert foresee(make_workload(), replace(make_cluster(), queue=None)) is None


def test_the_forecast_of_the_manager_comes_before_the_figures():
    known = Forecast(prospect=Prospect.PREEMPTS)
    assert foresee(make_workload(), replace(make_cluster(), forecast=known)) is known
    assert foresee(make_workload(), replace(make_lost_cluster(), forecast=known)) is None
