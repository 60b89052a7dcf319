"""Small fleets and traces, and the runs over them."""

from __future__ import annotations

from multiqueue_dispatchers.all_at_once import AllAtOnce

from multiqueue.plugins import Dispatcher
from multiqueue.simulation.fleet import Cluster, Preempting, SimulatedFleet
from multiqueue.simulation.records import RunRecord, record_job
from multiqueue.simulation.traces.make import TraceRequest, make_trace, with_speeds
from multiqueue.simulation.traces.trace import Trace, TraceJob, in_order
from multiqueue.simulation.world import Setting, SimulatedWorld


def make_trace_job(name: str, **fields: object) -> TraceJob:
    """A job of one GPU and a hundred seconds at the beginning."""
    defaults: dict[str, object] = {"team": "a", "gpus": 1, "submit": 0.0, "duration": 100.0}
    return TraceJob(name=name, **{**defaults, **fields})


def make_fleet_of(
    *, preempting: Preempting = Preempting.LESS_URGENT, **gpus: int
) -> SimulatedFleet:
    """``make_fleet_of(a100=8)``: one cluster for each kind of hardware, called after it."""
    clusters = tuple(Cluster(name=name, gpus={name: count}) for name, count in gpus.items())
    return SimulatedFleet(clusters=clusters, preempting=preempting)


def play_jobs(
    *jobs: TraceJob, fleet: SimulatedFleet, dispatcher: Dispatcher | None = None, name: str = "test"
) -> RunRecord:
    """Play some jobs; by default they are offered everywhere."""
    trace = Trace(name="made", jobs=in_order(with_speeds(jobs, fleet)))
    return play_trace(trace, fleet, dispatcher or AllAtOnce(), name)


def play_trace(trace: Trace, fleet: SimulatedFleet, dispatcher: Dispatcher, name: str) -> RunRecord:
    """Play a trace."""
    jobs = SimulatedWorld(Setting(trace=trace, fleet=fleet), name, dispatcher).run()
    records = tuple(record_job(managed) for managed in jobs)
    return RunRecord(label=name, seed=1, trace=trace.name, fleet=fleet, jobs=records)


def make_small_trace(
    fleet: SimulatedFleet, *, seed: int = 1, count: int = 30, load: float = 1.5
) -> Trace:
    """A trace that is too much for the fleet."""
    wanted = TraceRequest(source="helios-like", count=count, load=load, teams=3)
    return make_trace(wanted, fleet, seed)
