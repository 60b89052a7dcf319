"""Tells once that a job still waits after the time by which it was expected to start.

Only jobs that ask for it are looked at, once a minute. What counts is the first range that is
estimated for a wait. It is kept in memory, so a new leader begins with a new estimate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.notify_reasons import NotifyReason
from multiqueue.api.slices import is_replaced
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.variants import parent_of
from multiqueue.api.workload_state import has_quota, is_admitted, is_finished
from multiqueue.controllers.notifications.notifier import Notifier
from multiqueue.jobs.context import ManagerContext
from multiqueue.views.notifications import tell_late
from multiqueue.views.start import SLACK, NoEstimate, StartStage

PAUSE_SECONDS = 60.0
ESTIMATE_SECONDS = 0.2
"""Pause after each estimate: five a second, as for the rows of the dashboard (S-102)."""
STEP = 200
"""Workloads that are looked at before other tasks run. One that waits takes about 20 µs."""
KEPT = ("at", "earliest", "latest", "made", "stage")
"""What is kept of an estimate."""
NOT_YET = (NoEstimate.STARTING, NoEstimate.NOT_LEADING)
"""Why the new estimate, which is told too, comes later."""

Json = Mapping[str, Any]
FindStart = Callable[[str], Awaitable[Json | None]]
"""Estimates the start of a Workload, ``namespace/name``; None if it does not wait for quota."""
Wait = tuple[str, int]
"""A wait of a Workload: its uid, and how often it was evicted before."""


class LateStarts:
    """Looks for late jobs while it runs.

    Args:
        context: The manager's context.
        notifier: Knows what jobs ask for, and sends.
        find_start: Estimates starts.
    """

    name = "late-starts"

    def __init__(self, context: ManagerContext, notifier: Notifier, find_start: FindStart) -> None:
        self._informer = context.informers.workloads
        self._now = context.clock.now
        self._notifier = notifier
        self._find_start = find_start
        self._foreseen: dict[Wait, Json | None] = {}
        """The first estimate of each wait; None once its job was told that it is late."""

    async def run(self) -> None:
        """Look until cancelled."""
        await self._informer.settled.wait()
        while True:
            await self._look()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _look(self) -> None:
        waits = set()
        for number, key in enumerate(self._informer.store.keys()):
            if number % STEP == 0:
                await asyncio.sleep(0)
            workload = self._find_asking(key)
            if workload is not None:
                waits.add(_find_wait(workload))
                await self._judge(key, workload)
        self._foreseen = {wait: kept for wait, kept in self._foreseen.items() if wait in waits}

    def _find_asking(self, key: str) -> Workload | None:
        """Return a Workload that waits, and whose job wants to know if it is late."""
        workload = self._informer.store.get(key)
        if workload is None or not workload.spec.active or is_admitted(workload.status):
            return None
        if is_finished(workload.status) or is_replaced(workload.status):
            return None
        if parent_of(workload) is not None:
            return None  # its parent is the job
        return workload if NotifyReason.LATE in self._notifier.find_wanted(workload) else None

    async def _judge(self, key: str, workload: Workload) -> None:
        """Keep the first estimate of a wait; once its range is over, tell that the job is late."""
        wait, asked_at = _find_wait(workload), self._now()
        foreseen = self._foreseen.get(wait)
        if wait in self._foreseen and not _is_late(foreseen, workload, asked_at):
            return
        start = await self._find_start(key)
        await asyncio.sleep(ESTIMATE_SECONDS)
        code = start.get("code") if start is not None else None
        if foreseen is None:
            at = parse_time(start.get("at")) if start is not None else None
            if start is not None and at is not None and at > asked_at:
                self._foreseen[wait] = {name: start[name] for name in KEPT}
        elif code == NoEstimate.HELD:
            del self._foreseen[wait]  # it is estimated anew once it is released
        elif code not in NOT_YET:
            now, latest = self._now(), self._find_asking(key)
            if (
                latest is not None
                and _find_wait(latest) == wait
                and _is_late(foreseen, latest, now)
            ):
                self._notifier.tell(tell_late(latest, foreseen, start, now))
                self._foreseen[wait] = None


def _find_wait(workload: Workload) -> Wait:
    stats = workload.status.scheduling_stats
    return workload.metadata.uid, sum(each.count for each in stats.evictions) if stats else 0


def _is_late(foreseen: Json | None, workload: Workload, now: datetime) -> bool:
    """Whether what was foreseen should have come by now, and has not."""
    if foreseen is None or (foreseen["stage"] == StartStage.QUOTA and has_quota(workload.status)):
        return False
    latest = parse_time(foreseen["latest"])
    return latest is not None and now > latest + SLACK
