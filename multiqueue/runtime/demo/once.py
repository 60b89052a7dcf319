"""The unattended demo: submit twelve jobs and check how each one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError
from multiqueue.kube.resources import JOBS
from multiqueue.runtime.components import open_scope
from multiqueue.runtime.demo.jobs import ONCE, DemoJob, build_job
from multiqueue.runtime.demo.tracker import JobStage, Track, Tracker
from multiqueue.runtime.demo.world import MANAGER, DemoWorld

PAUSE_SECONDS = 0.15
"""The pause between two submissions, so that their order is clear."""
TIMEOUT_SECONDS = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The outcome of one job; ``problem`` is a difference from the expected one, if any."""

    name: str
    gpus: int
    worker: str | None
    waited_seconds: float | None
    ran_seconds: float | None
    state: str
    reason: str
    problem: str

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome in its documented form."""
        return {
            "name": self.name,
            "gpus": self.gpus,
            "worker": self.worker,
            "waitedSeconds": self.waited_seconds,
            "ranSeconds": self.ran_seconds,
            "state": self.state,
            "reason": self.reason,
        }


async def run_once(
    world: DemoWorld, tracker: Tracker, on_submitted: Callable[[], Awaitable[None]]
) -> list[JobOutcome]:
    """Submit the twelve jobs, wait until they end, and judge their outcomes.

    Args:
        world: The clusters.
        tracker: Follows the jobs.
        on_submitted: Called once all jobs are submitted; some run then, and others wait.
    """
    async with open_scope() as scope:
        await tracker.start(scope)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for job in ONCE:
                    await submit(world.clients[MANAGER], tracker, job)
                    await asyncio.sleep(PAUSE_SECONDS)
                await on_submitted()
                await tracker.wait_for(lambda: _all_ended(tracker))
        except TimeoutError:
            pass  # the outcomes show which job did not end
        return [judge(tracker.tracks[job.key]) for job in ONCE if job.key in tracker.tracks]


async def submit(client: KubeClient, tracker: Tracker, job: DemoJob) -> None:
    """Create a job as its team would; the track records a refusal."""
    tracker.announce(job)
    try:
        await client.create(JOBS, build_job(job), namespace=job.team)
    except ApiError as error:
        tracker.refuse(job, error.server_message or str(error))


def judge(track: Track) -> JobOutcome:
    """Compare how a job ended with how it should end."""
    ran = track.stage in {JobStage.SUCCEEDED, JobStage.FAILED}
    return JobOutcome(
        name=track.job.name,
        gpus=track.job.gpus,
        worker=track.worker or None,
        waited_seconds=_rounded(track.waited_seconds) if ran else None,
        ran_seconds=_rounded(track.ran_seconds) if ran else None,
        state=str(track.stage),
        reason=track.reason,
        problem="; ".join(_find_problems(track)),
    )


def is_as_planned(outcomes: Sequence[JobOutcome]) -> bool:
    """Whether every job ended as it should."""
    return len(outcomes) == len(ONCE) and not any(outcome.problem for outcome in outcomes)


def _find_problems(track: Track) -> list[str]:
    job, problems = track.job, []
    if str(track.stage) != str(job.end):
        problems.append(f"ended {track.stage} instead of {job.end}")
    if len(track.ran_on) > 1:
        problems.append(f"ran on {' and '.join(sorted(track.ran_on))}")
    if track.ran_on - set(job.workers):
        problems.append(f"must not run on {', '.join(sorted(track.ran_on - set(job.workers)))}")
    return problems


def _all_ended(tracker: Tracker) -> bool:
    return all(track.stage.is_final for track in tracker.tracks.values())


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
