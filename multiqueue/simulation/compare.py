"""Simulate the same traces with several dispatchers, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.plugins import ChecksArguments
from multiqueue.simulation.fleet import SimulatedFleet
from multiqueue.simulation.metrics import Summary, measure, summarise
from multiqueue.simulation.records import RunRecord, record_job
from multiqueue.simulation.traces.make import TraceRequest, make_trace
from multiqueue.simulation.world import Setting, SimulatedWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A dispatcher with its arguments.

    Attributes:
        label: Its name in the comparison.
        dispatcher: The dispatcher's name.
        arguments: The dispatcher's arguments.
        quota_percent: The manager's quota, in percent of what the workers have; 0: the fleet's.
    """

    label: str
    dispatcher: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    quota_percent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is compared.

    Attributes:
        wanted: The requested jobs.
        fleet: The workers.
        contestants: The contestants; differences are relative to the first one.
        seeds: Seeds of the traces.
        tells_run_times: Whether the manager knows exactly how long each job runs.
    """

    wanted: TraceRequest
    fleet: SimulatedFleet
    contestants: tuple[Contestant, ...]
    seeds: tuple[int, ...]
    tells_run_times: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        plan: What was compared.
        runs: Runs by label, in the order of the seeds.
        figures: Figures of the runs, by label.
    """

    plan: Plan
    runs: Mapping[str, Sequence[RunRecord]]
    figures: Mapping[str, Sequence[Summary]]

    def summaries(self) -> dict[str, Summary]:
        """Return the mean of the figures over the seeds, by label."""
        return {label: summarise(figures) for label, figures in self.figures.items()}


class UnknownDispatcherError(ValueError):
    """A dispatcher cannot be used; the text says why."""


def play(plan: Plan, contestant: Contestant, seed: int) -> RunRecord:
    """Simulate one seed with one contestant.

    Raises:
        UnknownDispatcherError: There is no such dispatcher.
        TraceError: There is no such trace.
    """
    selection = Dispatchers().select(contestant.dispatcher, outside=False)
    if selection.dispatcher is None:
        raise UnknownDispatcherError(selection.problem)
    trace = make_trace(plan.wanted, plan.fleet, seed)
    percent = contestant.quota_percent or plan.fleet.quota_percent
    fleet = replace(plan.fleet, quota_percent=percent)
    setting = Setting(
        trace=trace,
        fleet=fleet,
        arguments=contestant.arguments,
        tells_run_times=plan.tells_run_times,
    )
    jobs = SimulatedWorld(setting, contestant.dispatcher, selection.dispatcher).run()
    return RunRecord(
        label=contestant.label,
        seed=seed,
        trace=trace.name,
        fleet=fleet,
        jobs=tuple(record_job(managed) for managed in jobs),
        notes=trace.notes,
    )


def compare(
    plan: Plan,
    *,
    processes: int | None = None,
    on_done: Callable[[RunRecord], None] = lambda _run: None,
) -> Comparison:
    """Simulate all seeds with all contestants.

    Args:
        plan: What is compared.
        processes: Number of parallel processes; by default one per core. 1: in this process.
        on_done: Gets each run when it has ended, in order.

    Raises:
        UnknownDispatcherError: A dispatcher cannot be used.
        DispatcherError: A dispatcher raised.
        TraceError: There is no such trace.
    """
    for contestant in plan.contestants:
        _check(contestant)
    todo = [(each, seed) for seed in plan.seeds for each in plan.contestants]
    count = min(len(todo), processes or os.cpu_count() or 1)
    runs: dict[str, list[RunRecord]] = {each.label: [] for each in plan.contestants}
    with _pool(count) as submit:
        for result in [submit(plan, each, seed) for each, seed in todo]:
            run = result()
            on_done(run)
            runs[run.label].append(run)
    figures = {label: [measure(run) for run in of] for label, of in runs.items()}
    return Comparison(plan=plan, runs=runs, figures=figures)


def _check(contestant: Contestant) -> None:
    """Raise if a contestant cannot be used, before minutes are spent."""
    selection = Dispatchers().select(contestant.dispatcher, outside=False)
    if selection.dispatcher is None:
        raise UnknownDispatcherError(selection.problem)
    if isinstance(selection.dispatcher, ChecksArguments):
        problems = selection.dispatcher.check_arguments(contestant.arguments)
        if problems:
            raise UnknownDispatcherError(f'dispatcher "{contestant.label}": {"; ".join(problems)}')


@contextmanager
def _pool(count: int) -> Iterator[Callable[[Plan, Contestant, int], Callable[[], RunRecord]]]:
    """Yield a function that starts a run and returns a function that waits for it."""
    if count == 1:
        yield lambda plan, contestant, seed: partial(play, plan, contestant, seed)
        return
    with ProcessPoolExecutor(count) as pool:
        try:
            yield lambda plan, contestant, seed: pool.submit(play, plan, contestant, seed).result
        finally:
            # After a failure, the caller does not wait for the other runs.
            pool.shutdown(cancel_futures=True)
