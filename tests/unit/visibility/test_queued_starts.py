"""Estimated starts of rows: few a second, kept for a while, and only by the leader."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.visibility.fleet.queued_starts import NOT_YET, PER_SECOND, QueuedStarts
from multiqueue.visibility.fleet.starts import find_next_start
from tests.builders.workloads import T0
from tests.virtual_time import run_virtual


class Estimates:
    """Estimates an hour for everybody; `asked` has who was estimated."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hours = 1
        self.gone: set[str] = set()

    async def find_start(self, key: str) -> dict[str, Any] | None:
        self.asked.append(key)
        if key in self.gone:
            return None
        return {"at": format_time(T0 + timedelta(hours=self.hours))}


def make(estimates: Estimates, *, leads: bool = True) -> QueuedStarts:
    leading = asyncio.Event()
    if leads:
        leading.set()
    return QueuedStarts(estimates, leading, lambda: T0)


def test_a_burst_of_rows_is_estimated_bit_by_bit() -> None:
    async def main() -> None:
        estimates = Estimates()
        starts = make(estimates)
        keys = [f"ns/{number}" for number in range(2 * PER_SECOND)]
        found = [await starts.find_start(key) for key in keys]
        assert [each == NOT_YET for each in found] == [False] * PER_SECOND + [True] * PER_SECOND
        assert await starts.refresh() == []
        await asyncio.sleep(1)
        assert await starts.refresh() == keys[PER_SECOND:]
        assert estimates.asked == keys

    run_virtual(main())


def test_an_estimate_is_kept_for_a_share_of_the_wait_and_a_change_is_told() -> None:
    async def main() -> None:
        estimates = Estimates()
        starts = make(estimates)
        first = await starts.find_start("ns/a")
        await asyncio.sleep(30)
        assert await starts.find_start("ns/a") is first
        estimates.hours = 2
        await asyncio.sleep(31)
        assert await starts.refresh() == ["ns/a"]
        assert (await starts.find_start("ns/a"))["at"] == format_time(T0 + timedelta(hours=2))
        assert len(estimates.asked) == 2

    run_virtual(main())


def test_the_next_start_is_the_first_of_all_that_are_known_and_rest_on_no_guess() -> None:
    async def main() -> None:
        estimates = Estimates()
        starts = make(estimates)
        await starts.find_start("ns/a")
        estimates.hours = 3
        await starts.find_start("ns/b")
        known = [*starts.list_known(), None, NOT_YET]
        assert find_next_start(known, T0) == format_time(T0 + timedelta(hours=1))
        assert find_next_start(known, T0 + timedelta(hours=2)) == format_time(
            T0 + timedelta(hours=3)
        )
        guess = {"at": format_time(T0), "basis": "Assumed"}
        assert find_next_start([guess], T0) is None

    run_virtual(main())


def test_a_follower_says_that_it_does_not_know_and_who_is_gone_is_forgotten() -> None:
    async def main() -> None:
        estimates = Estimates()
        assert (
            "only the manager that leads"
            in (await make(estimates, leads=False).find_start("ns/a"))["reason"]
        )
        assert estimates.asked == []
        starts = make(estimates)
        estimates.gone.add("ns/a")
        assert await starts.find_start("ns/a") == NOT_YET
        assert await starts.refresh() == []

    run_virtual(main())
