"""A canary: the Workloads it decides for, their outcomes, and when it returns. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from statistics import median

from multiqueue.api.v1alpha1 import SideStatus
from multiqueue.dispatcher_host.policy import CanaryReturnLimits

MAX_TRIALS = 10_000
"""Most Workloads that are followed; beyond it, the oldest are not judged."""
MAX_TIMES = 1_000
"""The median is taken of this many latest starts."""
SLACK_SECONDS = 1.0
"""A start that is later by less than this is not slower: it is about one round trip."""


class Side(StrEnum):
    """The side that decided: base or canary."""

    BASE = "base"
    CANARY = "canary"


def is_chosen(uid: str, percent: int) -> bool:
    """Whether a Workload is in that percentage; it stays in if the percentage grows."""
    digest = blake2b(uid.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 10_000 < percent * 100


@dataclass(slots=True)
class _CanaryTrial:
    """A Workload with a decision that has not started yet."""

    side: Side
    nominated: bool = False
    failed: bool = False


@dataclass(slots=True)
class Tally:
    """The outcomes of the Workloads of one side."""

    workloads: int = 0
    failures: int = 0
    started: int = 0
    not_started: int = 0
    lost: int = 0
    problem: str = ""
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))

    @property
    def median_seconds(self) -> float | None:
        """Median time from first nomination to admission; None if none was admitted."""
        return median(self.seconds) if self.seconds else None

    @property
    def failure_share(self) -> float:
        """The share of its Workloads for which it failed."""
        return self.failures / self.workloads if self.workloads else 0.0

    @property
    def concluded(self) -> int:
        """The number of Workloads that started, or did not start in time."""
        return self.started + self.not_started

    @property
    def not_started_share(self) -> float:
        """The share of concluded Workloads that did not start in time."""
        return self.not_started / self.concluded if self.concluded else 0.0

    @property
    def lost_share(self) -> float:
        """The share of started Workloads that lost their cluster soon."""
        return self.lost / self.started if self.started else 0.0

    def to_status(self) -> SideStatus:
        """Return the tally in the form of the status."""
        seconds = self.median_seconds
        return SideStatus(
            workloads=self.workloads,
            failures=self.failures,
            started=self.started,
            not_started=self.not_started,
            lost=self.lost,
            median_seconds=round(seconds) if seconds is not None else None,
        )


class Trials:
    """Follows Workloads from first nomination to admission, and for a while after it.

    Args:
        limits: The canary's limits.
    """

    def __init__(self, limits: CanaryReturnLimits) -> None:
        self.tallies = {side: Tally() for side in Side}
        self._limits = limits
        self._open: OrderedDict[str, _CanaryTrial] = OrderedDict()
        # Nominated Workloads that may still start, with the time of nomination, oldest first.
        self._awaited: OrderedDict[str, tuple[Side, datetime]] = OrderedDict()
        # Running Workloads with the time of their start, oldest first.
        self._running: OrderedDict[str, tuple[Side, datetime]] = OrderedDict()

    def note_decision(
        self,
        uid: str,
        side: Side,
        now: datetime,
        *,
        nominated: bool,
        failed: bool,
        problem: str = "",
    ) -> None:
        """Record a side's decision about a Workload, or the problem with which it failed."""
        tally = self.tallies[side]
        trial = self._open.get(uid)
        if trial is None or trial.side is not side:
            self.forget(uid)
            trial = self._open[uid] = _CanaryTrial(side)
            tally.workloads += 1
            if len(self._open) > MAX_TRIALS:
                self.forget(next(iter(self._open)))
        if failed:
            tally.problem = problem
        if failed and not trial.failed:
            trial.failed = True
            tally.failures += 1
        if nominated and not trial.nominated:
            trial.nominated = True
            self._awaited[uid] = side, now

    def note_start(self, uid: str, now: datetime) -> bool:
        """Record that a cluster admitted a Workload; return whether it was followed."""
        awaited = self._awaited.pop(uid, None)
        self._open.pop(uid, None)
        if awaited is None:
            return False
        side, since = awaited
        tally, took = self.tallies[side], now - since
        if took > self._limits.start_within:
            tally.not_started += 1
            return True
        tally.started += 1
        tally.seconds.append(took.total_seconds())
        self._running[uid] = side, now
        if len(self._running) > MAX_TRIALS:
            self._running.popitem(last=False)
        return True

    def note_loss(self, uid: str, now: datetime) -> bool:
        """Record that a running Workload lost its cluster; return whether that was soon."""
        side, since = self._running.pop(uid, (None, now))
        if side is None or now - since > self._limits.start_within:
            return False
        self.tallies[side].lost += 1
        return True

    def follows(self, uid: str) -> bool:
        """Whether anything is known about a Workload."""
        return any(uid in known for known in (self._open, self._awaited, self._running))

    def forget(self, uid: str) -> None:
        """Forget a Workload that is gone or waits for quota again."""
        for known in (self._open, self._awaited, self._running):
            known.pop(uid, None)

    def expire(self, now: datetime) -> None:
        """Count Workloads that wait too long as not started; later questions do not count again."""
        since = now - self._limits.start_within
        while self._awaited:
            uid, (side, nominated_at) = next(iter(self._awaited.items()))
            if nominated_at >= since:
                return
            del self._awaited[uid]
            self.tallies[side].not_started += 1

    def why_return(self) -> str:
        """Return in what the canary does worse than its limits allow; empty if in nothing."""
        limits = self._limits
        canary, base = self.tallies[Side.CANARY], self.tallies[Side.BASE]
        least = limits.min_workloads
        if canary.workloads >= least and _is_more(
            canary.failure_share, base.failure_share, limits.failures
        ):
            words = (
                f"it failed for {canary.failures} of {canary.workloads} Workloads, the base for "
                f"{base.failures} of {base.workloads}"
            )
            return f"{words}; the last time: {canary.problem}" if canary.problem else words
        if min(canary.concluded, base.concluded) >= least and _is_more(
            canary.not_started_share, base.not_started_share, limits.failures
        ):
            return (
                f"{canary.not_started} of its {canary.concluded} nominated Workloads did not start "
                f"in time, {base.not_started} of the base's {base.concluded}"
            )
        if min(canary.started, base.started) >= least:
            if _is_more(canary.lost_share, base.lost_share, limits.failures):
                return (
                    f"{canary.lost} of its {canary.started} started Workloads lost their cluster "
                    f"again, {base.lost} of the base's {base.started}"
                )
            return self._why_slower(canary.median_seconds or 0.0, base.median_seconds or 0.0)
        return ""

    def _why_slower(self, canary: float, base: float) -> str:
        if canary <= base * (1 + self._limits.slower) + SLACK_SECONDS:
            return ""
        return (
            f"its Workloads were admitted after {canary:.0f} s, the base's after {base:.0f} s "
            "(medians)"
        )


def _is_more(share: float, than: float, by: float) -> bool:
    return share > than + by
