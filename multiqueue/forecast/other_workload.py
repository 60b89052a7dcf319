"""A Workload of another owner on a worker, reduced to what the replica needs. Pure.

A worker may have thousands of them, so pod templates and conditions are dropped after reading.

A worker's admission checks take time after quota is reserved: a check may have to obtain machines,
for example. The only forecast is the time that the checks took for earlier Workloads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import WorkloadCondition, find_condition
from multiqueue.api.workload_state import is_finished
from multiqueue.forecast.traits import FinishedRun, Traits, read_finished, read_traits
from multiqueue.kube.store import ObjectKeyAndVersion, identify
from multiqueue.model.build_workload import BuildOptions, build_workload
from multiqueue.model.workload import Workload
from multiqueue.plugins.forecast import Forecast, Prospect


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWorkload:
    """The parts of a Workload that are kept.

    Attributes:
        identity: Its key and version.
        traits: What predicts its runtime; None once it has ended.
        workload: The Workload as the engine sees it; None once it has ended.
        run: Its finished run; None if there is none.
        check_time: How long its checks took; None if unknown.
    """

    identity: ObjectKeyAndVersion
    traits: Traits | None = None
    workload: Workload | None = None
    run: FinishedRun | None = None
    check_time: timedelta | None = None


def read_other_workload(obj: api.Workload, options: BuildOptions) -> OtherWorkload:
    """Return the parts of a Workload that are kept."""
    built = build_workload(obj, options)
    traits = read_traits(obj, obj.metadata.annotations, built.pod_sets)
    if is_finished(obj.status):
        return OtherWorkload(identity=identify(obj), run=read_finished(obj, traits))
    return OtherWorkload(
        identity=identify(obj),
        traits=traits,
        workload=built,
        check_time=read_check_time(obj.status),
    )


ENOUGH = 3
"""Fewest known times that allow a forecast."""
KEPT = 32
"""Most times that are remembered for a queue."""


def read_check_time(status: api.WorkloadStatus) -> timedelta | None:
    """Return how long a Workload's checks took; None if it has none, or they are not done."""
    if not status.admission_checks:
        return None
    reserved = find_condition(status.conditions, WorkloadCondition.QUOTA_RESERVED)
    admitted = find_condition(status.conditions, WorkloadCondition.ADMITTED)
    if reserved is None or admitted is None or not reserved.status == admitted.status == "True":
        return None
    return max(timedelta(), admitted.transitioned_at - reserved.transitioned_at)


class CheckTimes:
    """Times that checks took, by ClusterQueue."""

    def __init__(self) -> None:
        self._taken: dict[str, deque[tuple[str, timedelta]]] = {}

    def learn(self, queue: str, uid: str, took: timedelta) -> None:
        """Record the time of a Workload, once."""
        known = self._taken.setdefault(queue, deque(maxlen=KEPT))
        if all(uid != other for other, _ in known):
            known.append((uid, took))

    def apply(
        self, found: Forecast, queue: str, checks: Sequence[str], waited: timedelta = timedelta()
    ) -> Forecast:
        """Turn a forecast of quota into a forecast of the start.

        Args:
            found: The forecast of quota.
            queue: Name of the ClusterQueue.
            checks: The checks that follow the quota reservation.
            waited: How long these checks have run already.
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
