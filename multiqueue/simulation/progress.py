"""How far one job is, wherever it runs: what it did, what it lost, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

from multiqueue.simulation.traces.trace import CLASSES, TraceJob


@dataclass(slots=True)
class Stay:
    """One time that a job ran.

    Attributes:
        cluster: Where.
        flavor: On what.
        begun: When it began, in seconds.
        ended: When it ended.
        lost: GPU-seconds there that have to be done again.
    """

    cluster: str
    flavor: str
    begun: float
    ended: float | None = None
    lost: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        assert self.ended is not None
        return self.ended - self.begun


@dataclass(frozen=True, slots=True)
class Guess:
    """When a job was expected to start, four times in five, and when it did; in seconds."""

    earliest: float
    latest: float
    actual: float


@dataclass(slots=True)
class Progress:
    """What became of one job so far.

    Attributes:
        job: It.
        done: Seconds of reference work that need not be done again.
        stays: Where it ran.
        finished: When it ended; None: it has not.
    """

    job: TraceJob
    done: float = 0.0
    stays: list[Stay] = field(default_factory=list)
    finished: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether it runs now."""
        return bool(self.stays) and self.stays[-1].ended is None

    def begin(self, cluster: str, flavor: str, now: float) -> float:
        """Start, and return how many seconds it will take there.

        Raises:
            RuntimeError: it runs already, or has ended: that must never happen.
        """
        if self.is_running or self.finished is not None:
            where = self.stays[-1].cluster
            raise RuntimeError(f'job "{self.job.name}" begins on "{cluster}" and ran on "{where}"')
        self.stays.append(Stay(cluster=cluster, flavor=flavor, begun=now))
        return (self.job.duration - self.done) / self.job.speed_on(flavor)

    def stop(self, now: float) -> None:
        """End before it is done: what came after the last checkpoint is lost."""
        stay = self.stays[-1]
        stay.ended = now
        speed = self.job.speed_on(stay.flavor)
        reached = min(self.job.duration, self.done + (now - stay.begun) * speed)
        every = CLASSES[self.job.kind].checkpoint
        kept = max(self.done, reached // every * every) if every else 0.0
        stay.lost = (reached - kept) / speed * self.job.gpus_on(stay.flavor)
        self.done = kept

    def finish(self, now: float) -> None:
        """End with everything done."""
        self.stays[-1].ended = self.finished = now
        self.done = self.job.duration
