"""Simulate a manager, its workers and a trace, from the first submission to the last end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from multiqueue.plugins import Dispatcher
from multiqueue.simulation.agenda import BEGIN, SimulationAgenda, Timer
from multiqueue.simulation.dispatch_views import WITHOUT_FORECAST, Views
from multiqueue.simulation.fleet import SimulatedFleet
from multiqueue.simulation.knowledge import Knowledge
from multiqueue.simulation.manager import Managed, SimulatedManager
from multiqueue.simulation.reconciles import SimulatedReconciler
from multiqueue.simulation.traces.trace import Trace, TraceJob
from multiqueue.simulation.worker import SimulatedWorker

RECHECK_SECONDS = 0.2
"""Seconds from a change to the decision about it: a watch event and a turn of the loop."""
SWEEP_SECONDS = 0.5
"""Seconds from a change of room on a worker until waiting Workloads are asked about again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is simulated.

    Attributes:
        trace: The jobs.
        fleet: The workers.
        arguments: The dispatcher's arguments.
        tells_run_times: Whether the manager knows exactly how long each job runs.
    """

    trace: Trace
    fleet: SimulatedFleet
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tells_run_times: bool = False


class SimulatedWorld:
    """Simulates one setting with one dispatcher.

    Args:
        setting: What is simulated.
        name: The name of the dispatcher in the configuration.
        dispatcher: The dispatcher.
    """

    def __init__(self, setting: Setting, name: str, dispatcher: Dispatcher) -> None:
        self.agenda = SimulationAgenda()
        self.setting = setting
        weights = weigh_teams(setting.trace)
        knowledge = Knowledge(is_told=setting.tells_run_times)
        self.workers = {
            cluster.name: SimulatedWorker(
                cluster,
                self.agenda,
                weights=weights,
                fleet=setting.fleet,
                knowledge=knowledge,
                on_news=self._hear,
                on_room=self._on_room,
                has_forecasts=name not in WITHOUT_FORECAST,
            )
            for cluster in setting.fleet.clusters
        }
        self.manager = SimulatedManager(
            setting.fleet, self.agenda, weights=weights, on_news=self._hear
        )
        views = self._views = Views(
            self.agenda,
            self.workers,
            knowledge=knowledge,
            dispatcher=name,
            arguments=setting.arguments,
        )
        self._looker = SimulatedReconciler(
            self.agenda, self.manager, self.workers, dispatcher=dispatcher, views=views
        )
        self._timers: dict[str, Timer] = {}
        self._sweep_timer = Timer(self.agenda, self._sweep)

    def run(self) -> tuple[Managed, ...]:
        """Run the simulation; return the jobs' outcomes in the order of the trace.

        Raises:
            RuntimeError: An invariant was broken, or a job did not end.
        """
        for job in self.setting.trace.jobs:
            self.agenda.at(BEGIN + timedelta(seconds=job.submit), self._submission(job))
        for worker in self.workers.values():
            if (outage := worker.cluster.outage) is not None:
                self._plan(outage.after, worker, worker.fail)
                self._plan(outage.after + outage.seconds, worker, worker.recover)
        self.agenda.run()
        left = [m.key for m in self.manager.managed.values() if not m.is_finished]
        if left:
            raise RuntimeError(f"{len(left)} jobs never ended, among them {left[0]}")
        return tuple(self.manager.managed.values())

    def _submission(self, job: TraceJob) -> Any:
        return lambda: self.manager.submit(job)

    def _plan(self, after: float, worker: SimulatedWorker, act: Callable[[], None]) -> None:
        """Have a worker fail or come back, which every Workload learns.

        The manager knows what ended there a moment before. On clusters such a job may run again.
        """

        def change() -> None:
            for key in [key for key, copy in worker.copies.items() if copy.finish is not None]:
                self._look(key)
            act()
            self._looker.update_fleet()
            for key in self.manager.managed:  # also of those that ended elsewhere meanwhile
                self._hear(key)

        self.agenda.at(BEGIN + timedelta(seconds=after), change)

    def _hear(self, key: str) -> None:
        self._timer(key).set_after(RECHECK_SECONDS)

    def _timer(self, key: str) -> Timer:
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = Timer(self.agenda, lambda: self._look(key))
        return timer

    def _look(self, key: str) -> None:
        again = self._looker.look(key)
        if again is not None:
            self._timer(key).set_after(max(again, 0.01))

    def _on_room(self) -> None:
        if self._views.has_forecasts:
            self._sweep_timer.set_after(SWEEP_SECONDS)

    def _sweep(self) -> None:
        """Ask again about all waiting Workloads, in the manager's order."""
        global_queue = self._views.global_queue
        for managed in sorted(
            self.manager.waiting.values(), key=lambda each: global_queue.give_turn(each.rank)
        ):
            if managed.waits and (managed.nominated or self._may_fit(managed)):
                managed.memory.room_changed = True
                self._look(managed.key)

    def _may_fit(self, managed: Managed) -> bool:
        """Whether some worker has enough GPUs free or preemptible: a cheap check before asking."""
        job = managed.progress.job
        return any(
            worker.may_hold(job, managed.workload.priority)
            for worker in self.workers.values()
            if worker.lost_at is None
        )


def weigh_teams(trace: Trace) -> dict[str, float]:
    """Return each team's share of all work, from which its quota follows."""
    weights = dict.fromkeys(trace.teams, 0.0)
    for job in trace.jobs:
        weights[job.team] += job.work
    return weights
