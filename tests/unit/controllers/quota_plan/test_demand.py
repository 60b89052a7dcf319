"""What counts as demand: what runs, and what waited and then ran."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.controllers.quota_plan.demand import (
    LONGEST_HOLE,
    DemandRecord,
    QuotaStay,
    read_demand,
    read_stay,
    write_demand,
)
from multiqueue.controllers.quota_plan.propose import SAMPLE_EVERY, QuotaKey
from tests.builders.workloads import T0, admitted, make_workload, minutes

KEY = QuotaKey("cq", "a100", "gpu")
EVER = timedelta(days=1000)


def stay(
    amount: int, begun: datetime, ended: datetime | None = None, *, queued: datetime | None = None
) -> QuotaStay:
    return QuotaStay(
        queue="cq",
        amounts={KEY[1:]: amount},
        queued=queued or begun,
        begun=begun,
        ended=ended,
    )


def sample(record: DemandRecord, *stays: QuotaStay, now: datetime, credit: int = 60) -> bool:
    return record.sample([KEY], stays, now=now, credit=timedelta(minutes=credit), half_life=EVER)


def measured(*stays: QuotaStay, until: int, credit: int = 60) -> list[int]:
    """The samples from T0 on, if somebody looked every five minutes."""
    record = DemandRecord()
    for minute in range(0, until + 1, 5):
        sample(record, *stays, now=minutes(minute), credit=credit)
    return record.series[KEY].recent


def test_what_runs_is_demand_while_it_runs() -> None:
    assert measured(stay(4, minutes(5), minutes(15)), until=20) == [0, 4, 4, 0, 0]


def test_what_waited_is_demand_once_it_has_run_for_a_minute() -> None:
    job = stay(4, minutes(20), queued=minutes(10))
    assert measured(job, until=20) == [0, 0, 0, 0, 4]
    assert measured(job, until=25) == [0, 0, 4, 4, 4, 4]


def test_only_so_much_of_a_wait_counts() -> None:
    record, job = DemandRecord(), stay(4, minutes(60), queued=T0)
    for minute in range(0, 66, 5):
        sample(record, job, now=minutes(minute), credit=30)
    assert record.series[KEY].recent == [4] * 8  # from minute 30 on
    assert [amount for amount, _ in record.series[KEY].histogram] == [0]


def test_what_ran_for_less_than_a_minute_had_not_waited() -> None:
    job = stay(4, minutes(20), minutes(20) + timedelta(seconds=50), queued=T0)
    assert measured(job, until=25) == [0, 0, 0, 0, 4, 0]


def test_what_ran_between_two_samples_had_waited() -> None:
    job = stay(4, minutes(16), minutes(18), queued=minutes(6))
    assert measured(job, until=20) == [0, 0, 4, 4, 0]


def test_no_sample_is_taken_before_its_time() -> None:
    record = DemandRecord()
    assert sample(record, now=T0)
    assert not sample(record, now=minutes(4))
    assert sample(record, now=minutes(5))


def test_a_short_time_without_a_manager_is_made_up_for() -> None:
    record, job = DemandRecord(), stay(4, minutes(10), minutes(20))
    sample(record, job, now=T0)
    sample(record, job, now=minutes(30))
    assert record.series[KEY].recent == [0, 0, 4, 4, 0, 0, 0]


def test_a_long_time_without_a_manager_is_a_hole() -> None:
    record = DemandRecord()
    sample(record, now=T0)
    later = T0 + LONGEST_HOLE + SAMPLE_EVERY
    sample(record, stay(4, T0), now=later)
    assert record.series[KEY].recent == [4]
    assert round(record.series[KEY].histogram.weight) == 1000  # the one before the hole
    assert record.series[KEY].since == T0


def test_a_clock_that_is_set_back_begins_anew() -> None:
    record = DemandRecord()
    sample(record, now=minutes(600))
    assert sample(record, now=T0)
    assert record.until == T0


def test_a_status_gives_back_what_was_measured() -> None:
    record, job = DemandRecord(), stay(4, minutes(100))
    for minute in range(0, 201, 5):
        sample(record, job, now=minutes(minute), credit=30)
    assert record.until is not None
    again = read_demand(write_demand(record), format_time(record.until))
    assert again.series[KEY].recent == record.series[KEY].recent
    assert write_demand(again) == write_demand(record)


def test_unreadable_rows_count_as_not_measured() -> None:
    record = DemandRecord()
    sample(record, now=T0)
    (row,) = write_demand(record)
    assert read_demand([row], "").series == {}
    odd = msgspec.structs.replace(row, recent=f"4x2 x -1x3 5 {'9' * 5000}x1")
    assert read_demand([odd], format_time(T0)).series[KEY].recent == [4, 4]


def test_a_workload_tells_what_it_holds_and_since_when_it_waited() -> None:
    assert read_stay(make_workload()) is None
    got = read_stay(admitted(make_workload()))
    assert got is not None
    assert (got.queue, got.amounts) == ("cq", {("default", "cpu"): 1000})
    assert got.queued <= got.begun
