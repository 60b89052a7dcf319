"""The memory of a drain, and the next reconcile and report that follow from it. Pure.

It is lost with the process, except for what the `DrainReport` carries over to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from multiqueue.api.cluster_orders import DrainOrder, DrainPace
from multiqueue.api.notices import Notice
from multiqueue.drain.chance import Chance
from multiqueue.drain.pace import Bucket, Resident, estimate_end
from multiqueue.drain.report import DrainReport

RECHECK_SECONDS = 0.25
"""Shortest pause between two searches for other clusters; changes of room come in bursts."""
RECHECK = timedelta(seconds=RECHECK_SECONDS)
STALE_SECONDS = 10.0
"""Oldest age of a reason to stay; most changes cause an earlier update."""
EXPECT_SECONDS = 5.0
"""How often the room for Workloads on their way is reserved again; see `Intent`."""
ARRIVAL = timedelta(seconds=30)
"""How long room is kept for a Workload that has stopped and waits in the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A Workload that is leaving.

    Attributes:
        until: When it has stopped at the latest, if it takes as long as it may.
        message: The message of its eviction; empty if an earlier manager has written one.
        by_force: Whether it has nowhere to go.
        cluster: Where it is expected; empty if that is open.
        lost_gpu_seconds: Its work since it was admitted, or since it saved it when it was told to.
        notice: It runs on and may save its work; None once that is over, or without a notice.
        resident: What it is and since when it runs; None if an earlier manager sent it away.
    """

    until: datetime
    message: str = ""
    by_force: bool = False
    cluster: str = ""
    lost_gpu_seconds: float = 0.0
    notice: Notice | None = None
    resident: Resident | None = None


@dataclass(slots=True, kw_only=True)
class DrainRun:
    """The drain of one worker.

    Attributes:
        name: Name of the MultiKueueCluster.
        bucket: How many moves may begin.
        moved: Number of Workloads that have left for another worker.
        stopped: Number of Workloads that have left by force, with nowhere to go.
        lost_gpu_seconds: The work of both since their admission.
        leaving: The Workloads that are leaving, by key.
        arriving: Workloads that have left and run nowhere yet: expected cluster, and until when.
        staying: Why Workloads stay that could not be moved at the last search.
        chances: For each of them, its chance elsewhere.
        looked_at: When that search was.
        residents: The Workloads that ran there when last read, with the version of each.
        order: The order that it follows; a new order judges every Workload again.
        only: The only Workloads that leave; None: all of them.
        arrival: How long room is kept for a Workload that has stopped.
        unaccounted: Workloads that an earlier manager sent away, and that may have left since.
    """

    name: str
    bucket: Bucket
    moved: int = 0
    stopped: int = 0
    lost_gpu_seconds: float = 0.0
    leaving: dict[str, Leaving] = field(default_factory=dict)
    arriving: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    staying: dict[str, str] = field(default_factory=dict)
    chances: dict[str, Chance] = field(default_factory=dict)
    looked_at: datetime | None = None
    residents: dict[str, tuple[str, Resident]] = field(default_factory=dict)
    order: DrainOrder | None = None
    only: frozenset[str] | None = None
    arrival: timedelta = ARRIVAL
    unaccounted: int = 0

    def obey(self, order: DrainOrder, now: datetime) -> None:
        """Follow this order from now on."""
        if self.order is not None and self.order.pace != order.pace:
            self.bucket = self.bucket.change(self.order.pace, order.pace, now)
        if self.order != order:
            self.order, self.looked_at = order, None
            # Who may still save its work is judged again, too; its notice stays in force meanwhile.
            self.leaving = {k: each for k, each in self.leaving.items() if each.notice is None}

    def concerns(self, key: str) -> bool:
        """Whether changes of a Workload concern the drain."""
        return key in self.leaving or key in self.arriving


def begin(name: str, *, resumed: DrainReport | None, pace: DrainPace, now: datetime) -> DrainRun:
    """Return a drain that begins, or that continues from another manager's report."""
    if resumed is None:
        return DrainRun(name=name, bucket=Bucket.full(now))
    return DrainRun(
        name=name,
        bucket=Bucket.empty(now, pace),
        moved=resumed.moved,
        stopped=resumed.stopped,
        unaccounted=resumed.moving,
        lost_gpu_seconds=resumed.lost_gpu_hours * 3600,
    )


def may_pick(run: DrainRun, order: DrainOrder, now: datetime) -> bool:
    """Whether it is worth it to search for Workloads that can leave now."""
    if run.looked_at is None:
        return True
    age = (now - run.looked_at).total_seconds()
    if age < RECHECK_SECONDS:
        return False
    can_go = len(run.leaving) < order.pace.at_once and run.bucket.has_one(order.pace, now)
    return can_go or age >= STALE_SECONDS


def report_on(
    run: DrainRun,
    order: DrainOrder,
    residents: list[Resident],
    now: datetime,
    *,
    trouble: str,
) -> DrainReport:
    """Return how far a drain is."""
    going = [r for r in residents if r.key not in run.staying and r.key not in run.leaving]
    ends_at = None
    if not trouble and (going or run.leaving):
        ends_at = estimate_end(
            [max(timedelta(), entry.until - now) for entry in run.leaving.values()],
            [resident.stop for resident in going],
            bucket=run.bucket,
            pace=order.pace,
            now=now,
        )
    here = {resident.key for resident in residents} - run.leaving.keys()
    return DrainReport(
        moved=run.moved,
        stopped=run.stopped,
        moving=len(run.leaving),
        left=len(here),
        lost_gpu_hours=run.lost_gpu_seconds / 3600,
        ends_at=ends_at,
        staying={key: why for key, why in run.staying.items() if key in here},
        trouble=trouble,
    )


def next_recheck(
    run: DrainRun, order: DrainOrder, residents: list[Resident], now: datetime
) -> float:
    """In how many seconds to reconcile again, if nothing happens before."""
    waits = [STALE_SECONDS]
    if run.looked_at is not None and timedelta() < now - run.looked_at < RECHECK:
        waits.append(RECHECK_SECONDS)
    if run.leaving or run.arriving:
        waits.append(EXPECT_SECONDS)
    ends = [entry.notice.by for entry in run.leaving.values() if entry.notice is not None]
    if ends:
        waits.append(min(ends) - now.timestamp())
    going = any(r.key not in run.staying and r.key not in run.leaving for r in residents)
    if going and len(run.leaving) < order.pace.at_once:
        waits.append((run.bucket.next_at(order.pace) - now).total_seconds())
    if order.not_before is not None and order.not_before > now:
        waits.append((order.not_before - now).total_seconds())
    if run.looked_at is not None and run.staying:
        waits.append(STALE_SECONDS - (now - run.looked_at).total_seconds())
    return max(min(waits), RECHECK_SECONDS)
