"""The scenario ``hundred-gpus``: 50 people in two teams share 100 GPUs of one cluster.

All parameters are here. Jobs arrive at independent random times. More than a third are interactive,
short and urgent; the others are batch jobs that save their work every half hour, and every second
job also if it gets notice before it is stopped. Batch jobs are scaled so that the mean job of each
seed is as long as the seed's own benchmark says: 12 of them in an hour are 85 GPUs of work.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from enum import StrEnum

from multiqueue.api.disruptions import StopCause
from multiqueue.api.v1beta2.meta import LabelSelector
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    FlavorQuotas,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
    Quota,
    ResourceGroup,
)
from multiqueue.model.disruption_policy import (
    BudgetRule,
    ClaimRule,
    CostRule,
    DisruptionRules,
    Preference,
    ProtectionRule,
)
from multiqueue.simulation.fleet import GPU
from multiqueue.simulation.traces.arrivals import time_of_share

HOUR, DAY = 3600.0, 86_400.0
GPUS, USERS, TEAMS = 100, 50, ("team-1", "team-2")
FLAVOR = "gpu"
START_SECONDS, STOP_SECONDS = 10.0, 5.0
DAYS, WARM_UP_DAYS = 12, 2
INTERACTIVE_SHARE = 0.35
INTERACTIVE_SIZES: tuple[int, ...] = (1, 2)
INTERACTIVE_WEIGHTS: tuple[int, ...] = (80, 20)
INTERACTIVE_MEDIAN, INTERACTIVE_SIGMA, INTERACTIVE_LONGEST = 15 * 60.0, 0.8, HOUR
BATCH_SIZES: tuple[int, ...] = (1, 2, 4, 8, 16)
BATCH_WEIGHTS: tuple[int, ...] = (40, 22, 18, 16, 4)
BATCH_SIGMA, BATCH_LONGEST = 0.83, DAY
FEW, FEW_SHARE = 5, 0.5
SAVE_SECONDS, RESTART_SECONDS, NOTICE_SECONDS = 1800, 120, 60
MEAN_GPU_SECONDS = 7.083 * HOUR
INTERACTIVE_PRIORITY, BATCH_PRIORITY = 500, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolJob:
    """One job. Times are seconds since the beginning; ``seconds`` is its work without stops.

    ``saves_on_notice`` says that it saves its work if it is told before it is stopped.
    """

    name: str
    team: str
    gpus: int
    submitted: float
    seconds: float
    is_interactive: bool
    person: int = 0
    saves_on_notice: bool = False

    @property
    def saves(self) -> bool:
        """Whether it goes on from its last checkpoint after a stop."""
        return not self.is_interactive


class Variation(StrEnum):
    """What is otherwise than stated, to see what the figures rest on."""

    NONE = "none"
    EVEN = "even"
    UNEVEN = "uneven"
    GANGS = "gangs-of-32"
    FEW_USERS = "few-users"
    BY_HOUR = "by-hour"

    @property
    def sigma(self) -> float:
        """How much the lengths of batch jobs differ."""
        return {Variation.EVEN: 0.6, Variation.UNEVEN: 1.2}.get(self, BATCH_SIGMA)


VARIATIONS = {
    Variation.NONE: "as stated",
    Variation.EVEN: "lengths of batch jobs differ less: sigma 0.6",
    Variation.UNEVEN: "lengths of batch jobs differ more: sigma 1.2",
    Variation.GANGS: "every second gang of 16 has 32 GPUs",
    Variation.FEW_USERS: f"{FEW} users submit half of the jobs",
    Variation.BY_HOUR: "more jobs come by day than by night and at weekends",
}


class System(StrEnum):
    """How the GPUs are shared."""

    STATIC_HALVES = "static-halves"
    FIRST_COME = "first-come"
    COHORT = "cohort"
    GENTLE = "cohort+gentle"
    LEARNED = "gentle+learned"
    TOLD = "gentle+told"
    ONE = "one+gentle"
    ONE_TOLD = "one+told"
    NO_QUEUE = "no-queue"


MAIN = (System.STATIC_HALVES, System.FIRST_COME, System.COHORT, System.GENTLE)
"""The systems that are compared under each `Variation`."""

QUEUED: tuple[System, ...] = tuple(system for system in System if system is not System.NO_QUEUE)
"""The systems that have queues."""


DESCRIPTIONS = {
    System.STATIC_HALVES: "two queues of 50, StrictFIFO, no priorities, nothing is lent",
    System.FIRST_COME: "one queue of 100, StrictFIFO, no priorities",
    System.COHORT: "two queues of 50 in a cohort, BestEffortFIFO, preemption, no policy",
    System.GENTLE: "the same with the sample policy gentle",
    System.LEARNED: "the same, and names of jobs tell who submitted them, for which kind of work",
    System.TOLD: "cohort+gentle, and each job declares exactly how long it runs",
    System.ONE: "cohort+gentle, but one queue of 100 for all, so that nobody takes back quota",
    System.ONE_TOLD: "the same, and each job declares exactly how long it runs",
    System.NO_QUEUE: "all pods are there at once, a free GPU goes to any of them, and a job that "
    "does not have all its GPUs half an hour after the first gives up for good",
}

GENTLE = DisruptionRules(
    name="gentle",
    max_preempted_workloads=8,
    prefer=Preference.LEAST_LOST_WORK,
    budgets=(BudgetRule(policy="gentle", name="loss", window=86_400, max_lost_percent=3),),
    protection=ProtectionRule(
        min_run={
            StopCause.QUEUE: 600,
            StopCause.RECLAIM: 600,
            StopCause.FAIR_SHARE: 3600,
            StopCause.MIGRATION: 3600,
        },
        growth=2,
        longest=7200,
        max_preemptions=3,
        concede=900,
    ),
    cost=CostRule(longest_notice=300),
    waiting=ClaimRule(passing=100, claims=1, after=14_400),
)
"""What config/samples-disruption/1-gentle.yaml says; a test compares them."""


def make_jobs(
    seed: int, rate: float, *, days: float = DAYS, variation: Variation = Variation.NONE
) -> tuple[PoolJob, ...]:
    """Return the jobs of a seed, in the order of their submission.

    Args:
        seed: The seed.
        rate: Jobs per hour.
        days: How long jobs are submitted.
        variation: What is otherwise than stated.
    """
    chance = random.Random(f"hundred-gpus {seed}")  # noqa: S311 - no secret
    spread = variation.sigma / math.sqrt(2)
    habits = [chance.gauss(0, spread) for _ in range(USERS)]
    drafts: list[tuple[PoolJob, float]] = []
    at = chance.expovariate(rate / HOUR)
    while at < days * DAY:
        is_few = variation is Variation.FEW_USERS and chance.random() < FEW_SHARE
        others = FEW if variation is Variation.FEW_USERS else 0
        user = chance.randrange(FEW) if is_few else others + chance.randrange(USERS - others)
        is_interactive = chance.random() < INTERACTIVE_SHARE
        sizes, weights = BATCH_SIZES, BATCH_WEIGHTS
        if is_interactive:
            sizes, weights = INTERACTIVE_SIZES, INTERACTIVE_WEIGHTS
        job = PoolJob(
            name=f"job-{len(drafts):05}",
            person=user,
            team=TEAMS[user % len(TEAMS)],
            gpus=chance.choices(sizes, weights)[0],
            submitted=at,
            seconds=0.0,
            is_interactive=is_interactive,
            saves_on_notice=not is_interactive and len(drafts) % 2 == 0,
        )
        if variation is Variation.GANGS and job.gpus == max(BATCH_SIZES) and chance.random() < 0.5:
            job = replace(job, gpus=2 * job.gpus)
        if variation is Variation.BY_HOUR:
            job = replace(job, submitted=time_of_share(at / (days * DAY), days * DAY))
        own = chance.gauss(0, INTERACTIVE_SIGMA if is_interactive else spread)
        drafts.append((job, own if is_interactive else own + habits[user]))
        at += chance.expovariate(rate / HOUR)
    median = _find_batch_median(drafts)
    return tuple(replace(job, seconds=_length(job, own, median)) for job, own in drafts)


def _length(job: PoolJob, own: float, batch_median: float) -> float:
    if job.is_interactive:
        return min(INTERACTIVE_MEDIAN * math.exp(own), INTERACTIVE_LONGEST)
    return min(batch_median * math.exp(own), BATCH_LONGEST)


def _find_batch_median(drafts: list[tuple[PoolJob, float]]) -> float:
    """Return the median with which the mean job has `MEAN_GPU_SECONDS`; lengths have a limit."""
    low, high = 1.0, BATCH_LONGEST
    for _ in range(60):
        middle = (low + high) / 2
        total = sum(job.gpus * _length(job, own, middle) for job, own in drafts)
        low, high = (middle, high) if total < MEAN_GPU_SECONDS * len(drafts) else (low, middle)
    return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The queues of a system.

    Attributes:
        queue_of: The ClusterQueue of each team.
        has_priorities: Whether interactive jobs are more urgent.
        policy: What governs the queues.
        tells_run_times: Whether jobs declare how long they run.
        learns: Whether jobs have names from which the manager learns how long the next ones run.
    """

    queues: tuple[ClusterQueue, ...]
    queue_of: dict[str, str]
    has_priorities: bool = False
    policy: DisruptionRules | None = None
    tells_run_times: bool = False
    learns: bool = False
    gpus: int = field(default=GPUS)


def lay_out(system: System) -> Layout:
    """Return the queues of a system that is `QUEUED`."""
    in_order = system in {System.STATIC_HALVES, System.FIRST_COME}
    shared = system in {System.FIRST_COME, System.ONE, System.ONE_TOLD}
    queue_of = {team: "all" if shared else team for team in TEAMS}
    names = tuple(dict.fromkeys(queue_of.values()))
    queues = tuple(_queue(name, GPUS // len(names)) for name in names)
    if in_order:
        return Layout(queues=queues, queue_of=queue_of)
    policy = None if system is System.COHORT else GENTLE
    return Layout(
        queues=tuple(
            replace(
                queue,
                cohort="cohort",
                strategy=QueueingStrategy.BEST_EFFORT_FIFO,
                preemption=Preemption(
                    within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
                    reclaim_within_cohort=PreemptionPolicy.ANY,
                ),
                disruption_policy=policy.name if policy else "",
            )
            for queue in queues
        ),
        queue_of=queue_of,
        has_priorities=True,
        policy=policy,
        tells_run_times=system in {System.TOLD, System.ONE_TOLD},
        learns=system is System.LEARNED,
    )


def _queue(name: str, gpus: int) -> ClusterQueue:
    quotas = FlavorQuotas(name=FLAVOR, quotas={GPU: Quota(nominal=gpus)})
    return ClusterQueue(
        name=name,
        namespace_selector=LabelSelector(),
        resource_groups=(ResourceGroup(covered_resources=(GPU,), flavors=(quotas,)),),
        strategy=QueueingStrategy.STRICT_FIFO,
    )
