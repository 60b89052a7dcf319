"""The progress of one job on all clusters: what it did and lost, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

from multiqueue.simulation.traces.trace import CLASSES, TraceJob
from multiqueue.views.start import SLACK


@dataclass(slots=True)
class Stay:
    """One period in which a job ran.

    Attributes:
        cluster: The cluster.
        flavor: The flavor.
        begun: When it began, in seconds.
        ended: When it ended; None while it runs.
        lost: GPU-seconds of it that have to be repeated.
    """

    cluster: str
    flavor: str
    begun: float
    ended: float | None = None
    lost: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the stay lasted."""
        assert self.ended is not None
        return self.ended - self.begun


@dataclass(frozen=True, slots=True)
class Guess:
    """A job's expected start, and its actual start; in seconds.

    Attributes:
        earliest, latest: Four in five start between them.
        actual: When it started.
        made: When it was expected.
        at: The median of what was expected.
        stage: ``worker``: it waited on a worker; ``line``: for a place on one.
    """

    earliest: float
    latest: float
    actual: float
    made: float = 0.0
    at: float = 0.0
    stage: str = "worker"

    @property
    def is_inside(self) -> bool:
        """Whether it started in the range, or half a minute beside it, as on clusters."""
        slack = SLACK.total_seconds()
        return self.earliest - slack <= self.actual <= self.latest + slack


@dataclass(slots=True)
class Progress:
    """The progress of one job so far.

    Attributes:
        job: The job.
        done: Seconds of reference work that need not be repeated.
        stays: Where it ran.
        finished: When it ended; None if it has not.
    """

    job: TraceJob
    done: float = 0.0
    stays: list[Stay] = field(default_factory=list)
    finished: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether the job runs now."""
        return bool(self.stays) and self.stays[-1].ended is None

    def begin(self, cluster: str, flavor: str, now: float) -> float:
        """Start the job, and return how many seconds it will take there.

        Raises:
            RuntimeError: The job runs already, or has ended, which must never happen.
        """
        if self.is_running or self.finished is not None:
            where = self.stays[-1].cluster
            raise RuntimeError(f'job "{self.job.name}" begins on "{cluster}" and ran on "{where}"')
        self.stays.append(Stay(cluster=cluster, flavor=flavor, begun=now))
        return (self.job.duration - self.done) / self.job.speed_on(flavor)

    def stop(self, now: float) -> None:
        """Stop the job before its end; work since the last checkpoint is lost."""
        stay = self.stays[-1]
        stay.ended = now
        speed = self.job.speed_on(stay.flavor)
        reached = min(self.job.duration, self.done + (now - stay.begun) * speed)
        every = CLASSES[self.job.kind].checkpoint
        kept = max(self.done, reached // every * every) if every else 0.0
        stay.lost = (reached - kept) / speed * self.job.gpus_on(stay.flavor)
        self.done = kept

    def finish(self, now: float) -> None:
        """End the job with all its work done."""
        self.stays[-1].ended = self.finished = now
        self.done = self.job.duration
