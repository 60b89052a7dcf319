"""What `workloads list` shows of standings."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.cli.views.standings import (
    HEADERS,
    WIDE_HEADERS,
    list_standing_rows,
    select_standings,
)
from multiqueue.views.start import NoEstimate, tell_no_start
from tests.builders.workloads import minutes
from tests.unit.cli.test_worker_views import make_standing

QUEUED = {"phase": "Queued", "words": "waiting for quota", "worker": None}


def make_row(name: str, **fields: Any) -> dict[str, Any]:
    more = {"start": None, "priority": 5, "created": "2026-01-01T00:00:00Z"}
    return make_standing(name, **{**more, **fields})


ROWS = [
    make_row("runs"),
    make_row("ended", phase="Succeeded", worker="east"),
    make_row("suspended", phase="Deactivated", worker=None),
    make_row("held", **QUEUED, start=tell_no_start(NoEstimate.HELD)),
    make_row("huge", **QUEUED, start=tell_no_start(NoEstimate.NEVER)),
    make_row("gone", **QUEUED, start=tell_no_start(NoEstimate.PARKED)),
    make_row("offered", phase="Dispatched", worker=None, offeredTo=["west"]),
]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, "runs ended suspended held huge gone offered"),
        ({"waiting": True}, "held huge gone offered"),
        ({"parked": True}, "huge gone"),
        ({"worker": "west"}, "runs offered"),
        ({"phases": ("Queued", "Running")}, "runs held huge gone"),
        ({"waiting": True, "worker": "east"}, ""),
    ],
)
def test_standings_are_selected(wanted: dict[str, Any], names: str) -> None:
    found = select_standings(ROWS, **wanted)
    assert [each["metadata"]["name"] for each in found] == names.split()


def test_a_standing_is_a_row_with_its_namespace_and_all_columns_if_wanted() -> None:
    start = {"at": "2026-01-01T00:15:00Z"}
    row = make_row("w", **QUEUED, start=start, offeredTo=["east", "west"], why="full")
    (narrow,) = list_standing_rows([row], minutes(5), with_namespace=False, wide=False)
    (wide,) = list_standing_rows([row], minutes(5), with_namespace=True, wide=True)
    assert dict(zip(HEADERS, narrow, strict=True)) == {
        "NAME": "w",
        "JOB": "Job/w",
        "PHASE": "waiting for quota",
        "GPUS": 4,
        "WHY": "full",
    }
    assert dict(zip(WIDE_HEADERS, wide, strict=True)) == {
        "NAME": "team/w",
        "JOB": "Job/w",
        "PHASE": "waiting for quota",
        "GPUS": 4,
        "QUEUE": "jobs",
        "WORKER": "east, west",
        "PRIORITY": 5,
        "START": "in ~10m",
        "AGE": "5m",
        "WHY": "full",
    }
