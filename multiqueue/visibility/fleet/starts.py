"""When Workloads start, as far as the last dispatch decision foresaw it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from multiqueue.api.v1beta2 import format_time
from multiqueue.plugins.forecast import Basis, StartEstimate
from multiqueue.plugins.recording import Decision
from multiqueue.views.start import tell_range, tell_stage

BASIS, STAGE = "forecast", "worker"
NOT_DECIDED = "no estimate: no dispatcher was asked about it yet"
NOT_FORECAST = "no estimate: the last decision had no forecast for the clusters it is offered to"


class DecisionRecord(Protocol):
    """Keeps the last decisions."""

    def find(self, key: str) -> Decision | None:
        """Return the last decision about a Workload, ``namespace/name``."""
        ...

    def list_decisions(self) -> Iterable[Decision]:
        """Return the last decisions, the oldest first."""
        ...


class DecidedStarts:
    """Reads starts from the last decisions.

    Args:
        decisions: Keeps them.
    """

    def __init__(self, decisions: DecisionRecord) -> None:
        self._decisions = decisions

    def find_start(self, key: str) -> Mapping[str, Any]:
        """Return the earliest start on the clusters that a Workload was offered to."""
        decision = self._decisions.find(key)
        if decision is None:
            return {"reason": NOT_DECIDED}
        starts = _find_starts(decision)
        cluster, found = min(starts, key=lambda each: each[1].at, default=("", None))
        if found is None:
            return {"reason": NOT_FORECAST}
        return {
            **tell_range(found),
            "basis": BASIS,
            "caveats": [],
            "stage": STAGE,
            "ahead": found.ahead,
            "stages": [tell_stage(STAGE, found, cluster)],
        }


def _find_starts(decision: Decision) -> Iterator[tuple[str, StartEstimate]]:
    """Yield the clusters that it was offered to, with the start there."""
    offered = decision.nomination.clusters if decision.nomination is not None else ()
    for cluster in decision.view.clusters:
        start = cluster.forecast.start if cluster.forecast is not None else None
        if start is not None and cluster.name in offered:
            yield cluster.name, start


def find_next_start(starts: Iterable[Mapping[str, Any] | None], now: datetime) -> str | None:
    """Return the earliest of these starts that is not over, and does not rest on a guess."""
    known = (each for each in starts if each is not None and each.get("basis") != Basis.ASSUMED)
    times = (start.get("at") for start in known)
    return min((at for at in times if at is not None and at >= format_time(now)), default=None)
