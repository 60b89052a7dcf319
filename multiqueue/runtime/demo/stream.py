"""An endless stream of jobs from three teams, for the live screen."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

import structlog

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.kube.resources import JOBS
from multiqueue.runtime.demo.jobs import DemoJob, endless_jobs
from multiqueue.runtime.demo.once import submit
from multiqueue.runtime.demo.tracker import Tracker

MAX_UNFINISHED = 14
"""The limit of unfinished jobs: it keeps the queue on the screen readable."""
KEEP_SECONDS = 30.0
"""How long an ended job stays on the screen."""

log = structlog.get_logger("multiqueue.demo")


class JobStream:
    """Submits jobs as long as the demo runs, and deletes ended ones.

    Args:
        client: Of the manager's cluster.
        tracker: Follows the jobs.
        change: Changes each job before it is submitted.
    """

    name = "job-stream"

    def __init__(
        self,
        client: KubeClient,
        tracker: Tracker,
        *,
        change: Callable[[DemoJob], DemoJob] = lambda job: job,
    ) -> None:
        self._client = client
        self._tracker = tracker
        self._change = change

    async def run(self) -> None:
        """Submit until cancelled."""
        chance = random.Random(11)  # noqa: S311 - no secret
        for job in map(self._change, endless_jobs()):
            await self._tracker.wait_for(self._has_room)
            try:
                await submit(self._client, self._tracker, job)
                await self._tidy_up()
            except KubeError as error:
                log.warning("job not submitted", job=job.key, error=str(error))
            await asyncio.sleep(chance.uniform(0.16, 1.6))

    def _has_room(self) -> bool:
        unfinished = sum(1 for track in self._tracker.tracks.values() if not track.stage.is_final)
        return unfinished < MAX_UNFINISHED

    async def _tidy_up(self) -> None:
        now = asyncio.get_running_loop().time()
        ended = [
            key
            for key, track in self._tracker.tracks.items()
            if track.stage.is_final and now - (track.ended_at or now) > KEEP_SECONDS
        ]
        for key in ended:
            namespace, _, name = key.partition("/")
            with contextlib.suppress(NotFound):
                await self._client.delete(JOBS, name, namespace=namespace, propagation="Background")
            self._tracker.forget(key)
