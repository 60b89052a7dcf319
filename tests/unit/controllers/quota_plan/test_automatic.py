"""When a plan changes quotas by itself, and takes a change back (P-110, P-111)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TypeAlias

import msgspec
import pytest

from multiqueue.api.v1alpha1 import (
    PlanChange,
    PlanWatch,
    QuotaPlan,
    QuotaPlanSpec,
    QuotaPlanStatus,
    WatchedQueue,
)
from multiqueue.api.v1beta2.meta import ObjectMeta, format_time
from multiqueue.controllers.quota_plan.decide import (
    PlanView,
    begin_change,
    end_change,
    find_change,
    find_return,
    with_problem,
    with_proposal,
)
from multiqueue.controllers.quota_plan.guard import QueueHistory, QueueWait
from multiqueue.controllers.quota_plan.histogram import SAMPLE, DemandHistogram, decay_of
from multiqueue.controllers.quota_plan.propose import MeasuredDemand, PlanRules, QuotaKey
from tests.builders.workloads import T0

GPU = ("a100", "nvidia.com/gpu")
A, B = (QuotaKey(name, *GPU) for name in "ab")
NOW = T0 + timedelta(days=20)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Row: TypeAlias = tuple[dict[QuotaKey, int], dict[QuotaKey, int]]


def measured(amount: int) -> MeasuredDemand:
    histogram = DemandHistogram()
    histogram.add(amount, SAMPLE * 2016)
    return MeasuredDemand(since=T0, histogram=histogram)


class PlanWorld:
    """A plan of two queues with 50 devices each, looked at every hour."""

    def __init__(self, mode: str = "Automatic") -> None:
        self.now = NOW
        self.plan = QuotaPlan(
            metadata=ObjectMeta(name="plan", generation=1), spec=QuotaPlanSpec(mode=mode)
        )
        self.quotas = {A: 50, B: 50}
        self.wants = {A: 70, B: 20}
        self.measured: dict[QuotaKey, DemandHistogram] = {}
        self.obstacle = ""
        self.histories = {"b": QueueHistory()}

    def feed(self, demand: Mapping[QuotaKey, int]) -> None:
        """Take an hour's sample of the demand."""
        for key, amount in demand.items():
            self.measured.setdefault(key, DemandHistogram()).decay(decay_of(HOUR, 7 * DAY))
            self.measured[key].add(amount, 12 * SAMPLE)

    def view(self) -> PlanView:
        return PlanView(
            plan=self.plan,
            rules=PlanRules(name="plan", steps={GPU: 1}, changes=self.plan.status.changes),
            quotas=self.quotas,
            demand={
                **{key: measured(amount) for key, amount in self.wants.items()},
                **{k: MeasuredDemand(since=T0, histogram=h) for k, h in self.measured.items()},
            },
            held={},
            obstacle=self.obstacle,
        )

    def keep(self, status: QuotaPlanStatus) -> None:
        status = msgspec.structs.replace(status, observed_generation=self.plan.metadata.generation)
        self.plan = msgspec.structs.replace(self.plan, status=status)

    def look(self) -> PlanChange | None:
        """Look as the controller does; a change is made at once."""
        status = with_proposal(self.view(), self.now)
        change = find_return(self.view(), status, self.histories, self.now)
        change = change or find_change(self.view(), status)
        self.keep(status)
        if change is None:
            return None
        if status.proposal is not None and status.proposal.hash == change.hash:
            queue = WatchedQueue(cluster_queue="b", wait_seconds=60)
            watch = PlanWatch(until=format_time(self.now + DAY), queues=(queue,))
            change = msgspec.structs.replace(change, watch=watch)
        self.keep(begin_change(status, change))
        for move in change.moves:
            self.quotas[QuotaKey(move.cluster_queue, *GPU)] = int(move.after)
        self.keep(end_change(self.plan, self.quotas, self.now))
        return change

    def wait(self, hours: int) -> PlanChange | None:
        """Look every hour; return the first change."""
        for _ in range(hours):
            self.now += HOUR
            change = self.look()
            if change is not None:
                return change
        return None

    def edit(self, **spec: object) -> None:
        generation = self.plan.metadata.generation + 1
        self.plan = msgspec.structs.replace(
            self.plan,
            metadata=msgspec.structs.replace(self.plan.metadata, generation=generation),
            spec=msgspec.structs.replace(self.plan.spec, **spec),
        )

    def starve_b(self, since: datetime) -> None:
        """Ten Workloads of the queue that shrank wait."""
        self.histories["b"] = QueueHistory(waits=[QueueWait(since, None)] * 10)


def changed() -> PlanWorld:
    world = PlanWorld()
    world.look()
    assert world.wait(48) is not None
    return world


def test_what_keeps_its_direction_for_two_periods_is_applied() -> None:
    world = PlanWorld()
    world.look()
    assert "it is applied by itself from 2026-01-23T00:00:00Z on" in world.plan.status.message
    assert world.wait(47) is None
    change = world.wait(1)
    assert change is not None
    assert (change.by, world.quotas) == ("mode Automatic", {A: 55, B: 45})
    assert world.plan.status.state == "Applied"


def test_another_amount_in_the_same_direction_goes_on() -> None:
    world = PlanWorld()
    world.look()
    world.wait(30)
    world.wants = {A: 57, B: 46}  # 54 and 46 are wanted then
    assert world.wait(17) is None
    assert world.wait(1) is not None


def test_another_direction_begins_anew() -> None:
    world = PlanWorld()
    world.look()
    world.wants = {A: 20, B: 70}
    assert world.wait(71) is None
    assert world.wait(1) is not None
    assert world.quotas == {A: 45, B: 55}


def test_a_pause_in_the_proposals_begins_anew() -> None:
    world = PlanWorld()
    world.look()
    world.wants = {A: 50, B: 50}
    assert world.wait(24) is None
    world.wants = {A: 70, B: 20}
    assert world.wait(71) is None
    assert world.wait(1) is not None


def test_nothing_is_applied_by_itself_in_the_mode_propose() -> None:
    world = PlanWorld("Propose")
    world.look()
    assert world.wait(200) is None


def test_something_in_the_way_delays_it() -> None:
    world = PlanWorld()
    world.look()
    world.obstacle = 'ClusterQueue "a" has spec.stopPolicy Hold'
    assert world.wait(100) is None
    assert f"but not while {world.obstacle}; to agree" in world.plan.status.message
    world.obstacle = ""
    assert world.wait(1) is not None


def test_the_next_change_waits_until_the_last_one_is_watched_no_more() -> None:
    world = changed()
    watch = world.plan.status.watch
    assert watch is not None
    world.keep(
        msgspec.structs.replace(
            world.plan.status,
            watch=msgspec.structs.replace(watch, until=format_time(world.now + 5 * DAY)),
        )
    )
    assert world.wait(5 * 24) is None
    assert "the last change is watched until" in world.plan.status.message
    assert world.wait(1) is not None


def test_a_change_that_does_harm_goes_back_and_the_plan_rests_until_its_spec_changes() -> None:
    world = changed()
    assert world.wait(3) is None
    world.starve_b(world.now - 2 * HOUR)
    back = world.wait(1)
    assert back is not None
    assert world.quotas == {A: 50, B: 50}
    status = world.plan.status
    assert (status.state, status.watch, back.by) == ("Returned", None, "spec.guard")
    assert 'Workloads of ClusterQueue "b" waited up to 1m0s before' in status.message
    assert world.wait(200) is None
    assert world.plan.status.message == status.message
    world.edit(deadband_percent=6)
    assert world.wait(73) is not None


def test_a_change_that_somebody_agreed_to_goes_back_too() -> None:
    world = PlanWorld("Propose")
    world.look()
    proposal = world.plan.status.proposal
    assert proposal is not None
    world.edit(approved=proposal.hash)
    assert world.look() is not None
    world.starve_b(world.now)
    assert world.wait(1) is not None
    assert world.plan.status.state == "Returned"
    assert world.quotas == {A: 50, B: 50}


def test_a_plan_whose_change_went_back_also_tells_what_is_wrong_with_it() -> None:
    world = changed()
    world.starve_b(world.now)
    assert world.wait(1) is not None
    told = world.plan.status.message
    for problem in ("odd", "odder"):
        status = with_problem(world.plan, problem)
        assert status.state == "Returned"
        assert status.message == f"{told}. The plan cannot be followed either: {problem}"
        world.keep(status)
    assert world.wait(1) is None
    assert world.plan.status.message == told


def test_a_change_that_does_harm_goes_back_while_the_plan_is_paused() -> None:
    world = changed()
    world.edit(mode="Paused")
    assert world.wait(3) is None
    assert world.plan.status.state == "Paused"
    world.starve_b(world.now - 2 * HOUR)
    assert world.wait(1) is not None
    assert (world.plan.status.state, world.quotas) == ("Returned", {A: 50, B: 50})


def test_harm_after_the_watch_is_none_of_the_change() -> None:
    world = changed()
    assert world.wait(24) is None
    world.starve_b(world.now - 5 * HOUR)
    world.wait(1)
    assert world.plan.status.watch is None
    assert world.quotas == {A: 55, B: 45}


def test_quotas_that_somebody_else_changed_are_not_taken_back() -> None:
    world = changed()
    world.quotas = {A: 60, B: 40}
    world.starve_b(world.now)
    assert world.wait(2) is None
    assert world.plan.status.watch is None


def test_an_approval_that_came_too_late_is_still_told() -> None:
    world = PlanWorld()
    world.edit(approved="0123456789ab")
    world.look()
    assert world.wait(48) is not None
    assert world.plan.status.handled == ""
    world.wait(24)
    assert "spec.approved is 0123456789ab, which is not the proposal" in world.plan.status.message


# ---------------------------------------------------------------- sixty days


def play(seed: int, a: int, b: int, scale: Callable[[float], float]) -> list[Row]:
    """60 days of jobs of two hours; return the demand and the quotas of each hour.

    Demand is about that much: that of `a` times the scale of the day, that of `b` by it.
    """
    draw, world, rows = random.Random(seed), PlanWorld(), []
    demand: dict[QuotaKey, int] = {}
    for hour in range(60 * 24):
        if hour % 2 == 0:
            means = {A: a * scale(hour / 24), B: b / scale(hour / 24)}
            demand = {key: max(0, round(draw.gauss(m, m / 4))) for key, m in means.items()}
        world.feed(demand)
        world.wait(1)
        assert sum(world.quotas.values()) == 100
        rows.append((demand, dict(world.quotas)))
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_quotas_do_not_swing_while_demand_stays_what_it_is(seed: int) -> None:
    """P-116: the direction of a queue turns once in 14 days at most."""
    quotas = [after[A] for _, after in play(seed, 35, 50, lambda _: 1.0)]
    moves = [(hour, q - p) for hour, (p, q) in enumerate(pairwise(quotas)) if p != q]
    assert moves
    turns = [hour for (_, before), (hour, change) in pairwise(moves) if before * change < 0]
    assert all(later - earlier >= 14 * 24 for earlier, later in pairwise(turns))


def test_quotas_follow_demand_that_moves_from_one_team_to_the_other() -> None:
    """S-12: from day 20 to 34 one team comes to want twice as much, the other one half.

    What is not met afterwards is at most 60 % of what fixed quotas leave. Much less is not to be
    had: with monthPercent 30 a quota of 50 becomes about 65.
    """
    before = after = 0.0
    for seed in range(5):
        rows = play(seed, 35, 35, lambda day: 2 ** min(1.0, max(0.0, (day - 20) / 14)))
        for demand, quotas in rows[34 * 24 :]:
            before += sum(max(0, amount - 50) for amount in demand.values())
            after += sum(max(0, demand[key] - quotas[key]) for key in demand)
    assert after <= 0.6 * before
