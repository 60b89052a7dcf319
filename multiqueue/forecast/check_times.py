"""How long the admission checks of a worker take, once quota is reserved there. Pure.

A ClusterQueue with checks has more to decide than the engine: whether machines can be had, say. All
that is known of it beforehand is how long it took for others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import WorkloadCondition, find_condition
from multiqueue.plugins.forecast import Forecast, Prospect

ENOUGH = 3
"""So many say something."""
KEPT = 32
"""The last of a queue that are remembered."""


def read_check_time(status: api.WorkloadStatus) -> timedelta | None:
    """Return how long a Workload's checks took; None where it has none, or they still decide."""
    if not status.admission_checks:
        return None
    reserved = find_condition(status.conditions, WorkloadCondition.QUOTA_RESERVED)
    admitted = find_condition(status.conditions, WorkloadCondition.ADMITTED)
    if reserved is None or admitted is None or not reserved.status == admitted.status == "True":
        return None
    return max(timedelta(), admitted.transitioned_at - reserved.transitioned_at)


class CheckTimes:
    """How long checks took, by ClusterQueue."""

    def __init__(self) -> None:
        self._taken: dict[str, deque[tuple[str, timedelta]]] = {}

    def learn(self, queue: str, uid: str, took: timedelta) -> None:
        """Take note of a Workload, once."""
        known = self._taken.setdefault(queue, deque(maxlen=KEPT))
        if all(uid != other for other, _ in known):
            known.append((uid, took))

    def apply(
        self, found: Forecast, queue: str, checks: Sequence[str], waited: timedelta = timedelta()
    ) -> Forecast:
        """Return a forecast of quota as one of the start.

        Args:
            found: What becomes of its quota.
            queue: The ClusterQueue.
            checks: That decide afterwards.
            waited: How long they have been at it already.
        """
        if not checks or found.prospect in {Prospect.NEVER, Prospect.UNKNOWN}:
            return found
        words = f"{found.reason}; then its checks decide ({', '.join(checks)})"
        times = sorted(took - waited for _, took in self._taken.get(queue, ()) if took > waited)
        if len(times) < ENOUGH:
            return replace(found, reason=f"{words}, nobody knows for how long", start=None)
        tenth, middle = len(times) // 10, times[len(times) // 2]
        start = found.start
        if start is not None:
            start = replace(
                start,
                at=start.at + middle,
                earliest=start.earliest + times[tenth],
                latest=start.latest + times[-1 - tenth],
            )
        took = f"which takes about {round(middle.total_seconds())} s"
        return replace(found, reason=f"{words}, {took}", start=start)
