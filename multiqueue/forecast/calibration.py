"""Compare the starts that were estimated with those that came.

An estimate is kept when a Workload is first asked about, and again after it has waited for 1, 2, 4,
... minutes since. It is judged when the Workload starts, or once its range has passed. Everything
but the factors is in memory: a restart begins anew. Parity: S-106.

Times are shown by the minute, and conditions have whole seconds. So a start half a minute outside
the range counts as inside. "Now" is no estimate, and is not judged.

The same comparison says by which factor later ranges are widened or narrowed (`range_factor`). An
estimate that is late counts as one that no factor reaches, until its Workload starts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from typing import Any

from multiqueue.api.conditions import WorkloadCondition, find_condition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import is_finished
from multiqueue.forecast.range_factor import LEAST, MOST, find_factor, find_needed, less_slack
from multiqueue.plugins.forecast import StartEstimate
from multiqueue.views.calibration import (
    JUDGED,
    WINDOW,
    EstimateOutcome,
    StartHorizon,
    find_horizon,
    tell_calibration,
)
from multiqueue.views.start import SLACK, StartStage

MAX_WORKLOADS = 1000
"""Workloads whose estimates are kept at a time, in at most 3 MB.

Those of further ones are not kept. If the oldest were dropped instead, long waits would be missing
from the figures, and these would look better than they are.
"""
MAX_KEPT = 12
"""Estimates of one Workload that are kept at most."""
MAX_AT_ONCE = 100
"""Workloads whose late estimates are judged in one go; those of further ones are by the next."""
MINUTE = timedelta(minutes=1)
NEVER = datetime.max.replace(tzinfo=UTC)
ENDS_WITH = {
    StartStage.QUOTA: WorkloadCondition.QUOTA_RESERVED,
    StartStage.WHOLE: WorkloadCondition.ADMITTED,
}
"""The condition that becomes True when what was estimated has come."""

Json = Mapping[str, Any]
Place = tuple[StartStage, StartHorizon]
OnJudged = Callable[[StartStage, StartHorizon, EstimateOutcome], None]
OnFactor = Callable[[StartStage, StartHorizon, float], None]


@dataclass(slots=True)
class JudgedEstimate:
    """What became of an estimate, and by which factor its range was too narrow."""

    outcome: EstimateOutcome
    needed: float = math.inf


@dataclass(slots=True)
class GivenEstimate:
    """An estimate that waits to be judged.

    Attributes:
        at: The median, before room was kept.
        below, above: The range around it, before any factor.
        judged: How it was judged, if it is late and its Workload has not started.
    """

    at: datetime
    earliest: datetime
    latest: datetime
    below: timedelta
    above: timedelta
    stage: StartStage
    horizon: StartHorizon
    judged: JudgedEstimate | None = None

    def find_needed(self, started: datetime) -> float:
        """Return the factor with which its range would have had a start inside."""
        return find_needed(less_slack(started - self.at), self.below, self.above)

    def judge(self, started: datetime) -> EstimateOutcome:
        """Return how it compares with a start, or with a moment at which nothing has started."""
        if started > self.latest + SLACK:
            return EstimateOutcome.LATE
        is_early = started < self.earliest - SLACK
        return EstimateOutcome.EARLY if is_early else EstimateOutcome.INSIDE


@dataclass(slots=True)
class GivenEstimates:
    """Those of one Workload that waits.

    Attributes:
        first_at: When the first was made.
        kept: How many were kept so far.
        waiting: Those that are not judged yet.
        late: Those that were judged because their range has passed.
        late_at: When the first of these is late, if nothing starts before.
    """

    first_at: datetime
    kept: int = 0
    waiting: list[GivenEstimate] = field(default_factory=list)
    late: list[GivenEstimate] = field(default_factory=list)
    late_at: datetime = NEVER

    def is_due(self, now: datetime) -> bool:
        """Whether the next estimate is to be kept."""
        if self.kept == 0:
            return True
        return self.kept < MAX_KEPT and now - self.first_at >= MINUTE * 2 ** (self.kept - 1)

    def keep(self, estimate: GivenEstimate) -> None:
        """Keep an estimate."""
        self.kept += 1
        self.waiting.append(estimate)
        self.late_at = min(self.late_at, estimate.latest + SLACK)

    def take_late(self, now: datetime) -> list[GivenEstimate]:
        """Remove and return those whose range has passed."""
        late = [each for each in self.waiting if now > each.latest + SLACK]
        self.late += late
        self.waiting = [each for each in self.waiting if now <= each.latest + SLACK]
        self.late_at = min((each.latest + SLACK for each in self.waiting), default=NEVER)
        return late


class Calibration:
    """Judges estimates.

    Args:
        on_judged: Is told of each estimate whose outcome is known.
        on_factor: Is told of each factor that is computed.

    Attributes:
        on_kept: Is called when `kept_factors` has changed.
    """

    def __init__(self, on_judged: OnJudged, on_factor: OnFactor = lambda *_: None) -> None:
        self._on_judged = on_judged
        self._on_factor = on_factor
        self._given: dict[str, GivenEstimates] = {}
        self._judged: dict[Place, deque[JudgedEstimate]] = {}
        self._factors: dict[Place, float] = {}
        self._kept: dict[Place, float] = {}
        self.on_kept: Callable[[], None] = lambda: None

    @property
    def known(self) -> int:
        """Number of Workloads of which an estimate was kept."""
        return len(self._given)

    def find_factor(self, stage: StartStage, at: datetime, now: datetime) -> float:
        """Return by which factor the range of an estimate is to be widened."""
        return self._find_factor((stage, find_horizon(at - now)))

    def _find_factor(self, place: Place) -> float:
        known = self._factors.get(place)
        if known is None:
            before = self._kept.get(place, 1.0)
            known = find_factor([each.needed for each in self._judged.get(place, ())], before)
            self._factors[place] = known
            self._on_factor(*place, known)
            if known != before:
                self._kept[place] = known
                self.on_kept()
        return known

    @property
    def kept_factors(self) -> dict[str, float]:
        """The last factor of each stage and horizon, as ``STAGE-HORIZON``; 1 is left out."""
        return {name_place(*place): kept for place, kept in self._kept.items() if kept != 1}

    def restore(self, kept: Mapping[str, object]) -> None:
        """Begin with the `kept_factors` of an earlier process; what is no factor is ignored."""
        places = {name_place(*place): place for place in product(StartStage, StartHorizon)}
        for name, factor in kept.items():
            if name in places and isinstance(factor, int | float) and LEAST <= factor <= MOST:
                self._kept.setdefault(places[name], float(factor))
        self._factors.clear()

    def keep(
        self, key: str, start: Json, now: datetime, narrow: StartEstimate | None = None
    ) -> None:
        """Keep an estimate that is given to somebody, if one is due.

        Args:
            key: The Workload, ``namespace/name``.
            start: The estimate as `tell_start` returns it; without one, nothing is kept.
            now: The current time.
            narrow: The same with its range before any factor; by default that of `start`.
        """
        at, earliest, latest = (
            parse_time(start.get(name)) for name in ("at", "earliest", "latest")
        )
        if at is None or earliest is None or latest is None or at <= now:
            return
        given = self._given.get(key)
        if given is None:
            if len(self._given) >= MAX_WORKLOADS:
                return
            given = self._given[key] = GivenEstimates(now)
        if given.is_due(now):
            # Kept room moves `at`, and not the middle of the range that the factor widens.
            middle = at if narrow is None else narrow.at
            stage, horizon = StartStage(start["stage"]), find_horizon(middle - now)
            below = at - earliest if narrow is None else middle - narrow.earliest
            above = latest - at if narrow is None else narrow.latest - middle
            given.keep(GivenEstimate(middle, earliest, latest, below, above, stage, horizon))

    def follow(self, key: str, workload: Workload | None, now: datetime) -> None:
        """Judge the estimates of a Workload that changed; None: it was deleted. Cost: O(1)."""
        given = self._given.get(key)
        if given is None:
            return
        if workload is None or is_finished(workload.status) or not workload.spec.active:
            self._cancel(self._given.pop(key), now)
            return
        started = {stage: _find_start(workload, stage) for stage in ENDS_WITH}
        for each in given.waiting:
            if (at := started[each.stage]) is not None:
                self._count(each, each.judge(at), at)
        for each in given.late:
            if (at := started[each.stage]) is not None:
                self._correct(each, at)
        given.waiting = [each for each in given.waiting if started[each.stage] is None]
        given.late = [each for each in given.late if started[each.stage] is None]
        if started[StartStage.QUOTA] is not None and not given.waiting and not given.late:
            del self._given[key]

    def describe(self, start: Json, now: datetime) -> Json | None:
        """Return how the last estimates held that are like this one; None if it is none."""
        at = parse_time(start.get("at"))
        if at is None or "stage" not in start:
            return None
        self._judge_overdue(now)
        return self._tell(StartStage(start["stage"]), find_horizon(at - now))

    def list_rows(self, now: datetime) -> Iterator[Json]:
        """Yield how the last estimates held, by stage and horizon."""
        self._judge_overdue(now)
        for stage in StartStage:
            for horizon in StartHorizon:
                yield self._tell(stage, horizon)

    def _tell(self, stage: StartStage, horizon: StartHorizon) -> Json:
        place = stage, horizon
        outcomes = [each.outcome for each in self._judged.get(place, ())]
        return tell_calibration(stage, horizon, outcomes, self._find_factor(place))

    def _judge_overdue(self, now: datetime) -> None:
        """Judge those as late whose range has passed: else long waits would be missing."""
        late = (given for given in self._given.values() if now > given.late_at)
        for given in islice(late, MAX_AT_ONCE):
            for each in given.take_late(now):
                self._count(each, EstimateOutcome.LATE)

    def _cancel(self, given: GivenEstimates, now: datetime) -> None:
        for each in given.late:
            self._correct(each, now)
        for each in given.waiting:
            is_late = each.judge(now) is EstimateOutcome.LATE
            self._count(each, EstimateOutcome.LATE if is_late else EstimateOutcome.CANCELLED, now)

    def _count(
        self, given: GivenEstimate, outcome: EstimateOutcome, started: datetime | None = None
    ) -> None:
        """Count an estimate whose outcome is known; `started` is None if the start is not."""
        self._on_judged(given.stage, given.horizon, outcome)
        if outcome not in JUDGED:
            return
        place = given.stage, given.horizon
        given.judged = JudgedEstimate(outcome)
        self._judged.setdefault(place, deque(maxlen=WINDOW)).append(given.judged)
        self._factors.pop(place, None)
        if started is not None:
            self._correct(given, started)

    def _correct(self, given: GivenEstimate, started: datetime) -> None:
        """Say of a judged estimate which factor it needed."""
        if given.judged is not None:
            given.judged.needed = given.find_needed(started)
            self._factors.pop((given.stage, given.horizon), None)


def name_place(stage: StartStage, horizon: StartHorizon) -> str:
    """Return the name of a stage and horizon, as ``calibrations`` has it."""
    return f"{stage}-{horizon}"


def _find_start(workload: Workload, stage: StartStage) -> datetime | None:
    found = find_condition(workload.status.conditions, ENDS_WITH[stage])
    if found is None or found.status != "True":
        return None
    return found.transitioned_at
