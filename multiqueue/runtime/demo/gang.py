"""The demo's large gang, and whether it starts when it was promised.

The gang needs all H100 GPUs, three of which belong to other teams. Small jobs take each GPU as
soon as it is free, so the gang waits for as long as they come. With a DisruptionPolicy room is kept
for it.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Any

from multiqueue.api import names
from multiqueue.runtime.components import open_scope
from multiqueue.runtime.demo.jobs import DemoJob, is_gang
from multiqueue.runtime.demo.stream import JobStream
from multiqueue.runtime.demo.tracker import Track, Tracker

TIMEOUT_SECONDS = 120.0
"""The longest time until the gang has started; usually it takes less than a minute."""
ROUNDING = 1.0
"""Seconds by which a start may be late: a promise is a whole second."""
SPARE_SECONDS = 15
"""What a job declares beyond the time that its pods run: they have to be started, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangOutcome:
    """What became of the gang; ``problem`` is empty if it got its quota when it was promised.

    Times are seconds since it was submitted, None if that did not happen.
    """

    name: str
    gpus: int
    promised_seconds: float | None
    reserved_seconds: float | None
    running_seconds: float | None
    problem: str

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome in its documented form."""
        return {
            "name": self.name,
            "gpus": self.gpus,
            "promisedSeconds": self.promised_seconds,
            "reservedSeconds": self.reserved_seconds,
            "runningSeconds": self.running_seconds,
        }


def declare_runtime(job: DemoJob, speed: float) -> DemoJob:
    """Add how long a job runs at most: a claim rests on what jobs declare."""
    seconds = math.ceil(job.run_seconds / speed) + SPARE_SECONDS
    return replace(job, labels={**job.labels, names.MAX_EXEC_TIME_SECONDS: str(seconds)})


async def run_gang(tracker: Tracker, stream: JobStream) -> GangOutcome:
    """Submit small jobs without end, and a gang among them, until the gang runs."""
    async with open_scope() as scope:
        await tracker.start(scope)
        scope.start(stream)
        await tracker.wait_for(lambda: _find_gang(tracker) is not None)
        gang = _find_gang(tracker)
        assert gang is not None, "it was waited for"
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await tracker.wait_for(lambda: gang.running_at is not None)
        except TimeoutError:
            pass  # the outcome shows what did not happen
        return judge_gang(gang)


def _find_gang(tracker: Tracker) -> Track | None:
    return next((track for track in tracker.tracks.values() if is_gang(track.job)), None)


def judge_gang(gang: Track) -> GangOutcome:
    """Compare when a gang got its quota with when it was promised."""
    promised, reserved, running = (
        None if at is None else round(at - gang.submitted_at, 1)
        for at in (gang.promised_at, gang.reserved_at, gang.running_at)
    )
    return GangOutcome(
        name=gang.job.name,
        gpus=gang.job.gpus,
        promised_seconds=promised,
        reserved_seconds=reserved,
        running_seconds=running,
        problem=_find_problem(promised, reserved),
    )


def _find_problem(promised: float | None, reserved: float | None) -> str:
    if promised is None:
        return "no room was kept for it" if reserved is None else ""
    if reserved is None:
        return "it did not start"
    late = reserved - promised
    return f"it started {late:.1f}s later than promised" if late > ROUNDING else ""
