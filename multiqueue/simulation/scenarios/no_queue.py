"""One cluster without a queue: all pods are there at once, and whoever is lucky gets a free GPU.

A job has a pod for each of its GPUs, and works once all of them are bound. If some are still not
bound half an hour after the first was, it gives up for good. If it tried again instead, a run at 12
jobs in an hour would not end: a dozen gangs of 16 hold parts of the cluster, and none gets all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial

from multiqueue.simulation.agenda import SimulationAgenda
from multiqueue.simulation.scenarios.hundred_gpus import GPUS, START_SECONDS, PoolJob
from multiqueue.simulation.scenarios.job_run import JobRun

PATIENCE_SECONDS = 1800.0


@dataclass(slots=True, kw_only=True)
class UnqueuedJob(JobRun):
    """A job, and since when each of its bound pods is bound."""

    bound: list[float] = field(default_factory=list)


class UnqueuedPool:
    """The cluster.

    Args:
        seed: Decides which pod gets a free GPU.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"no-queue {seed}")  # noqa: S311 - no secret
        self._agenda = SimulationAgenda()
        self._free = GPUS
        self._pending: list[UnqueuedJob] = []  # an entry for each pod that is not bound

    def play(self, jobs: tuple[PoolJob, ...]) -> list[JobRun]:
        """Play all jobs to their ends; return them in the order of submission."""
        gangs = [UnqueuedJob(job=job) for job in jobs]
        for gang in gangs:
            self._agenda.after(gang.job.submitted, partial(self._submit, gang))
        self._agenda.run()
        return list(gangs)

    def _submit(self, gang: UnqueuedJob) -> None:
        self._pending += [gang] * gang.job.gpus
        self._bind()

    def _bind(self) -> None:
        while self._free and self._pending:
            place = self._chance.randrange(len(self._pending))
            gang, self._pending[place] = self._pending[place], self._pending[-1]
            self._pending.pop()
            self._free -= 1
            gang.bound.append(self._agenda.seconds)
            if len(gang.bound) == gang.job.gpus:
                self._begin(gang)
            elif len(gang.bound) == 1:
                self._agenda.after(PATIENCE_SECONDS, partial(self._give_up, gang))

    def _begin(self, gang: UnqueuedJob) -> None:
        now = self._agenda.seconds
        gang.parts += [(since, now) for since in gang.bound]
        took = START_SECONDS + gang.job.seconds
        gang.stays.append((now, now + took))
        self._agenda.after(took, partial(self._end, gang))

    def _end(self, gang: UnqueuedJob) -> None:
        gang.finished = self._agenda.seconds
        self._free += gang.job.gpus
        self._bind()

    def _give_up(self, gang: UnqueuedJob) -> None:
        if gang.stays:
            return  # it has begun
        gang.gave_up = self._agenda.seconds
        gang.parts += [(since, gang.gave_up) for since in gang.bound]
        self._pending = [each for each in self._pending if each is not gang]
        self._free += len(gang.bound)
        self._bind()
