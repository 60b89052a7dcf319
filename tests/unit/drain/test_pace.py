"""Who leaves a drained worker, how fast, and how that is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.cluster_orders import DrainPace
from multiqueue.drain.pace import Bucket, Resident, estimate_end, sort_residents
from multiqueue.drain.report import SHOWN, DrainReport, is_news, parse_report
from tests.unit.dispatch.builders import T0, minutes

SLOW = DrainPace(every=timedelta(seconds=6), at_once=2)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def make_resident(key: str, *, ran: float = 1, **fields: Any) -> Resident:
    return Resident(key=key, admitted_at=T0 - minutes(ran), **fields)


def begin_all(pace: DrainPace, bucket: Bucket, looks: list[datetime]) -> list[datetime]:
    """When moves begin that are only held up by the pace."""
    begun = []
    for now in looks:
        while bucket.has_one(pace, now):
            bucket = bucket.take(pace, now)
            begun.append(now)
    return begun


class TestOrder:
    def test_priority_then_gpus_then_youngest_then_name(self) -> None:
        residents = [
            make_resident("old", ran=60),
            make_resident("young-b", ran=1),
            make_resident("young-a", ran=1),
            make_resident("large", ran=90, gpus=8),
            make_resident("urgent", ran=90, priority=100),
        ]
        got = [resident.key for resident in sort_residents(residents)]
        assert got == ["urgent", "large", "young-a", "young-b", "old"]

    def test_what_is_lost_is_gpus_times_the_time_since_admission(self) -> None:
        assert make_resident("a", ran=30, gpus=4).lost_gpu_seconds(T0) == 4 * 30 * 60
        assert make_resident("a", ran=-1, gpus=4).lost_gpu_seconds(T0) == 0


class TestPace:
    def test_a_drain_begins_with_as_many_as_may_be_moved_at_once(self) -> None:
        looks = [T0 + seconds(n) for n in range(19)]
        got = begin_all(SLOW, Bucket.full(T0), looks)
        assert got == [T0 + seconds(n) for n in (0, 0, 6, 12, 18)]

    def test_a_drain_that_goes_on_begins_with_none(self) -> None:
        looks = [T0 + seconds(n) for n in range(13)]
        assert begin_all(SLOW, Bucket.empty(T0, SLOW), looks) == [T0 + seconds(6), T0 + seconds(12)]

    def test_a_pause_saves_no_more_than_one_bucket(self) -> None:
        bucket = Bucket.full(T0).take(SLOW, T0)
        assert begin_all(SLOW, bucket, [T0 + minutes(60)]) == [T0 + minutes(60)] * 2

    def test_a_faster_pace_counts_from_now(self) -> None:
        slow = DrainPace(every=minutes(60), at_once=1)
        bucket = Bucket.full(T0).take(slow, T0).change(slow, SLOW, T0)
        assert begin_all(SLOW, bucket, [T0, T0 + seconds(6)]) == [T0 + seconds(6)]

    def test_more_at_a_time_begin_none_sooner(self) -> None:
        more = replace(SLOW, at_once=5)
        bucket = Bucket.empty(T0, SLOW).change(SLOW, more, T0)
        assert begin_all(more, bucket, [T0, T0 + seconds(6)]) == [T0 + seconds(6)]

    @given(
        every=st.integers(1, 60),
        at_once=st.integers(1, 5),
        gaps=st.lists(st.integers(0, 30), max_size=30),
        restarts=st.sets(st.integers(0, 30)),
    )
    def test_no_restart_makes_it_faster(
        self, every: int, at_once: int, gaps: list[int], restarts: set[int]
    ) -> None:
        """However often the manager starts anew: any span holds one bucket, and one a period."""
        pace = DrainPace(every=seconds(every), at_once=at_once)
        bucket, now, begun = Bucket.full(T0), T0, []
        for index, gap in enumerate(gaps):
            now += seconds(gap)
            if index in restarts:
                bucket = Bucket.empty(now, pace)
            while bucket.has_one(pace, now):
                bucket = bucket.take(pace, now)
                begun.append(now)
        for first, start in enumerate(begun):
            for count, end in enumerate(begun[first:], start=1):
                assert count <= at_once + (end - start) / pace.every


class TestEstimate:
    def test_the_last_one_to_stop_ends_it(self) -> None:
        got = estimate_end(
            [seconds(100)],
            [seconds(30)] * 3,
            bucket=Bucket.full(T0),
            pace=replace(SLOW, at_once=9, every=seconds(0.1)),
            now=T0,
        )
        assert got == T0 + seconds(100)

    @pytest.mark.parametrize(
        ("moving", "leaving", "want"),
        [
            ([], [], 0),
            ([], [30], 30),
            ([], [30, 30], 30),
            ([], [1, 1, 1], 7),
            ([], [30, 30, 30], 60),
            ([20, 40], [5], 40),
        ],
        ids=[
            "nothing",
            "one",
            "two at once",
            "the third waits for its turn",
            "the third waits for a place",
            "a place becomes free",
        ],
    )
    def test_turns_and_places_are_waited_for(
        self, moving: list[int], leaving: list[int], want: int
    ) -> None:
        got = estimate_end(
            [seconds(n) for n in moving],
            [seconds(n) for n in leaving],
            bucket=Bucket.full(T0),
            pace=SLOW,
            now=T0,
        )
        assert got == T0 + seconds(want)


class TestReport:
    REPORT = DrainReport(moved=3, moving=1, left=2, lost_gpu_hours=12.5, ends_at=T0)

    def test_it_says_how_far_it_is(self) -> None:
        text = str(replace(self.REPORT, staying={"ns/a": "no room"}))
        assert text == (
            "3 moved, 1 moving, 2 left; at most 12.50 GPU-hours of work lost; "
            "done about 2026-01-01T12:00:00Z; ns/a stays: no room"
        )

    def test_the_next_manager_reads_it_back(self) -> None:
        assert parse_report(str(self.REPORT)) == self.REPORT
        held = replace(self.REPORT, ends_at=None, trouble="the worker cannot be reached")
        assert parse_report(str(held)) == held
        assert parse_report("by hand") == DrainReport()

    def test_it_names_a_few_that_stay(self) -> None:
        text = str(DrainReport(left=12, staying={f"ns/{n}": f"no room {n}" for n in range(12)}))
        assert text.count("stays") == SHOWN
        assert text.endswith("; 2 more stay")

    @pytest.mark.parametrize(
        ("change", "want"),
        [
            ({}, False),
            ({"ends_at": T0 + seconds(29)}, False),
            ({"ends_at": T0 + seconds(31)}, True),
            ({"ends_at": None}, True),
            ({"moving": 2}, True),
            ({"staying": {"ns/a": "b waits: 8 asked, 3 free"}}, False),
            ({"staying": {"ns/a": "c waits: 8 asked, 2 free"}}, True),
            ({"staying": {}}, True),
        ],
    )
    def test_what_is_worth_a_write(self, change: dict[str, Any], want: bool) -> None:
        old = replace(self.REPORT, staying={"ns/a": "b waits: 8 asked, 2 free"})
        assert is_news(str(old), str(replace(old, **change))) is want
