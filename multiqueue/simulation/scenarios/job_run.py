"""A job of the scenario and what became of it, however the GPUs are shared."""

from __future__ import annotations

from dataclasses import dataclass, field

from multiqueue.simulation.scenarios.hundred_gpus import PoolJob


@dataclass(slots=True, kw_only=True)
class JobRun:
    """A job and what became of it. Times are seconds since the beginning.

    Attributes:
        stays: When it held all its GPUs: from the first moment until they were free again.
        parts: When it held one of its GPUs and waited for others.
        lost: The seconds of work that it did in vain, and those in which it began again.
        stops: How often it was stopped.
        was_promised: Whether room was kept for it.
        finished: When its work was done; None if it gave up.
        gave_up: When it ended without having begun.
    """

    job: PoolJob
    stays: list[tuple[float, float]] = field(default_factory=list)
    parts: list[tuple[float, float]] = field(default_factory=list)
    lost: float = 0.0
    stops: int = 0
    was_promised: bool = False
    finished: float | None = None
    gave_up: float | None = None

    @property
    def waited(self) -> float:
        """Seconds in which it did not hold all its GPUs, after stops, too."""
        ended = self.finished if self.gave_up is None else self.gave_up
        assert ended is not None, "it has ended"
        held = sum(end - begin for begin, end in self.stays)
        return ended - self.job.submitted - held

    @property
    def waited_first(self) -> float:
        """Seconds until it held all its GPUs for the first time, or gave up."""
        return self.stays[0][0] - self.job.submitted if self.stays else self.waited
