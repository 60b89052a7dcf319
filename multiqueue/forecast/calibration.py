"""Compare the starts that were estimated with those that came.

An estimate is kept when a Workload is first asked about, and again after it has waited for 1, 2, 4,
... minutes since. It is judged when the Workload starts, or once its range has passed. Everything
is in memory: a restart begins anew. Parity: S-106.

Times are shown by the minute, and conditions have whole seconds. So a start half a minute outside
the range counts as inside. "Now" is no estimate, and is not judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from multiqueue.api.conditions import WorkloadCondition, find_condition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import is_finished
from multiqueue.views.calibration import (
    JUDGED,
    WINDOW,
    EstimateOutcome,
    StartHorizon,
    find_horizon,
    tell_calibration,
)
from multiqueue.views.start import StartStage

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
SLACK = MINUTE / 2
NEVER = datetime.max.replace(tzinfo=UTC)
ENDS_WITH = {
    StartStage.QUOTA: WorkloadCondition.QUOTA_RESERVED,
    StartStage.WHOLE: WorkloadCondition.ADMITTED,
}
"""The condition that becomes True when what was estimated has come."""

Json = Mapping[str, Any]
OnJudged = Callable[[StartStage, StartHorizon, EstimateOutcome], None]


class GivenEstimate(NamedTuple):
    """An estimate that waits to be judged."""

    earliest: datetime
    latest: datetime
    stage: StartStage
    horizon: StartHorizon

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
        late_at: When the first of these is late, if nothing starts before.
    """

    first_at: datetime
    kept: int = 0
    waiting: list[GivenEstimate] = field(default_factory=list)
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
        self.waiting = [each for each in self.waiting if now <= each.latest + SLACK]
        self.late_at = min((each.latest + SLACK for each in self.waiting), default=NEVER)
        return late


class Calibration:
    """Judges estimates.

    Args:
        on_judged: Is told of each estimate whose outcome is known.
    """

    def __init__(self, on_judged: OnJudged) -> None:
        self._on_judged = on_judged
        self._given: dict[str, GivenEstimates] = {}
        self._judged: dict[tuple[StartStage, StartHorizon], deque[EstimateOutcome]] = {}

    @property
    def known(self) -> int:
        """Number of Workloads of which an estimate was kept."""
        return len(self._given)

    def keep(self, key: str, start: Json, now: datetime) -> None:
        """Keep an estimate that is given to somebody, if one is due.

        Args:
            key: The Workload, ``namespace/name``.
            start: The estimate as `tell_start` returns it; without one, nothing is kept.
            now: The current time.
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
            stage, horizon = StartStage(start["stage"]), find_horizon(at - now)
            given.keep(GivenEstimate(earliest, latest, stage, horizon))

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
                self._count(each, each.judge(at))
        given.waiting = [each for each in given.waiting if started[each.stage] is None]
        if started[StartStage.QUOTA] is not None and not given.waiting:
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
        return tell_calibration(stage, horizon, self._judged.get((stage, horizon), ()))

    def _judge_overdue(self, now: datetime) -> None:
        """Judge those as late whose range has passed: else long waits would be missing."""
        late = (given for given in self._given.values() if now > given.late_at)
        for given in islice(late, MAX_AT_ONCE):
            for each in given.take_late(now):
                self._count(each, EstimateOutcome.LATE)

    def _cancel(self, given: GivenEstimates, now: datetime) -> None:
        for each in given.waiting:
            is_late = each.judge(now) is EstimateOutcome.LATE
            self._count(each, EstimateOutcome.LATE if is_late else EstimateOutcome.CANCELLED)

    def _count(self, given: GivenEstimate, outcome: EstimateOutcome) -> None:
        self._on_judged(given.stage, given.horizon, outcome)
        if outcome in JUDGED:
            place = given.stage, given.horizon
            self._judged.setdefault(place, deque(maxlen=WINDOW)).append(outcome)


def _find_start(workload: Workload, stage: StartStage) -> datetime | None:
    found = find_condition(workload.status.conditions, ENDS_WITH[stage])
    if found is None or found.status != "True":
        return None
    return found.transitioned_at
