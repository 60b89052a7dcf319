"""What is submitted to a simulated fleet: jobs with sizes, lengths and times. Pure values.

Units: times in seconds since the beginning of the trace; lengths in seconds on the reference
hardware, which is an A100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """What kind of work a job is.

    Attributes:
        name: The word for it.
        speeds: How fast it is by hardware, in thousandths of the reference.
        priority: Of its Workloads.
        checkpoint: Seconds between two checkpoints; 0: it has none and begins anew.
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
"""Speeds are round figures: public training benchmarks put an H100 at two to three A100s for large
transformers, and at less the more a job waits for its data, its CPUs or its user."""

MODELS: Mapping[str, Mapping[str, int]] = {
    "recommendation": {"h100": 1300},
    "convolutional": {"h100": 1500},
    "speech": {"h100": 1700},
    "transformer": {"h100": 2200},
    "large-transformer": {"h100": 2800},
}
"""How fast the training of what is by hardware: as above, the more of its time a model spends on
large matrices, in few bits, the more it gains."""
TRAINING = frozenset({"pretraining", "training", "finetuning"})
"""Kinds of jobs that are as fast as their model; others wait for other things."""


NODE_GPUS = 8
"""Of a node; larger gangs are pods of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One gang: all of its GPUs, or none.

    Attributes:
        name: Unique in the trace.
        team: Whose queue it uses.
        user: Whose it is.
        kind: Name of its `JobClass`.
        model: Of `MODELS`, where that is known.
        gpus: How many it takes.
        submit: When it is submitted.
        duration: How long it runs on the reference hardware.
        speeds: How fast it is by hardware, in thousandths of the reference.
        alternatives: How many GPUs it takes instead, by hardware.
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
        """How many times faster than on the reference it runs."""
        return self.speeds.get(hardware, 1000) / 1000

    def gpus_on(self, hardware: str) -> int:
        """How many GPUs it takes there."""
        return self.alternatives.get(hardware, self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in the order in which they are submitted.

    Attributes:
        name: Where they are from.
        jobs: Sorted by time, then name.
        notes: What was changed about them, for the report.
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
    """Sort jobs as a trace has them."""
    return tuple(sorted(jobs, key=lambda job: (job.submit, job.name)))


def stretch(trace: Trace, span: float) -> Trace:
    """Return the trace with the first submission at 0 and the last one at ``span``."""
    if not trace.jobs or trace.span <= 0:
        return trace
    begun, factor = trace.jobs[0].submit, span / trace.span
    jobs = tuple(replace(job, submit=(job.submit - begun) * factor) for job in trace.jobs)
    return replace(trace, jobs=jobs)
