"""Jobs like those of Helios, SenseTime's datacenter (2020).

Published (Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
Datacenters", SC'21): GPU jobs run for 206 s in the median and 6652 s on average. They ask for 3.72
GPUs on average, more than half of them for one. Jobs with one GPU take a small part of all GPU
time, those with eight or more take most of it. Few users and virtual clusters submit most of the
work, in bursts of similar jobs, more by day than at night, with dips at noon and at six in the
evening.

A log-normal distribution with that median and mean has a sigma of 2.64, which is used here. Not
published as numbers, and chosen here: how length grows with size, the size of bursts, and the
shares of the kinds of jobs. Each user trains one model, and all models are equally frequent.
Capped: lengths at half a day and gangs at half of the largest cluster, since a trace of a few days
on a few hundred GPUs could not be steady otherwise.
"""

from __future__ import annotations

import math
from random import Random

from multiqueue.simulation.traces.arrivals import Burst
from multiqueue.simulation.traces.trace import MODELS, TraceJob

MEDIAN = 206.0
SIGMA = 2.64
LONGEST = 43_200.0
SHORTEST = 10.0
SIZES = {1: 0.565, 2: 0.10, 4: 0.12, 8: 0.16, 16: 0.033, 32: 0.016, 64: 0.006}
GROWTH = 0.25
"""Length grows with this power of the size."""
BURSTS = {1: 0.7, 2: 0.12, 4: 0.1, 8: 0.06, 16: 0.02}
TEAMS = ("vision", "speech", "robotics", "search", "ads", "maps", "safety", "language")
"""Kinds by size: large jobs are training, and short ones are trials."""
DEBUG_SECONDS = 300.0


def generate(random: Random, *, count: int, teams: int, largest: int) -> list[Burst]:
    """Return the given number of jobs as bursts without times."""
    users = [(TEAMS[n % teams], f"user-{n:02}", 1.0 / (n + 1) ** 0.8) for n in range(8 * teams)]
    models = {user: random.choice(sorted(MODELS)) for _, user, _ in users}
    sizes = {size: weight for size, weight in SIZES.items() if size <= largest}
    bursts: list[Burst] = []
    made = 0
    while made < count:
        team, user, _ = random.choices(users, [weight for _, _, weight in users])[0]
        length = random.choices(list(BURSTS), list(BURSTS.values()))[0]
        size = random.choices(list(sizes), list(sizes.values()))[0]
        base = _draw(random, size)
        jobs = []
        for _ in range(min(length, count - made)):
            duration = min(LONGEST, max(SHORTEST, base * random.lognormvariate(0.0, 0.25)))
            kind = _kind(random, size, duration)
            jobs.append(
                TraceJob(
                    name=f"job-{made:05}",
                    team=team,
                    user=user,
                    kind=kind,
                    model=models[user],
                    gpus=size,
                    submit=0.0,
                    duration=round(duration, 1),
                )
            )
            made += 1
        bursts.append(Burst(jobs=tuple(jobs), every=random.uniform(1.0, 60.0)))
    return bursts


def _draw(random: Random, size: int) -> float:
    return random.lognormvariate(0.0, SIGMA) * MEDIAN * math.pow(size, GROWTH)


def _kind(random: Random, size: int, duration: float) -> str:
    if duration < DEBUG_SECONDS and size <= 8:
        return "debug" if random.random() < 0.6 else "evaluation"
    if size >= 32:
        return "pretraining"
    return "finetuning" if random.random() < 0.25 else "training"
