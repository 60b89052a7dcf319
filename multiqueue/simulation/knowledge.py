"""What the manager knows of runtimes: the history of jobs that ended, or the exact times."""

from __future__ import annotations

from datetime import timedelta

from multiqueue.forecast.history import RuntimeHistory
from multiqueue.forecast.traits import FinishedRun, Traits
from multiqueue.plugins.forecast import Basis, Runtime
from multiqueue.simulation.traces.trace import TraceJob


class Knowledge:
    """Learns from finished jobs; a job class is a user's jobs of one kind and size.

    Args:
        is_told: Whether it knows exactly how long each job runs, and need not learn it.
    """

    def __init__(self, *, is_told: bool = False) -> None:
        self._is_told = is_told
        self._history = RuntimeHistory()

    def learn(self, job: TraceJob, flavor: str, took: timedelta) -> None:
        """Learn from a job that has ended.

        Args:
            job: The job.
            flavor: The flavor on which it ran.
            took: Time from its admission to its end.
        """
        traits = _traits_of(job)
        self._history.learn(
            FinishedRun(
                uid=job.name,
                traits=traits,
                flavor=flavor,
                took=took,
                devices=job.gpus_on(flavor),
            )
        )

    def usual_speeds(self) -> dict[str, int]:
        """Return how fast jobs in general are, by hardware."""
        return self._history.usual.by_hardware()

    def find(self, job: TraceJob) -> Runtime:
        """Return how long a job runs on the reference hardware, as far as is known."""
        if self._is_told:
            exact = timedelta(seconds=job.duration)
            return Runtime(expected=exact, low=exact, high=exact, basis=Basis.DECLARED)
        return self._history.runtime(_traits_of(job))


def _traits_of(job: TraceJob) -> Traits:
    """Return the traits of a job; jobs declare speeds but no runtimes."""
    return Traits(job_class=f"{job.team}/{job.user}/{job.kind}/{job.gpus}", speeds=job.speeds)
