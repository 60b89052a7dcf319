"""The jobs submitted to a simulated fleet: their sizes, lengths and times. Pure values.

Units: times in seconds since the beginning of the trace; lengths in seconds on the reference
hardware, which is an A100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """A kind of job.

    Attributes:
        name: Its name.
        speeds: How fast it is by hardware, in thousandths of the reference.
        priority: Priority of its Workloads.
        checkpoint: Seconds between checkpoints; 0: it has none, and starts from the beginning.
    """

    name: str
    speeds: Mapping[str, int] = field(default_factory=dict)
    priority: int = 0
    checkpoint: float = 0.0


CLASSES = {
    known.name: known
    for known in (
        JobClass(name="pretraining", speeds={"h100": 2600}, priority=200, checkpoint=1800),
        JobClass(name="training", speeds={"h100": 1900}, priority=100, checkpoint=3600),
        JobClass(name="finetuning", speeds={"h100": 2200}, priority=100, checkpoint=3600),
        JobClass(name="evaluation", speeds={"h100": 1500}, priority=100),
        JobClass(name="debug", speeds={"h100": 1200}, priority=100),
    )
}
"""Speeds are round figures: in public training benchmarks, an H100 equals two to three A100s for
large transformers, and fewer if a job waits for its data, its CPUs or its user."""

MODELS: Mapping[str, Mapping[str, int]] = {
    "recommendation": {"h100": 1300},
    "convolutional": {"h100": 1500},
    "speech": {"h100": 1700},
    "transformer": {"h100": 2200},
    "large-transformer": {"h100": 2800},
}
"""Training speeds of models by hardware, round figures as above. A model gains more if it spends
more time on large matrices of few bits."""
TRAINING = frozenset({"pretraining", "training", "finetuning"})
"""Kinds whose speed is that of their model; other kinds wait for other things."""


NODE_GPUS = 8
"""GPUs of a node; larger gangs have pods of this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One gang: it gets all of its GPUs, or none.

    Attributes:
        name: Its name, unique in the trace.
        team: The team whose queue it uses.
        user: The user who owns it.
        kind: Name of its `JobClass`.
        model: One of `MODELS`; empty if unknown.
        gpus: Number of GPUs that it takes.
        submit: When it is submitted.
        duration: How long it runs on the reference hardware.
        speeds: How fast it is by hardware, in thousandths of the reference.
        alternatives: Number of GPUs that it takes instead, by hardware.
    """

    name: str
    team: str
    user: str = ""
    kind: str = "training"
    model: str = ""
    gpus: int
    submit: float
    duration: float
    speeds: Mapping[str, int] = field(default_factory=dict)
    alternatives: Mapping[str, int] = field(default_factory=dict)

    @property
    def work(self) -> float:
        """GPU-seconds on the reference hardware."""
        return self.gpus * self.duration

    def speed_on(self, hardware: str) -> float:
        """Return the speed relative to the reference."""
        return self.speeds.get(hardware, 1000) / 1000

    def gpus_on(self, hardware: str) -> int:
        """Return the number of GPUs that it takes on some hardware."""
        return self.alternatives.get(hardware, self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in the order of their submission.

    Attributes:
        name: Their source.
        jobs: The jobs, sorted by time, then name.
        notes: What was changed in them, for the report.
    """

    name: str
    jobs: tuple[TraceJob, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def teams(self) -> tuple[str, ...]:
        """Names of the teams, sorted."""
        return tuple(sorted({job.team for job in self.jobs}))

    @property
    def span(self) -> float:
        """Seconds from the first to the last submission."""
        return self.jobs[-1].submit - self.jobs[0].submit if self.jobs else 0.0


def in_order(jobs: list[TraceJob]) -> tuple[TraceJob, ...]:
    """Sort jobs by submission, then name."""
    return tuple(sorted(jobs, key=lambda job: (job.submit, job.name)))


def stretch(trace: Trace, span: float) -> Trace:
    """Return the trace with the first submission at 0 and the last one at ``span``."""
    if not trace.jobs or trace.span <= 0:
        return trace
    begun, factor = trace.jobs[0].submit, span / trace.span
    jobs = tuple(replace(job, submit=(job.submit - begun) * factor) for job in trace.jobs)
    return replace(trace, jobs=jobs)
