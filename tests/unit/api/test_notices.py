"""Notices of preemption: what the condition says, and what is read from it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from multiqueue.api.conditions import PREEMPTION_NOTICE, NoticeEnd, Reason, find_condition
from multiqueue.api.notices import Notice, end_notice, give_notice, parse_notice
from multiqueue.api.v1beta2 import WorkloadStatus
from tests.builders.engine import T0

MESSAGE = (
    "Preempted to accommodate a workload (UID: u-1, JobUID: j-1) due to prioritization in the "
    "ClusterQueue; preemptor path: /cq; preemptee path: /cq"
)
BY = T0 + timedelta(seconds=150)
GIVEN = give_notice(WorkloadStatus(), Reason.IN_CLUSTER_QUEUE, MESSAGE, by=BY, now=T0)


def test_a_notice_says_until_when_and_for_whom() -> None:
    found = find_condition(GIVEN.conditions, PREEMPTION_NOTICE)

    assert found is not None
    assert (found.status, found.reason) == ("True", "InClusterQueue")
    assert found.message.startswith("will be stopped at 2026-01-01T00:02:30Z at the latest; save")
    assert parse_notice(GIVEN.conditions) == Notice(
        int(T0.timestamp()), int(BY.timestamp()), Reason.IN_CLUSTER_QUEUE, MESSAGE, "u-1"
    )


def test_a_notice_that_is_over_is_none() -> None:
    over = end_notice(GIVEN, NoticeEnd.RESCINDED, "goes on", now=BY)

    assert parse_notice(over.conditions) is None
    assert end_notice(over, NoticeEnd.SAVED, "", now=BY) is over


def test_a_notice_of_a_drain_has_no_preemptor() -> None:
    why = "The cluster that runs it, a, is being drained"
    told = give_notice(WorkloadStatus(), Reason.ADMISSION_CHECK, why, by=BY, now=T0)

    found = parse_notice(told.conditions)

    assert found is not None
    assert (found.is_of_drain, found.by, found.message) == (True, int(BY.timestamp()), why)
    own = parse_notice(GIVEN.conditions)
    assert own is not None
    assert not own.is_of_drain


@pytest.mark.parametrize(
    "change",
    [
        {"message": "somebody wrote this"},
        {"message": "will be stopped at noon at the latest; save your work now. (UID: u-1, x)"},
        {"reason": "Because"},
        {"message": f"will be stopped at 2026-01-01T00:02:30Z at the latest; {MESSAGE}"},
    ],
)
def test_what_somebody_wrote_by_hand_has_no_end(change: dict[str, str]) -> None:
    (condition,) = GIVEN.conditions

    found = parse_notice([msgspec.structs.replace(condition, **change)])

    assert found is not None
    assert found.by == 0
