"""The outcome of each job of one run, small enough to pass between processes."""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.simulation.fleet import SimulatedFleet
from multiqueue.simulation.manager import Managed
from multiqueue.simulation.progress import Guess, Stay
from multiqueue.simulation.traces.trace import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job, from its submission to its end.

    Attributes:
        job: The job.
        stays: Where it ran, in order; it ended at the end of the last stay.
        local_writes: Writes to the manager's API server.
        remote_writes: Writes to workers.
        copies: Number of copies made on workers.
        guesses: Where it had to wait: its expected and its actual start.
    """

    job: TraceJob
    stays: tuple[Stay, ...]
    local_writes: int = 0
    remote_writes: int = 0
    copies: int = 0
    guesses: tuple[Guess, ...] = ()

    @property
    def finished(self) -> float:
        """When the job ended."""
        ended = self.stays[-1].ended
        assert ended is not None
        return ended

    @property
    def completion(self) -> float:
        """Seconds from submission to end."""
        return self.finished - self.job.submit

    @property
    def waited(self) -> float:
        """Seconds in which the job did not run: before its start, and after each eviction."""
        return self.completion - sum(stay.seconds for stay in self.stays)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run: a trace with one dispatcher.

    Attributes:
        label: Name of the contestant in the comparison.
        seed: Seed of the trace.
        trace: Name of the trace.
        fleet: The workers.
        jobs: Outcomes of the jobs, in the order of the trace.
        notes: What was changed in the trace.
    """

    label: str
    seed: int
    trace: str
    fleet: SimulatedFleet
    jobs: tuple[JobRecord, ...]
    notes: tuple[str, ...] = ()


def record_job(managed: Managed) -> JobRecord:
    """Return the record of a job that has ended."""
    return JobRecord(
        job=managed.progress.job,
        stays=tuple(managed.progress.stays),
        local_writes=managed.writes.local,
        remote_writes=managed.writes.remote,
        copies=managed.writes.copies,
        guesses=tuple(managed.guesses),
    )
