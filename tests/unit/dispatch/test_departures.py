"""Who must leave a worker, and who may not come back for a while."""

from __future__ import annotations

from datetime import timedelta

from multiqueue.api.disruptions import Stop, StopCause
from multiqueue.dispatch.observe.departures import Departure, Departures
from multiqueue.plugins.testing import T0

MINUTE = timedelta(minutes=1)
STOP = Stop(T0, StopCause.MIGRATION, 100, "cq")


def test_who_leaves_is_told_once_and_until_it_may_stay() -> None:
    departures = Departures()
    assert departures.add("a", "ns/m", "moves", STOP)
    assert not departures.add("a", "ns/m", "drained")
    assert departures.find("a", "ns/m") == Departure("moves", STOP)
    departures.retain("b", ())
    assert departures.find("a", "ns/m") is not None
    departures.retain("a", ())
    assert departures.find("a", "ns/m") is None


def test_who_made_room_does_not_come_back_before_its_time() -> None:
    departures = Departures()
    departures.keep_off("a", "ns/m", "is left to others", T0 + MINUTE)
    assert departures.find_kept_off("a", "ns/m", T0) == ("is left to others", T0 + MINUTE)
    assert departures.find_kept_off("b", "ns/m", T0) is None
    assert departures.find_kept_off("a", "ns/m", T0 + MINUTE) is None
    assert departures.find_kept_off("a", "ns/m", T0) is None, "forgotten once it was over"
