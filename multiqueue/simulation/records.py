"""What became of each job of one run, small enough to be handed between processes."""

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
        job: It.
        stays: Where it ran, in order; the last one to its end.
        local_writes: Writes to the manager's API server.
        remote_writes: Writes to workers.
        copies: Copies that were made on workers.
        guesses: When it was expected to start where it waited, and when it did.
    """

    job: TraceJob
    stays: tuple[Stay, ...]
    local_writes: int = 0
    remote_writes: int = 0
    copies: int = 0
    guesses: tuple[Guess, ...] = ()

    @property
    def finished(self) -> float:
        """When it ended."""
        ended = self.stays[-1].ended
        assert ended is not None
        return ended

    @property
    def completion(self) -> float:
        """Seconds from submission to end."""
        return self.finished - self.job.submit

    @property
    def waited(self) -> float:
        """Seconds in which it did not run: before its start, and after each eviction."""
        return self.completion - sum(stay.seconds for stay in self.stays)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One trace, played with one dispatcher.

    Attributes:
        label: What it is called in the comparison.
        seed: Of the trace.
        trace: Name of the trace.
        fleet: The workers.
        jobs: In the order of the trace.
        notes: What was changed about the trace.
    """

    label: str
    seed: int
    trace: str
    fleet: SimulatedFleet
    jobs: tuple[JobRecord, ...]
    notes: tuple[str, ...] = ()


def record_job(managed: Managed) -> JobRecord:
    """Keep what counts of a job that has ended."""
    return JobRecord(
        job=managed.progress.job,
        stays=tuple(managed.progress.stays),
        local_writes=managed.writes.local,
        remote_writes=managed.writes.remote,
        copies=managed.writes.copies,
        guesses=tuple(managed.guesses),
    )
