"""How far waits are from the best that anybody could do who knows the future.

Small cases: seven jobs on two clusters of 8 GPUs. The optimum knows every job and its run time from
the beginning, never stops a job, and tries every order on every cluster. What lies between it and
`score` with exact run times is the price of not knowing who comes next; what lies between that and
`score` is the price of predictions. The environment variable CASES says how many cases are played.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.simulation.fleet import Cluster, Preempting, SimulatedFleet
from multiqueue.simulation.metrics import mean
from multiqueue.simulation.records import record_job
from multiqueue.simulation.traces.make import with_speeds
from multiqueue.simulation.traces.trace import Trace, TraceJob, in_order
from multiqueue.simulation.worker import START_SECONDS
from multiqueue.simulation.world import Setting, SimulatedWorld

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

CASES = int(os.environ.get("CASES", "40"))
JOBS = 7
FLEET = SimulatedFleet(
    clusters=(Cluster(name="a", gpus={"a100": 8}), Cluster(name="h", gpus={"h100": 8})),
    preempting=Preempting.NOBODY,
    quota_percent=2000,
)
CONTESTANTS = (("score", False), ("score", True), ("incremental", False), ("all-at-once", False))
"""Dispatchers, and whether they are told run times."""


def make_case(seed: int) -> Trace:
    """Seven jobs of one team within an hour: more than the clusters can run at once."""
    rng = random.Random(seed)
    jobs = [
        TraceJob(
            name=f"job-{number}",
            team="team",
            user=f"user-{number}",
            kind="training",
            gpus=rng.choice((1, 2, 4, 8, 8)),
            submit=rng.uniform(0, 3600),
            duration=min(4 * 3600.0, rng.lognormvariate(8, 1.2)),
        )
        for number in range(JOBS)
    ]
    return Trace(name=f"case {seed}", jobs=in_order(with_speeds(jobs, FLEET)))


def play(trace: Trace, dispatcher: str, *, is_told: bool) -> float:
    """Return the mean wait, in seconds."""
    chosen = Dispatchers().select(dispatcher, outside=False).dispatcher
    assert chosen is not None
    setting = Setting(trace=trace, fleet=FLEET, tells_run_times=is_told)
    jobs = SimulatedWorld(setting, dispatcher, chosen).run()
    return mean([record_job(managed).waited for managed in jobs])


@dataclass(slots=True)
class Optimum:
    """The least sum of waits, found by trying each job next on each cluster.

    Some best schedule has each job as early as those before it in some order allow.
    """

    jobs: Sequence[TraceJob]
    best: float = float("inf")
    placed: dict[str, list[tuple[float, float, int]]] = field(
        default_factory=lambda: {cluster.name: [] for cluster in FLEET.clusters}
    )

    def search(self, left: frozenset[int], waited: float) -> None:
        if waited >= self.best:
            return
        if not left:
            self.best = waited
            return
        for place in sorted(left):
            job = self.jobs[place]
            for cluster in FLEET.clusters:
                (flavor,) = cluster.gpus
                takes = START_SECONDS + job.duration / job.speed_on(flavor)
                begin = self.find_room(cluster, job, takes)
                self.placed[cluster.name].append((begin, begin + takes, job.gpus))
                self.search(left - {place}, waited + begin - job.submit + START_SECONDS)
                self.placed[cluster.name].pop()

    def find_room(self, cluster: Cluster, job: TraceJob, takes: float) -> float:
        """Return the earliest time from which a cluster has room for a job until its end."""
        held = self.placed[cluster.name]
        for begin in sorted({job.submit, *(end for _, end, _ in held if end > job.submit)}):
            moments = [begin, *(start for start, _, _ in held if begin < start < begin + takes)]
            used = (sum(n for start, end, n in held if start <= at < end) for at in moments)
            if max(used) + job.gpus <= cluster.total:
                return begin
        raise AssertionError("an empty cluster has room for every job")


def find_optimum(trace: Trace, known: float) -> float:
    """Return the least mean wait, which is no more than that of a known schedule."""
    optimum = Optimum(trace.jobs, best=known * len(trace.jobs) + 1e-6)
    optimum.search(frozenset(range(len(trace.jobs))), 0.0)
    return optimum.best / len(trace.jobs)


def test_waits_beside_the_optimum() -> None:
    waits: dict[str, list[float]] = {}
    for seed in range(1, CASES + 1):
        trace = make_case(seed)
        own = {
            f"{name}, told run times" if is_told else name: play(trace, name, is_told=is_told)
            for name, is_told in CONTESTANTS
        }
        least = find_optimum(trace, min(own.values()))
        assert least <= min(own.values()) + 1e-6
        for name, wait in {**own, "optimum": least}.items():
            waits.setdefault(name, []).append(wait)
    best = mean(waits["optimum"])
    lines = [
        f"{name:24}{mean(each) / 60:8.1f} min{mean(each) / best:8.2f} of the optimum"
        for name, each in waits.items()
    ]
    sys.stderr.write("\n".join([f"\n{CASES} cases of {JOBS} jobs, mean wait:", *lines, ""]))
    assert mean(waits["score"]) <= mean(waits["all-at-once"])
