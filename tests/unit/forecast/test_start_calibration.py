"""Estimates of starts are compared with the starts that came."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import format_time
from multiqueue.engine.plan import Admit
from multiqueue.forecast.calibration import (
    MAX_AT_ONCE,
    MAX_KEPT,
    MAX_WORKLOADS,
    MINUTE,
    Calibration,
)
from multiqueue.observability.families import ROLE
from multiqueue.plugins.forecast import Runtime
from multiqueue.views.calibration import WINDOW, EstimateOutcome, StartHorizon, say_calibration
from multiqueue.views.start import StartStage
from tests.builders.engine import NAMESPACE, T0, make_workload, pod_set, reserved
from tests.unit.forecast.test_manager_starts import Manager

KEY = f"{NAMESPACE}/w"
Told = Mapping[str, Any]


class Judge:
    """A `Calibration`, and what it told of each judged estimate."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.calibration = Calibration(lambda *labels: self.told.update(["/".join(labels)]))

    def keep(self, low: float, high: float, *, at: float = 0, key: str = KEY) -> None:
        """Keep an estimate that is made after so many minutes, with a range in minutes."""
        moments = {"earliest": low, "at": (low + high) / 2, "latest": high}
        start = {name: format_time(after(minutes)) for name, minutes in moments.items()}
        self.calibration.keep(key, {**start, "stage": "whole"}, after(at))

    def follow(self, at: float, *, key: str = KEY, **true: float) -> None:
        """See a Workload with conditions that have been True since so many minutes."""
        self.calibration.follow(key, make_seen(true), after(at))

    def inside(self, horizon: StartHorizon, at: float) -> Told:
        rows = list(self.calibration.list_rows(after(at)))
        (found,) = (row for row in rows if (row["stage"], row["horizon"]) == ("whole", horizon))
        return found


def after(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def make_seen(true: Mapping[str, float], *, active: bool = True) -> api.Workload:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": format_time(after(minutes))}
        for kind, minutes in true.items()
    ]
    return decode(api.Workload, {"spec": {"active": active}, "status": {"conditions": conditions}})


@pytest.mark.parametrize(
    ("started", "outcome"),
    [(19, "early"), (19.6, "inside"), (25, "inside"), (30.4, "inside"), (31, "late")],
)
def test_a_start_is_compared_with_the_range_to_half_a_minute(started: float, outcome: str) -> None:
    judge = Judge()
    judge.keep(20, 30)
    judge.follow(1)
    judge.follow(started, QuotaReserved=5)
    assert not judge.told, "it has quota; its checks have not passed"
    judge.follow(started, QuotaReserved=5, Admitted=started)
    assert judge.told == {f"whole/1h/{outcome}": 1}
    assert judge.calibration.known == 0


def test_estimates_of_quota_are_judged_when_it_has_quota() -> None:
    judge = Judge()
    start = {name: format_time(after(8)) for name in ("earliest", "at", "latest")}
    judge.calibration.keep(KEY, {**start, "stage": "quota"}, T0)
    judge.follow(8, QuotaReserved=8)
    assert judge.told == {"quota/10m/inside": 1}
    assert judge.calibration.known == 0


def test_an_estimate_is_late_once_its_range_has_passed() -> None:
    judge = Judge()
    judge.keep(20, 30)
    assert judge.inside(StartHorizon.HOUR, 30)["late"] == 0
    assert judge.inside(StartHorizon.HOUR, 31)["late"] == 1
    judge.follow(90, QuotaReserved=90, Admitted=90)
    assert judge.told == {"whole/1h/late": 1}, "it is counted once"


@pytest.mark.parametrize(("gone", "outcome"), [(10, "cancelled"), (40, "late")])
def test_one_that_never_starts_is_cancelled_or_late(gone: float, outcome: str) -> None:
    for workload in (None, make_seen({"Finished": gone}), make_seen({}, active=False)):
        judge = Judge()
        judge.keep(20, 30)
        judge.calibration.follow(KEY, workload, after(gone))
        assert judge.told == {f"whole/1h/{outcome}": 1}
        assert judge.calibration.known == 0


def test_of_one_workload_few_estimates_are_kept() -> None:
    judge = Judge()
    for minute in range(9):
        judge.keep(60, 80, at=minute)
    judge.follow(70, QuotaReserved=70, Admitted=70)
    assert judge.told == {"whole/6h/inside": 5}, "after 0, 1, 2, 4 and 8 minutes"
    for power in range(20):
        judge.keep(2**22, 2**23, at=2**power)
    judge.follow(2**22, QuotaReserved=2**22, Admitted=2**22)
    assert judge.told["whole/longer/inside"] == MAX_KEPT


def test_memory_is_bounded() -> None:
    judge = Judge()
    for number in range(MAX_WORKLOADS + 5):
        judge.keep(20, 30, key=f"ns/{number}")
    assert judge.calibration.known == MAX_WORKLOADS
    judge.follow(25, key="ns/0", QuotaReserved=25, Admitted=25)
    judge.keep(40, 60, at=26, key="ns/new")
    assert judge.calibration.known == MAX_WORKLOADS
    for _ in range(MAX_WORKLOADS // MAX_AT_ONCE):
        before = judge.told["whole/1h/late"]
        assert judge.inside(StartHorizon.HOUR, 99)["judged"] <= WINDOW
        assert judge.told["whole/1h/late"] - before <= MAX_AT_ONCE, "other tasks run between"
    assert judge.told == {"whole/1h/late": MAX_WORKLOADS, "whole/1h/inside": 1}
    assert judge.inside(StartHorizon.HOUR, 99)["judged"] == WINDOW


def test_now_and_no_estimate_are_not_judged() -> None:
    judge = Judge()
    judge.keep(0, 0)
    judge.calibration.keep(KEY, {"code": "Held", "reason": "it is held"}, T0)
    assert judge.calibration.known == 0
    assert judge.calibration.describe({"code": "Held"}, T0) is None


def test_words_say_how_far_to_trust_an_estimate() -> None:
    def say(early: int, inside: int, late: int) -> str:
        counts = zip(EstimateOutcome, (early, inside, late), strict=False)
        return say_calibration(StartStage.WHOLE, StartHorizon.HOUR, dict(counts))

    assert say(18, 158, 24) == (
        "of the last 200 estimates of starts, 10 minutes to an hour ahead, 79 % held, "
        "9 % of the jobs started earlier and 12 % later"
    )
    assert say(0, 3, 1) == (
        "only 4 of the estimates of starts, 10 minutes to an hour ahead, checked so far: 3 held"
    )
    assert "has been checked yet" in say(0, 0, 0)


# ---------------------------------------------------------------- the manager's own


async def test_what_the_manager_said_is_compared_with_what_came() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    manager.submit("waits", 4, 10)
    told = await manager.starts.find_start(f"{NAMESPACE}/waits")
    assert told is not None
    assert manager.starts.add_calibration(told)["calibration"]["judged"] == 0
    manager.now += timedelta(minutes=20)
    finish(manager, "runs")
    admit(manager)
    held = [row for row in manager.starts.list_calibrations() if row["judged"]]
    assert [(row["horizon"], row["early"]) for row in held] == [("6h", 1)]
    assert count(manager, "early") == 1


def count(manager: Manager, outcome: str) -> float | None:
    labels = {"stage": "whole", "horizon": "6h", "outcome": outcome, ROLE: "standalone"}
    return manager.metrics.registry.get_sample_value("multiqueue_start_estimates_total", labels)


async def test_a_workload_of_the_same_name_is_another() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    manager.submit("waits", 4, 10)
    await manager.starts.find_start(f"{NAMESPACE}/waits")
    again = {"metadata": {"name": "waits", "namespace": NAMESPACE, "uid": "another"}}
    manager.informers.workloads.put(decode(api.Workload, again))
    assert count(manager, "cancelled") == 1


class BusyQueue:
    """Four GPUs, jobs whose runtimes spread, and each estimate judged by its own words.

    The manager is told of a part of that spread: `said`.
    """

    def __init__(self, seed: int, said: float = 1.0) -> None:
        self.manager, self.dice, self.said_spread = Manager(), random.Random(seed), said
        self.minutes: dict[str, float] = {}
        self.ends: list[tuple[datetime, str]] = []
        self.said: dict[str, Told] = {}
        self.right = Counter[str]()

    def submit(self, name: str) -> None:
        """Submit a job a while later; those that ended until then have made room."""
        arrival = self.manager.now + timedelta(minutes=self.dice.expovariate(1 / 11))
        while self.ends and self.ends[0][0] <= arrival:
            self.manager.now, ended = heapq.heappop(self.ends)
            finish(self.manager, ended)
            self.start()
        self.manager.now = arrival = max(arrival, self.manager.now)
        self.minutes[name] = 40 * math.exp(self.dice.gauss(0, 0.8))
        tenth = math.exp(1.2816 * 0.8 * self.said_spread)
        expected = timedelta(minutes=40)
        self.manager.runtimes[f"{NAMESPACE}/{name}"] = Runtime(
            expected=expected, low=expected / tenth, high=expected * tenth
        )
        pods = [pod_set(gpu=self.dice.choice((1, 1, 2)))]
        self.manager.put(make_workload(name, queue="lq", pod_sets=pods, at=arrival))
        self.start()

    def start(self) -> None:
        for name in admit(self.manager):
            now = self.manager.now
            heapq.heappush(self.ends, (now + timedelta(minutes=self.minutes[name]), name))
            if (told := self.said.pop(name, None)) is not None:
                self.right[judge_words(told, now.replace(microsecond=0))] += 1

    async def ask(self, name: str) -> None:
        told = await self.manager.starts.find_start(f"{NAMESPACE}/{name}")
        if told is not None:
            self.said[name] = told


def judge_words(told: Told, now: datetime) -> str:
    low, high = (datetime.fromisoformat(told[each]) for each in ("earliest", "latest"))
    if now > high + MINUTE / 2:
        return "late"
    return "early" if now < low - MINUTE / 2 else "inside"


async def test_over_days_the_published_share_is_the_true_one() -> None:
    busy = BusyQueue(7)
    for number in range(120):
        busy.submit(f"w{number}")
        await busy.ask(f"w{number}")
    got = Counter[str]()
    for row in busy.manager.starts.list_calibrations():
        got.update({outcome: row[outcome] for outcome in ("early", "inside", "late")})
    busy.right["late"] += sum(
        judge_words(told, busy.manager.now) == "late" for told in busy.said.values()
    )
    assert got.total() > 40, "the queue was busy"
    assert got == busy.right
    assert 0.5 < got["inside"] / got.total() < 1


def admit(manager: Manager) -> list[str]:
    """Admit what fits in the next seconds, and return it."""
    started = []
    while (due := manager.engine.next_cycle_at(manager.now)) is not None:
        if due > manager.now + timedelta(seconds=2):
            break
        manager.now = max(manager.now, due)
        for decision in manager.engine.run_cycle(manager.now).decisions:
            if isinstance(decision, Admit):
                start(manager, decision)
                started.append(decision.workload.partition("/")[2])
    return started


def start(manager: Manager, decision: Admit) -> None:
    at = format_time(manager.now)
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": at}
        for kind in ("QuotaReserved", "Admitted")
    ]
    workload = manager.built[decision.workload]
    held = reserved(workload, decision.admission, at=manager.now, admitted=True)
    manager.put(held, conditions=conditions)


def finish(manager: Manager, name: str) -> None:
    key = f"{NAMESPACE}/{name}"
    manager.engine.delete_workload(key, manager.now)
    manager.informers.workloads.drop(key)


def test_each_stage_ends_with_a_condition() -> None:
    judge = Judge()
    rows = [(row["stage"], row["horizon"]) for row in judge.calibration.list_rows(T0)]
    assert rows == [(stage, horizon) for stage in StartStage for horizon in StartHorizon]
