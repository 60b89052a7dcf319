"""What a Workload used, from its conditions; and that it adds up."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.disruptions import Stop, StopCause, record_stop
from multiqueue.api.v1beta2 import OwnerReference, Workload
from multiqueue.api.workload_state import complete_eviction, evict, finish, preempt, sync_admitted
from multiqueue.views.usage import (
    UsageFigures,
    UsageRows,
    add_hold,
    end_hold,
    read_hold,
    read_rows,
    write_rows,
)
from multiqueue.views.usage_sums import add_up
from tests.builders.workloads import (
    NAMESPACE,
    T0,
    admitted,
    evicted,
    make_workload,
    minutes,
    reserved,
    with_status,
)

DAYS = timedelta(days=3)
OWNERS = {NAMESPACE: "team", "urgent": "vision"}


def finished(workload: Workload, reason: str, *, at: datetime) -> Workload:
    return with_status(workload, finish(workload.status, reason, "over", now=at, generation=1))


def preempted(workload: Workload, *, at: datetime) -> Workload:
    status = preempt(workload.status, Reason.IN_COHORT_RECLAMATION, "reclaimed", now=T0)
    return with_status(workload, complete_eviction(status, now=at))


def timed_out(workload: Workload, *, at: datetime) -> Workload:
    status = evict(workload.status, Reason.PODS_READY_TIMEOUT, "late", now=T0)
    return with_status(workload, complete_eviction(status, now=at))


def sum_up(rows: UsageRows) -> UsageFigures:
    figures = UsageFigures()
    for each in rows.values():
        figures.add(each)
    return figures


def test_a_hold_is_divided_by_the_stages_of_its_workload() -> None:
    waits = reserved(make_workload(count=2), at=T0)
    runs = with_status(waits, sync_admitted(waits.status, now=minutes(5), generation=1))
    hold = read_hold(finished(runs, Reason.SUCCEEDED, at=minutes(30)))
    rows: UsageRows = {}
    assert hold is not None
    add_hold(rows, hold, OWNERS.__getitem__, T0 - DAYS, minutes(60))
    ((key, figures),) = rows.items()
    assert (key.day, key.owner) == ("2026-01-01", "team")
    assert (key.flavor, key.resource) == ("default", "cpu")
    assert (figures.reserved, figures.checks, figures.running) == (3600, 600, 3000)
    assert (figures.kept, figures.lost, figures.holds) == (3000, 0, 1)


@pytest.mark.parametrize(
    ("after", "outcome", "cause"),
    [
        pytest.param(lambda w: finished(w, Reason.FAILED, at=minutes(9)), "Failed", "", id="fails"),
        pytest.param(
            lambda w: finished(w, Reason.SUCCEEDED, at=minutes(9)), "Kept", "", id="succeeds"
        ),
        pytest.param(lambda _: None, "Kept", "", id="is deleted"),
        pytest.param(lambda w: preempted(w, at=minutes(9)), "Lost", "Reclaim", id="is preempted"),
        pytest.param(lambda w: timed_out(w, at=minutes(9)), "Lost", "Timeout", id="is late"),
    ],
)
def test_how_a_hold_ends(after, outcome: str, cause: str) -> None:
    old = admitted(make_workload())
    hold = end_hold(old, after(old), minutes(9))
    assert hold is not None
    assert (hold.outcome, hold.ended) == (outcome, minutes(9))
    assert hold.cause == cause


def test_a_change_that_releases_no_quota_ends_nothing() -> None:
    old = admitted(make_workload())
    assert end_hold(old, evicted(old, at=minutes(1)), minutes(1)) is None
    assert end_hold(make_workload(), None, minutes(1)) is None


def test_a_variant_counts_with_its_parent() -> None:
    parent = OwnerReference(api_version=names.V1BETA2, kind="Workload", name="wl", uid="uid-wl")
    workload = admitted(make_workload("variant"))
    metadata = msgspec.structs.replace(workload.metadata, owner_references=(parent,))
    assert read_hold(msgspec.structs.replace(workload, metadata=metadata)) is None


def test_a_hold_over_midnight_counts_for_both_days() -> None:
    begun = T0 + timedelta(hours=23)
    hold = end_hold(admitted(make_workload(), at=begun), None, begun + timedelta(hours=2))
    rows: UsageRows = {}
    assert hold is not None
    add_hold(rows, hold, OWNERS.__getitem__, T0, T0 + DAYS)
    by_day = {key.day: (figures.running, figures.kept) for key, figures in rows.items()}
    assert by_day == {"2026-01-01": (3600, 0), "2026-01-02": (3600, 7200)}


@pytest.mark.parametrize(
    ("cost", "redone"),
    [
        pytest.param(120, 240, id="a part of what it ran"),
        pytest.param(99_999, 1080, id="no more than it ran"),
    ],
)
def test_who_caused_a_stop_is_charged_for_what_it_costs(cost: int, redone: int) -> None:
    """Two CPUs are one device to the cost of a stop; usage counts them one by one."""
    old = admitted(make_workload(count=2), at=T0)
    status = preempt(old.status, Reason.IN_COHORT_RECLAMATION, "reclaimed", now=minutes(9))
    stop = Stop(minutes(9), StopCause.RECLAIM, cost, "prod", namespace="urgent")
    new = with_status(old, complete_eviction(record_stop(status, stop), now=minutes(9)))
    hold = end_hold(old, new, minutes(9))
    rows: UsageRows = {}
    assert hold is not None
    add_hold(rows, hold, OWNERS.__getitem__, T0 - DAYS, minutes(60))
    stored = read_rows(write_rows(rows))
    charged = {
        values: figures.charged for values, _, figures in add_up({NAMESPACE: stored}, ["owner"])
    }
    assert charged == {("team",): 1080 - redone, ("vision",): redone}
    ((_, _, all_of_it),) = add_up({NAMESPACE: stored}, [])
    assert (all_of_it.charged, all_of_it.reserved) == (1080, 1080)


@given(
    admitted_after=st.none() | st.integers(0, 300),
    seconds=st.none() | st.integers(1, 400_000),
    fails=st.booleans(),
    cuts=st.lists(st.integers(0, 500_000), max_size=6),
)
def test_counting_piece_by_piece_gives_the_same_and_adds_up(
    admitted_after: int | None, seconds: int | None, fails: bool, cuts: list[int]
) -> None:
    """S-150; P-125."""
    workload = reserved(make_workload(count=3))
    if admitted_after is not None:
        at = T0 + timedelta(seconds=admitted_after)
        workload = with_status(workload, sync_admitted(workload.status, now=at, generation=1))
    if seconds is not None:
        reason = Reason.FAILED if fails else Reason.SUCCEEDED
        workload = finished(workload, reason, at=T0 + timedelta(seconds=seconds))
    hold = read_hold(workload)
    assert hold is not None
    until = T0 + timedelta(seconds=600_000)
    once: UsageRows = {}
    add_hold(once, hold, OWNERS.__getitem__, T0 - DAYS, until)
    pieces: UsageRows = {}
    times = [T0 - DAYS, *(T0 + timedelta(seconds=cut) for cut in sorted(cuts)), until]
    for since, end in pairwise(times):
        add_hold(pieces, hold, OWNERS.__getitem__, since, end)
        pieces = read_rows(write_rows(pieces))  # as a report keeps them
    assert pieces == read_rows(write_rows(once))
    total = sum_up(once)
    assert total.reserved == total.checks + total.starting + total.running
    if hold.ended is not None:
        assert total.running == total.kept + total.lost + total.failed
