"""One run: a seed becomes a world, things happen, all is healed, and the promises are looked at."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time

import structlog

from tests.fleet.acts import heal, pause_manager_at_write, perform
from tests.fleet.checkers import Checker, RestIsQuiet, build_checkers
from tests.fleet.checkers.words import is_ours
from tests.fleet.history import Change, History
from tests.fleet.kinds import has_ended, plural_of
from tests.fleet.objects import Json
from tests.fleet.outside import Outside
from tests.fleet.plan import BUSY, Act, JobPlan, Plan
from tests.fleet.plan_extras import make_seed_plan
from tests.fleet.virtual_loop import run_virtually
from tests.fleet.world import HUB, FleetWorld, workload_key

STEP = 5.0
"""Seconds between two looks at the world as a whole."""
HEALING = 2400.0
"""Seconds that everything may take to end after healing: longest backoff to connect, to queue
again, to ask a dispatcher; beside the jobs themselves, one after the other."""
STUCK = 900.0
"""Seconds without any write after which nothing will happen any more: longer than any backoff."""
QUIET = 120.0
"""Seconds of rest that are watched at the end."""


BuildCheckers = Callable[[FleetWorld, Callable[[str, str], None]], list[Checker]]
"""Makes those who look at a world; they are given whom to tell of a broken promise."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that was broken."""

    at: float
    checker: str
    words: str

    def __str__(self) -> str:
        return f"{self.at:10.3f}  {self.checker}: {self.words}"


@dataclass(slots=True)
class Report:
    """What became of a run."""

    plan: Plan
    breaches: list[Breach] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    requests: int = 0
    changes: int = 0
    seconds: float = 0.0
    virtual_seconds: float = 0.0


class Run:
    """A run under way."""

    def __init__(self, plan: Plan, *, keep_log: bool, build: BuildCheckers) -> None:
        self.checkers: list[Checker] = []
        self.report = Report(plan)
        self._begun = asyncio.get_running_loop().time()
        self._broken = asyncio.Event()
        history = History(self._clock, keep_log=keep_log)
        self.world = FleetWorld(plan, history, self._begun)
        self.checkers = build(self.world, self._note)
        history.listen(self._on_change)
        self.world.pods_listeners.append(self._on_pods)

    def _clock(self) -> float:
        return asyncio.get_running_loop().time() - self._begun

    def _note(self, checker: str, words: str) -> None:
        breach = Breach(self._clock(), checker, words)
        self.report.breaches.append(breach)
        self.world.history.note("BROKEN", f"{checker}: {words}")
        self._broken.set()

    def _on_change(self, change: Change) -> None:
        if change.plural != "leases":
            self.report.changes += 1
        for checker in self.checkers:
            checker.on_change(change)

    def _on_pods(self, cluster: str, job: Json, begin: bool) -> None:
        for checker in self.checkers:
            checker.on_pods(cluster, workload_key(plural_of(job["kind"]), job), begin=begin)

    async def run(self) -> Report:
        """Live through it, to its end or to the first broken promise."""
        world = self.world
        world.build()
        if world.plan.dispatcher == "external":
            chance = random.Random(world.plan.seed * 7919 + 3)
            world.spawn(Outside(world.hub, world.configured, chance).run())
        live = asyncio.ensure_future(self._live())
        broken = asyncio.ensure_future(self._broken.wait())
        done, _ = await asyncio.wait({live, broken}, return_when=asyncio.FIRST_COMPLETED)
        for task in (live, broken):
            task.cancel()
        await asyncio.wait({live, broken})
        self.report.virtual_seconds = self._clock()
        await world.close()
        if live in done:
            live.result()
        self.report.counts.update(world.history.counts)
        self.report.lines = world.history.lines
        self.report.requests = world.network.requests
        return self.report

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(self.world.tend()),
                tasks.create_task(self._step()),
            ]
            async with asyncio.TaskGroup() as script:
                for job in self.report.plan.jobs:
                    script.create_task(self._submit_later(job))
                for act in self.report.plan.acts:
                    script.create_task(self._act_later(act))
                await asyncio.sleep(BUSY)
            await self._heal()
            for helper in helpers:
                helper.cancel()

    async def _submit_later(self, job: JobPlan) -> None:
        await asyncio.sleep(job.at)
        self.world.submit(job)

    async def _act_later(self, act: Act) -> None:
        await asyncio.sleep(act.at)
        await perform(self.world, act)

    async def _step(self) -> None:
        while True:
            await asyncio.sleep(STEP)
            for checker in self.checkers:
                checker.on_step()

    async def _heal(self) -> None:
        """Mend all, wait until nothing is left to do, and look."""
        heal(self.world)
        self.world.history.note("healed", "everything works from now on")
        seconds = HEALING + sum(job.seconds for job in self.report.plan.jobs)
        seen, still_for = 0, 0.0
        for _ in range(int(seconds / STEP)):
            still_for = still_for + STEP if seen == self.report.changes else 0.0
            seen = self.report.changes
            if self._is_done() or still_for > STUCK:
                break
            await asyncio.sleep(STEP)
        await asyncio.sleep(self.report.plan.gc_interval + 10.0)
        for checker in self.checkers:
            checker.at_end()
            if isinstance(checker, RestIsQuiet):
                checker.is_over = True
        await asyncio.sleep(QUIET)

    def _is_done(self) -> bool:
        world = self.world
        return (
            all(has_ended(job) for job in world.list_jobs(HUB))
            and all(world.truth.is_connected(worker) for worker in world.workers)
            and not any(
                is_ours(obj)
                for server in world.workers.values()
                for plural in (*world.job_plurals, "workloads")
                for obj in server.list_all(plural)
            )
        )


def run_seed(seed: int, *, keep_log: bool = False) -> Report:
    """Live through the run of a seed."""
    return run_plan(make_seed_plan(seed), keep_log=keep_log)


def run_plan(
    plan: Plan, *, keep_log: bool = False, build: BuildCheckers = build_checkers
) -> Report:
    """Live through a run, on virtual time, and alone with its randomness; all look by default."""

    async def main() -> Report:
        return await Run(plan, keep_log=keep_log, build=build).run()

    settings, state = structlog.get_config(), random.getstate()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    random.seed(plan.seed)
    begun = process_time()
    try:
        stoppable = pause_manager_at_write.__name__ in {act.name for act in plan.acts}
        report: Report = run_virtually(main(), stoppable=stoppable)
    finally:
        random.setstate(state)
        structlog.configure(**settings)
    report.seconds = process_time() - begun
    return report
