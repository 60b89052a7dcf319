"""From a seed to what a run is made of: sizes, settings, and the script of what goes wrong when.

Pure: the same seed gives the same plan. Most fleets are small, so that a thousand of them fit into
minutes; a few are large. The script is a list of acts, each a moment, a name and its arguments;
`acts` does them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fleet.weather import REQUEST_FAULTS, WATCH_FAULTS, Down, Fault

BUSY = 240.0
"""Seconds of a run in which jobs come and things go wrong; then all is healed."""
SECONDS = (5.0, 30.0, 60.0, 150.0, 300.0)
"""How long jobs run, about."""
NOISY = 0.3
"""Share of runs in which a few requests in a hundred fail all the time."""
SIZES = ((1, 6), (2, 40), (3, 30), (4, 12), (6, 8), (8, 3), (20, 1))
"""How many workers, and how often in a hundred."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that the outside does.

    Attributes:
        at: Seconds since the run began.
        name: Of the function in `acts`.
        arguments: Of that function.
    """

    at: float
    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        words = " ".join(str(argument) for argument in self.arguments)
        return f"{self.at:8.1f}  {self.name} {words}".rstrip()


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job that a user submits."""

    name: str
    at: float
    gpus: int
    seconds: float
    priority: str
    fails: bool
    stop: float = 4.0
    """Seconds that its pods take to stop, at most."""
    halves: bool = False
    """Whether it is a gang of pods with a GPU each that needs half of them on fast workers."""
    elastic: bool = False
    """Whether it has pods with a GPU each, and their number may change while it runs."""
    kind: str = "Job"
    saves: str = ""
    """What its training does when it is told to save its work; empty: it cannot be told."""
    declares: bool = False
    """Whether it declares how long it runs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run.

    Attributes:
        workers: Quota of each worker in GPUs, by name.
        played: Workers whose Kueue is played.
        lost_timeout: Seconds after which a worker that is out of reach is given up.
        managers: How many compete for leadership; one alone does not.
        skews: Seconds by which the clock of a cluster, or of a manager, is wrong.
        order: Of the clusters in the MultiKueueConfig; empty: as they are.
        step: Clusters that the incremental dispatcher adds in a round.
        round_seconds: How long its rounds are.
        gated: Whether one worker at a time preempts.
        fast: Workers with other hardware.
        saving: Whether jobs may save their work before they are stopped.
    """

    seed: int
    workers: dict[str, int]
    played: frozenset[str]
    hub_gpus: int
    lost_timeout: float
    gc_interval: float
    dispatcher: str
    managers: int
    page_size: int
    skews: dict[str, float]
    jobs: tuple[JobPlan, ...]
    acts: tuple[Act, ...]
    order: tuple[str, ...] = ()
    step: int = 0
    round_seconds: float = 0.0
    gated: bool = False
    fast: frozenset[str] = frozenset()
    saving: bool = False

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its jobs; the players of workers know Jobs in any case."""
        return frozenset({"Job", *(job.kind for job in self.jobs)})

    def describe(self) -> str:
        """Say in a line what kind of run it is."""
        return (
            f"seed {self.seed}: {len(self.workers)} workers ({len(self.played)} played), "
            f"{self.managers} managers, {len(self.jobs)} jobs, dispatcher {self.dispatcher}"
            f"{' with gates' if self.gated else ''}"
            f"{f', {len(self.fast)} fast workers' if self.fast else ''}, "
            f"{', with notices' if self.saving else ''}"
            f"{', '.join(sorted(self.kinds))}, "
            f"lost timeout {self.lost_timeout:g} s, {len(self.acts)} acts"
        )


def build_plan(seed: int) -> Plan:
    """Draw a run."""
    chance = Random(seed)
    count = chance.choices([n for n, _ in SIZES], [weight for _, weight in SIZES])[0]
    names = [f"worker{number}" for number in range(1, count + 1)]
    workers = {name: chance.choice((2, 4, 4, 8)) for name in names}
    workers[names[0]] = 8
    played = frozenset(n for n in names if count > 6 or chance.random() < 0.3)
    managers = 2 if chance.random() < 0.2 else 1
    clocks = ["hub", *names, *(f"manager-{letter}" for letter in "ab"[:managers])]
    skews = {name: round(chance.uniform(-20, 20), 1) for name in clocks if chance.random() < 0.3}
    hub_gpus = chance.choice((4, 8, sum(workers.values()), 1000))
    jobs = _draw_jobs(chance, chance.randint(2, 5) if count < 8 else 40, most=min(8, hub_gpus))
    lost_timeout = chance.choice((60.0, 120.0, 120.0, 300.0))
    acts = _draw_acts(chance, names, jobs, managers, lost_timeout)
    return Plan(
        seed=seed,
        workers=workers,
        played=played,
        hub_gpus=hub_gpus,
        lost_timeout=lost_timeout,
        gc_interval=chance.choice((20.0, 60.0)),
        dispatcher=chance.choice(("all", "all", "score")),
        managers=managers,
        page_size=chance.choice((2, 500, 500)),
        skews=skews,
        jobs=jobs,
        acts=acts,
    )


def _draw_jobs(chance: Random, count: int, *, most: int) -> tuple[JobPlan, ...]:
    jobs = (
        JobPlan(
            name=f"job{number}",
            at=round(chance.uniform(0.0, BUSY * 0.8), 1),
            gpus=min(most, chance.choice((1, 1, 1, 2, 2, 4, 8))),
            seconds=round(
                chance.choice((5.0, 30.0, 60.0, 150.0, 300.0)) * chance.uniform(0.7, 1.3), 1
            ),
            priority=chance.choice(("low", "low", "high")),
            fails=chance.random() < 0.1,
        )
        for number in range(1, count + 1)
    )
    return tuple(sorted(jobs, key=lambda job: job.at))


def _draw_acts(
    chance: Random, workers: list[str], jobs: tuple[JobPlan, ...], managers: int, lost: float
) -> tuple[Act, ...]:
    acts = []
    for name, weight in ACTS.items():
        number = _poisson(chance, weight)
        for _ in range(number):
            at = _draw_moment(chance, jobs)
            acts += _draw_act(chance, name, at, workers, jobs, managers, lost)
    if chance.random() < NOISY:
        faults = chance.sample(tuple(Fault), chance.randint(3, 8))
        rates = tuple((fault, chance.choice((0.01, 0.03))) for fault in faults)
        acts.append(Act(0.5, "storm", ("*", BUSY - 1.0, rates)))
    return tuple(sorted(acts, key=lambda act: act.at))


ACTS: dict[str, float] = {
    "storm": 1.5,
    "outage": 1.0,
    "long_outage": 0.5,
    "kill_manager": 0.5,
    "kill_manager_at_write": 1.0,
    "stop_manager": 0.2,
    "hub_outage": 0.3,
    "cut_watches": 0.6,
    "compact": 0.5,
    "kill_worker_controllers": 0.3,
    "wipe": 0.2,
    "resize": 0.4,
    "hold_queue": 0.3,
    "unconfigure": 0.3,
    "remake_cluster": 0.25,
    "rotate_secret": 0.4,
    "bad_secret": 0.2,
    "cordon": 0.3,
    "unserve_jobs": 0.15,
    "delete_job": 0.5,
    "deactivate": 0.4,
    "change_priority": 0.4,
    "local_rival": 0.4,
    "evict_there": 0.3,
    "delete_copy": 0.3,
    "delete_remote_job": 0.3,
    "foreign_job": 0.3,
    "foreign_workload": 0.2,
}
"""How often each act happens in a run, on average."""


def _draw_act(  # noqa: C901, PLR0912 - a table
    chance: Random,
    name: str,
    at: float,
    workers: list[str],
    jobs: tuple[JobPlan, ...],
    managers: int,
    lost: float,
) -> list[Act]:
    worker, job = chance.choice(workers), chance.choice(jobs).name
    seconds = round(chance.uniform(2.0, 60.0), 1)
    down = chance.choice(tuple(Down))
    match name:
        case "storm":
            everywhere = chance.random() < 0.4
            where = "hub" if chance.random() < 0.3 else worker
            faults = chance.sample((*REQUEST_FAULTS, *WATCH_FAULTS), chance.randint(1, 4))
            rates = tuple((fault, round(chance.choice((0.03, 0.1, 0.3)), 2)) for fault in faults)
            return [Act(at, name, ("*" if everywhere else where, seconds, rates))]
        case "outage":
            return [Act(at, name, (worker, round(chance.uniform(1.0, lost * 0.75), 1), down))]
        case "long_outage":
            return [Act(at, "outage", (worker, round(lost * chance.uniform(1.1, 1.8), 1), down))]
        case "hub_outage":
            return [Act(at, name, (chance.randrange(managers), seconds, down))]
        case "kill_manager" | "stop_manager":
            return [Act(at, name, (chance.randrange(managers), round(chance.uniform(0, 40), 1)))]
        case "kill_manager_at_write":
            after = chance.random() < 0.5
            back = round(chance.choice((0.0, 1.0, 20.0)), 1)
            cut = round(lost * chance.choice((0.0, 0.3, 1.3)), 1)
            number = chance.randint(1, 15)
            arguments = (chance.randrange(managers), number, after, back, worker, cut, down)
            return [Act(at, name, arguments)]
        case "cut_watches" | "compact":
            return [Act(at, name, (chance.choice(("hub", *workers)),))]
        case "kill_worker_controllers" | "unserve_jobs" | "hold_queue" | "cordon" | "bad_secret":
            return [Act(at, name, (worker, seconds))]
        case "unconfigure" | "remake_cluster":
            return [Act(at, name, (worker, seconds))]
        case "wipe":
            return [Act(at, name, (worker, round(chance.uniform(0.0, 20.0), 1)))]
        case "resize":
            return [Act(at, name, (worker, chance.choice((0, 1, 4)), seconds))]
        case "rotate_secret":
            return [Act(at, name, (worker, chance.choice((0.0, 1.0, 15.0))))]
        case "local_rival":
            return [Act(at, name, (worker, chance.choice((2, 8)), seconds))]
        case "change_priority":
            return [Act(at, name, (job, chance.choice(("low", "high"))))]
        case "deactivate":
            return [Act(at, name, (job, seconds))]
        case "delete_job":
            return [Act(at, name, (job,))]
        case "foreign_job" | "foreign_workload":
            return [Act(round(at / 3, 1), name, (worker, job))]
        case _:
            return [Act(at, name, (worker, job))]


def _draw_moment(chance: Random, jobs: tuple[JobPlan, ...]) -> float:
    """Draw when something happens: any time, or about when a job is on its way."""
    if chance.random() < 0.4:
        return round(chance.uniform(1.0, BUSY), 1)
    job = chance.choice(jobs)
    after = chance.random() * chance.choice((0.02, 0.5, 5.0, 30.0))
    return round(min(job.at + after, BUSY), 3)


def _poisson(chance: Random, mean: float) -> int:
    """Draw how often something of this mean happens; at most four times."""
    number, left = 0, mean
    while number < 4 and chance.random() < left / (1.0 + left):
        number, left = number + 1, left / 2
    return number
