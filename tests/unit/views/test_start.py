"""How an estimated start is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from multiqueue.plugins.forecast import Basis, StartEstimate
from multiqueue.views.start import (
    SENTENCES,
    NoEstimate,
    StartCaveat,
    StartStage,
    TreeRuntimes,
    say_caveats,
    say_range,
    say_start,
    say_start_shortly,
    tell_no_start,
    tell_range,
    tell_stage,
    tell_start,
    with_promise,
)

NOW = datetime(2026, 1, 5, 12, 0, 20, tzinfo=UTC)
"""A Monday."""


def tell(minutes: tuple[float, float, float], *, ahead: int = 0, **changes: Any) -> dict[str, Any]:
    earliest, at, latest = (NOW + timedelta(minutes=each) for each in minutes)
    facts: dict[str, Any] = {
        "made": NOW,
        "stage": StartStage.QUOTA,
        "runtimes": TreeRuntimes(known=9, assumed=4, weakest=Basis.ASSUMED),
        "caveats": (),
    }
    start = StartEstimate(at=at, earliest=earliest, latest=latest, ahead=ahead)
    return dict(tell_start(start, **{**facts, **changes}))


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ((0, 0, 3), "now"),
        ((-2, -1, 3), "now"),
        ((0.1, 0.3, 0.8), "in under a minute"),
        ((50, 80, 110), "about 13:20 (12:50 to 13:50)"),
        ((-1, 80, 110), "about 13:20 (12:01 to 13:50)"),
        ((170, 187, 220), "about 15:00 (14:45 to 15:45)"),
        ((600, 700, 780), "about 23:45 (22:00 to Tue 06 Jan 01:00)"),
        ((3000, 3030, 3100), "about Wed 07 Jan 15:00 (Wed 07 Jan 14:00 to Wed 07 Jan 16:00)"),
        ((30, 30, 30), "about 12:30"),
        ((-60, -30, -0.5), "now"),
        ((-60, -30, -0.6), "later than foreseen (by 12:00)"),
        ((-60, -30, -10), "later than foreseen (by 11:50)"),
    ],
)
def test_times_are_rounded_to_what_is_known_and_never_past(
    minutes: tuple[float, float, float], said: str
) -> None:
    assert say_start(tell(minutes), NOW) == said


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ((50, 80, 110), "from 12:50 to 13:50"),
        ((600, 700, 780), "from Mon 05 Jan 22:00 to 01:00"),
        ((30, 30, 30), "about 12:30"),
    ],
)
def test_an_earlier_range_is_said_as_it_was_then(
    minutes: tuple[float, float, float], said: str
) -> None:
    start = tell(minutes)
    assert say_range(start, NOW + timedelta(minutes=minutes[2] + 5)) == said


@pytest.mark.parametrize(
    ("minutes", "said"),
    [((5, 10, 20), "in ~10m"), ((-2, -1, 3), "now"), ((-60, -30, -10), "late")],
)
def test_a_column_has_the_time_until_the_start(
    minutes: tuple[float, float, float], said: str
) -> None:
    assert say_start_shortly(tell(minutes), NOW) == said
    promised = with_promise(tell(minutes), NOW + timedelta(hours=1))
    assert say_start_shortly(promised, NOW) == f"{said}, kept"


def test_a_column_is_empty_once_it_has_started_and_says_what_is_not_known() -> None:
    assert say_start_shortly(None, NOW) == ""
    assert say_start_shortly(tell_no_start(NoEstimate.STARTING), NOW) == "unknown"


def test_a_promise_bounds_the_estimate_and_nobody_passes() -> None:
    told = with_promise(
        tell((50, 80, 110), caveats=[StartCaveat.ASSUMED_RUNTIMES, StartCaveat.LATER_ARRIVALS]),
        NOW + timedelta(minutes=70),
    )
    kept = "room is kept for it, by 13:10 at the latest"
    assert say_start(told, NOW) == f"about 13:10 (12:50 to 13:10); {kept}"
    assert [each["code"] for each in told["caveats"]] == ["AssumedRuntimes"]
    unknown = with_promise(tell_no_start(NoEstimate.PARKED), NOW + timedelta(minutes=70))
    assert say_start(unknown, NOW) == kept


def test_a_promise_bounds_each_stage_too() -> None:
    earliest, at, latest = (NOW + timedelta(minutes=each) for each in (50, 80, 110))
    end = StartEstimate(at=at, earliest=earliest, latest=latest)
    quota = tell_stage("quota", end)
    assert quota == {"name": "quota", "cluster": None, **tell_range(end)}
    told = tell((50, 80, 110), stages=[quota, tell_stage("worker", end, "w1")])
    bounded = with_promise(told, NOW + timedelta(minutes=70))["stages"]
    assert [each["cluster"] for each in bounded] == [None, "w1"]
    for each in bounded:
        assert (each["at"], each["latest"]) == ("2026-01-05T13:10:20Z",) * 2
        assert each["earliest"] == "2026-01-05T12:50:20Z"


def test_who_is_before_it_is_a_number() -> None:
    assert say_start(tell((30, 30, 30), ahead=1), NOW) == "about 12:30; 1 job before it"
    assert say_start(tell((30, 30, 30), ahead=3), NOW) == "about 12:30; 3 jobs before it"


def test_the_json_form_has_the_times_the_basis_and_the_caveats() -> None:
    told = tell(
        (50, 80, 110), ahead=2, caveats=[StartCaveat.ASSUMED_RUNTIMES, StartCaveat.LATER_ARRIVALS]
    )
    caveats = told.pop("caveats")
    assert told.pop("stages") == []
    assert told == {
        "at": "2026-01-05T13:20:20Z",
        "earliest": "2026-01-05T12:50:20Z",
        "latest": "2026-01-05T13:50:20Z",
        "made": "2026-01-05T12:00:20Z",
        "stage": "quota",
        "ahead": 2,
        "factor": 1.0,
        "basis": "Assumed",
    }
    assert [each["code"] for each in caveats] == ["AssumedRuntimes", "LaterArrivals"]
    assert "4 of 9 jobs" in caveats[0]["message"]
    assert say_caveats({"caveats": caveats}) == [each["message"] for each in caveats]


def test_each_caveat_and_reason_has_words() -> None:
    for caveat in StartCaveat:
        (each,) = tell((1, 2, 3), caveats=[caveat], checks=["prov"])["caveats"]
        assert "{" not in each["message"]
    for code in NoEstimate:
        told = tell_no_start(code, "queue x is stopped")
        assert told["code"] == code
        assert say_start(told, NOW) == f"not known: {told['reason']}"
        assert ("queue x is stopped" in told["reason"]) == ("{message}" in SENTENCES[code])
