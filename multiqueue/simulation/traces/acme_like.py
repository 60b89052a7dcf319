"""Jobs like those of Acme, Shanghai AI Laboratory's datacenter for large models (2023).

Published (Hu et al., "Characterization of Large Language Model Development in the Datacenter",
NSDI'24), quoted from memory: half of the GPU jobs end within two minutes. Evaluations are most of
the jobs (nine in ten on Kalos) and take one percent of the GPU time. Pretraining is three jobs in a
hundred and takes most of it (94 % on Kalos). Many evaluations start at once, as soon as a
checkpoint exists. Pretraining asks for hundreds of GPUs, evaluations for one to eight.

Chosen here: the shares of the other kinds, and the variance of each kind's lengths. Capped: gangs
at half of the largest cluster, and lengths at half a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from multiqueue.simulation.traces.arrivals import Burst
from multiqueue.simulation.traces.trace import TraceJob

LONGEST = 43_200.0
SHORTEST = 10.0
TEAMS = ("pretrain", "align", "vision", "reason", "code", "agents", "speech", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """One kind of job.

    Attributes:
        kind: Name of its job class.
        weight: Relative number of its bursts.
        burst: Smallest and largest number of jobs in a burst.
        median: Median of its lengths, in seconds.
        sigma: Standard deviation of the logarithm of its lengths.
        sizes: Weights by number of GPUs.
    """

    kind: str
    weight: float
    burst: tuple[int, int]
    median: float
    sigma: float
    sizes: Mapping[int, float]


MIXES = (
    Mix(
        kind="evaluation",
        weight=0.3,
        burst=(6, 30),
        median=100.0,
        sigma=0.9,
        sizes={1: 0.6, 2: 0.2, 4: 0.12, 8: 0.08},
    ),
    Mix(
        kind="debug",
        weight=0.25,
        burst=(1, 4),
        median=150.0,
        sigma=1.6,
        sizes={1: 0.3, 8: 0.4, 16: 0.2, 32: 0.1},
    ),
    Mix(
        kind="finetuning",
        weight=0.2,
        burst=(1, 3),
        median=1500.0,
        sigma=1.3,
        sizes={8: 0.6, 16: 0.3, 32: 0.1},
    ),
    Mix(
        kind="training",
        weight=0.13,
        burst=(1, 3),
        median=1200.0,
        sigma=1.5,
        sizes={4: 0.3, 8: 0.5, 16: 0.2},
    ),
    Mix(
        kind="pretraining",
        weight=0.12,
        burst=(1, 2),
        median=6000.0,
        sigma=1.2,
        sizes={32: 0.4, 64: 0.35, 128: 0.25},
    ),
)


def generate(random: Random, *, count: int, teams: int, largest: int) -> list[Burst]:
    """Return the given number of jobs as bursts without times."""
    bursts: list[Burst] = []
    made = 0
    while made < count:
        mix = random.choices(MIXES, [mix.weight for mix in MIXES])[0]
        team = random.randrange(teams) if random.random() < 0.7 else 0
        user = f"user-{team}-{random.randrange(6)}"
        size = min(largest, random.choices(list(mix.sizes), list(mix.sizes.values()))[0])
        number = min(random.randint(*mix.burst), count - made)
        base = random.lognormvariate(0.0, mix.sigma) * mix.median
        jobs = [
            TraceJob(
                name=f"job-{made + place:05}",
                team=TEAMS[team],
                user=user,
                kind=mix.kind,
                gpus=size,
                submit=0.0,
                duration=_length(base * random.lognormvariate(0.0, 0.3)),
            )
            for place in range(number)
        ]
        made += number
        bursts.append(Burst(jobs=tuple(jobs), every=random.uniform(0.5, 20.0)))
    return bursts


def _length(seconds: float) -> float:
    return round(min(LONGEST, max(SHORTEST, seconds)), 1)
