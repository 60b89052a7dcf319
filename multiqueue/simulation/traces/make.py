"""The trace that a name stands for, as dense as a load asks for."""

from __future__ import annotations

from random import Random

from multiqueue.simulation.fleet import Fleet, find_span
from multiqueue.simulation.traces import helios_like
from multiqueue.simulation.traces.arrivals import arrange
from multiqueue.simulation.traces.trace import Trace

GENERATORS = {"helios-like": helios_like.generate}


def make_trace(name: str, fleet: Fleet, *, seed: int, count: int, load: float, teams: int) -> Trace:
    """Return the trace of a generator; the same seed gives the same jobs."""
    random = Random(f"{name}/{seed}")  # noqa: S311 - drawn for a simulation, not for secrets
    bursts = GENERATORS[name](random, count=count, teams=teams, largest=fleet.largest_for(""))
    jobs = [job for burst in bursts for job in burst.jobs]
    span = find_span(jobs, fleet, load)
    return Trace(name=f"{name}, seed {seed}", jobs=arrange(random, bursts, span))
