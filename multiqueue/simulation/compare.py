"""Plays the same traces with several dispatchers, side by side in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from multiqueue.multikueue.dispatching.registry import Dispatchers
from multiqueue.simulation.fleet import Fleet
from multiqueue.simulation.metrics import Summary, measure, summarise
from multiqueue.simulation.records import RunRecord, record_job
from multiqueue.simulation.traces.make import make_trace
from multiqueue.simulation.world import Setting, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is compared.

    Attributes:
        trace: Name of a generator, or the path of a file.
        fleet: The workers.
        dispatchers: Names; differences are told to the first one.
        seeds: Of the traces.
        count: Jobs in each.
        load: Of what the fleet can do.
        teams: That share it.
        arguments: Of the dispatchers, by name.
    """

    trace: str
    fleet: Fleet
    dispatchers: tuple[str, ...]
    seeds: tuple[int, ...]
    count: int
    load: float
    teams: int
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of it.

    Attributes:
        plan: What was compared.
        runs: By dispatcher, in the order of the seeds.
    """

    plan: Plan
    runs: Mapping[str, Sequence[RunRecord]]

    def figures(self) -> dict[str, list[Summary]]:
        """Return the figures of every run."""
        return {name: [measure(run) for run in runs] for name, runs in self.runs.items()}

    def summaries(self) -> dict[str, Summary]:
        """Return the mean of the figures over the seeds."""
        return {name: summarise(runs) for name, runs in self.figures().items()}


class UnknownDispatcherError(ValueError):
    """A dispatcher cannot be used; the text says why."""


def play(plan: Plan, dispatcher: str, seed: int) -> RunRecord:
    """Play one seed with one dispatcher.

    Raises:
        UnknownDispatcherError: there is no such dispatcher.
    """
    selection = Dispatchers().select(dispatcher)
    if selection.dispatcher is None:
        raise UnknownDispatcherError(selection.problem)
    trace = make_trace(
        plan.trace, plan.fleet, seed=seed, count=plan.count, load=plan.load, teams=plan.teams
    )
    arguments = plan.arguments.get(dispatcher, {})
    setting = Setting(trace=trace, fleet=plan.fleet, arguments=arguments)
    jobs = World(setting, dispatcher, selection.dispatcher).run()
    return RunRecord(
        dispatcher=dispatcher,
        seed=seed,
        trace=trace.name,
        fleet=plan.fleet,
        jobs=tuple(record_job(managed) for managed in jobs),
        notes=trace.notes,
    )


def compare(
    plan: Plan,
    *,
    processes: int | None = None,
    on_done: Callable[[RunRecord], None] = lambda _run: None,
) -> Comparison:
    """Play everything.

    Args:
        plan: What is compared.
        processes: How many at a time; one a core by default, 1: in this process.
        on_done: Gets each run when it has ended, in order.

    Raises:
        UnknownDispatcherError: a dispatcher cannot be used.
    """
    for name in plan.dispatchers:
        if (problem := Dispatchers().select(name).problem) != "":
            raise UnknownDispatcherError(problem)
    todo = [(name, seed) for seed in plan.seeds for name in plan.dispatchers]
    count = min(len(todo), processes or os.cpu_count() or 1)
    runs: dict[str, list[RunRecord]] = {name: [] for name in plan.dispatchers}
    if count == 1:
        results = (play(plan, name, seed) for name, seed in todo)
        for run in results:
            on_done(run)
            runs[run.dispatcher].append(run)
        return Comparison(plan=plan, runs=runs)
    with ProcessPoolExecutor(count) as pool:
        futures = [pool.submit(play, plan, name, seed) for name, seed in todo]
        for future in futures:
            run = future.result()
            on_done(run)
            runs[run.dispatcher].append(run)
    return Comparison(plan=plan, runs=runs)
