"""Make the trace of a generator or a file, compressed to the requested load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from multiqueue.simulation.fleet import SimulatedFleet, find_span
from multiqueue.simulation.traces import acme_like, helios_like
from multiqueue.simulation.traces.arrivals import arrange
from multiqueue.simulation.traces.csv_loader import TraceError, load_csv
from multiqueue.simulation.traces.trace import (
    CLASSES,
    MODELS,
    NODE_GPUS,
    TRAINING,
    Trace,
    TraceJob,
    stretch,
)

GENERATORS = {"helios-like": helios_like.generate, "acme-like": acme_like.generate}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """The requested jobs.

    Attributes:
        source: Name of a generator, or the path of a CSV file.
        count: Number of jobs.
        load: Work of the jobs relative to the capacity of the fleet.
        teams: Number of teams that share the fleet.
    """

    source: str
    count: int
    load: float
    teams: int


def make_trace(wanted: TraceRequest, fleet: SimulatedFleet, seed: int) -> Trace:
    """Return the jobs of one seed, from 1 on; each seed reads another part of a file.

    Raises:
        TraceError: There is no such generator or file, or the file is not a valid trace.
    """
    largest = fleet.largest
    if wanted.source in GENERATORS:
        # The measured datacenters are tens of times larger than their larger gangs.
        largest = max(1, largest // 2)
        random = Random(f"{wanted.source}/{seed}")  # noqa: S311 - a simulation is no secret
        generate = GENERATORS[wanted.source]
        bursts = generate(random, count=wanted.count, teams=wanted.teams, largest=largest)
        jobs = [job for burst in bursts for job in burst.jobs]
        span = find_span(with_speeds(jobs, fleet), fleet, wanted.load)
        made = Trace(name=wanted.source, jobs=arrange(random, bursts, span))
    else:
        made = _load(wanted, largest, seed)
        span = find_span(with_speeds(made.jobs, fleet), fleet, wanted.load)
        factor = f"{made.span / span:.2f}" if span > 0 else "1"
        note = f"submitted {factor} times as fast as recorded, for a load of {wanted.load:g}"
        made = replace(stretch(made, span), notes=(*made.notes, note))
    return replace(made, jobs=tuple(with_speeds(made.jobs, fleet)))


def with_speeds(jobs: Sequence[TraceJob], fleet: SimulatedFleet) -> list[TraceJob]:
    """Return the jobs with their speeds and sizes on the hardware of the fleet.

    A gang with fewer GPUs runs longer in proportion, so it occupies the same GPU time in total.
    """
    made = []
    for job in jobs:
        speeds = _speeds_of(job.kind, job.model, fleet)
        fewer = _alternatives_of(job, fleet)
        for hardware, gpus in fewer.items():
            speeds[hardware] = round(speeds.get(hardware, 1000) * gpus / job.gpus)
        made.append(replace(job, speeds=speeds, alternatives=fewer))
    return made


def _alternatives_of(job: TraceJob, fleet: SimulatedFleet) -> dict[str, int]:
    """Return the fewer GPUs that are enough, by hardware; only for gangs of several nodes."""
    nodes, rest = divmod(job.gpus, NODE_GPUS)
    if rest or nodes < 2:
        return {}
    found = {name: max(1, round(nodes * share)) for name, share in fleet.alternatives.items()}
    return {name: count * NODE_GPUS for name, count in found.items() if count < nodes}


def _speeds_of(kind: str, model: str, fleet: SimulatedFleet) -> dict[str, int]:
    """Return the speeds of a kind, overridden by its model's, then by the fleet's."""
    trained = MODELS.get(model, {}) if kind in TRAINING else {}
    told = {**fleet.speeds.get(kind, {}), **fleet.speeds.get(model, {})}
    return {**CLASSES[kind].speeds, **trained, **told}


def _load(wanted: TraceRequest, largest: int, seed: int) -> Trace:
    path = Path(wanted.source)
    if not path.suffix and not path.exists():
        names = ", ".join(GENERATORS)
        raise TraceError(
            f'trace "{wanted.source}" is neither a generator nor a file; generators are {names}'
        )
    return load_csv(
        path,
        skip=wanted.count * (seed - 1),
        count=wanted.count,
        teams=wanted.teams,
        largest=largest,
    )
