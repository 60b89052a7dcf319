"""Reconcile Workloads as the manager does: the real view, the real rules, and their plans.

A reconcile reads current state. Watch delay is modelled by when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from traceback import extract_tb

from multiqueue.dispatch.decide import plan as steps
from multiqueue.dispatch.decide.cluster_state import ClusterState, GroupConfig
from multiqueue.dispatch.decide.decide import decide
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload
from multiqueue.dispatch.observe.memory import is_ask_due
from multiqueue.dispatcher_host.answer import take
from multiqueue.model.workload import Admission
from multiqueue.plugins import Dispatcher, Nomination
from multiqueue.simulation.agenda import SimulationAgenda
from multiqueue.simulation.dispatch_views import Views
from multiqueue.simulation.estimates import StartEstimates
from multiqueue.simulation.manager import Managed, SimulatedManager
from multiqueue.simulation.worker import SimulatedWorker

MAX_PASSES = 8
"""Most passes for one Workload without a pause, as on real clusters."""
PAUSE = 1.0
CONFIG = GroupConfig()


class DispatcherError(RuntimeError):
    """A dispatcher raised; the text has its name, the job, the place, and the error."""


class SimulatedReconciler:
    """Decides and acts for one Workload at a time.

    Args:
        agenda: The virtual clock.
        manager: The manager.
        workers: The workers by name, in the order of the MultiKueueConfig.
        dispatcher: The dispatcher that is asked.
        views: Builds the dispatcher's views.
    """

    def __init__(
        self,
        agenda: SimulationAgenda,
        manager: SimulatedManager,
        workers: Mapping[str, SimulatedWorker],
        *,
        dispatcher: Dispatcher,
        views: Views,
    ) -> None:
        self._agenda = agenda
        self._manager = manager
        self._workers = workers
        self._dispatcher = dispatcher
        self._views = views
        self._estimates = StartEstimates()
        self._fleet = (0, tuple(workers))

    def update_fleet(self) -> None:
        """Learn which workers can be reached; all waiting Workloads are to be asked about again."""
        reached = tuple(name for name, each in self._workers.items() if each.lost_at is None)
        self._fleet = (self._fleet[0] + 1, reached)

    def look(self, key: str) -> float | None:
        """Reconcile until nothing is left to do; return the seconds until the next reconcile."""
        managed = self._manager.managed[key]
        for _ in range(MAX_PASSES):
            view = self._observe(managed)
            now = self._agenda.now
            plan = decide(view, CONFIG, now)
            if plan.ask:
                nomination = self._ask(managed, view.clusters)
                view = replace(
                    view,
                    nomination=nomination,
                    ask_due=False,
                    ask_again_at=managed.memory.ask_again_at,
                )
                plan = decide(view, CONFIG, now)
            if not self._apply(plan, managed):
                return plan.wait.total_seconds() if plan.wait is not None else None
        return PAUSE

    def _observe(self, managed: Managed) -> GroupView:
        local, memory = managed.as_local(), managed.memory
        memory.note(local, self._workers.__contains__)
        states = [self._state(name, managed, local) for name in sorted(self._workers)]
        for state in states:
            memory.see(state)
        return GroupView(
            key=managed.key,
            local=local,
            clusters=tuple(states),
            last_cluster=memory.last_cluster,
            ask_again_at=memory.ask_again_at,
            ask_due=is_ask_due(memory, local, states, self._fleet, self._agenda.now),
        )

    def _state(self, name: str, managed: Managed, local: LocalWorkload) -> ClusterState:
        worker, key = self._workers[name], managed.key
        if worker.lost_at is not None:
            return ClusterState(name=name, reachable=False, lost_at=worker.lost_at)
        copy = worker.copies.get(key)
        now = self._agenda.now
        stopping = managed.memory.stopping_for(name, local, now.timestamp())
        return ClusterState(
            name=name,
            workload=copy.as_remote() if copy is not None else None,
            job=worker.find_job(key),
            stopping_since=now - stopping if stopping is not None else None,
            jobs=len(worker.runs),
        )

    def _ask(self, managed: Managed, states: Sequence[ClusterState]) -> Nomination:
        view = self._views.build(managed, {state.name: state for state in states})
        try:
            reading = take(self._dispatcher.nominate(view))
        except (Exception, SystemExit) as error:
            last = extract_tb(error.__traceback__)[-1]
            raise DispatcherError(
                f'dispatcher "{view.dispatcher}" failed about {view.workload.key} at '
                f"{view.now:%H:%M:%S}, in {last.filename}, line {last.lineno}: "
                f"{type(error).__name__}: {error}"
            ) from error
        nomination = reading.nomination
        if nomination is None:
            raise DispatcherError(
                f'dispatcher "{view.dispatcher}" gave a malformed answer about '
                f"{view.workload.key}: {reading.malformed}"
            )
        self._views.accept(view, nomination)
        self._estimates.note(managed, view, nomination)
        memory = managed.memory
        memory.asked_at = view.now
        memory.ask_again_at = nomination.ask_again_at
        memory.fleet = self._fleet
        memory.room_changed = False
        memory.add_round(view.now, nomination.clusters)
        return nomination

    # ------------------------------------------------------------ acting

    def _apply(self, plan: steps.GroupPlan, managed: Managed) -> bool:
        """Carry out a plan; return whether anything changed to which the rules may react."""
        changed = False
        for removal in plan.removals:
            changed |= self._remove(removal, managed)
        for step in plan.steps:
            changed |= self._apply_step(step, managed)
        return changed

    def _apply_step(self, step: steps.Step, managed: Managed) -> bool:
        writes = managed.writes
        match step:
            case steps.Removal():
                return self._remove(step, managed)
            case steps.CreateWorkload(cluster=cluster):
                worker = self._workers[cluster]
                worker.create_copy(managed.workload, managed.epoch, managed.progress)
                writes.remote += 1
                writes.copies += 1
                return True
            case steps.SyncJob(cluster=cluster):
                return self._sync_job(cluster, managed)
            case steps.MirrorStatus(cluster=cluster):
                return self._mirror(cluster, managed)
            case steps.DeactivateCopy(cluster=cluster):
                self._workers[cluster].deactivate(managed.key)
                writes.remote += 1
                return True
            case steps.FinishJob():
                writes.local += 1
                return True
            case steps.FinishLocal():
                self._manager.finish(managed)
                return True
            case steps.StopLocalJob():
                writes.local += 1
                managed.job_is_active = False
                return True
            case steps.EndEviction():
                self._manager.end_eviction(managed)
                return True
        return self._write(step, managed)

    def _write(self, step: steps.Step, managed: Managed) -> bool:
        memory, now = managed.memory, self._agenda.now
        match step:
            case steps.Nominate():
                managed.nominated = step.clusters
            case steps.SetCheck():
                managed.writes.local += 1
                self._manager.set_check(
                    managed,
                    step.state,
                    step.message,
                    cluster=step.cluster,
                    requeue_after=step.requeue_after,
                    ran=self._find_admission(step.cluster, managed.key),
                )
                return True
            case steps.Explain():
                if not memory.may_explain(managed.check.message, step.message, now):
                    return False
            case _:
                # Confirmations read past the cache; here nothing is cached.
                return False
        managed.writes.local += 1
        managed.check = replace(managed.check, message=step.message)
        memory.explained_at = now
        return isinstance(step, steps.Nominate)

    def _find_admission(self, cluster: str | None, key: str) -> Admission | None:
        copy = self._workers[cluster].copies.get(key) if cluster is not None else None
        return copy.admission if copy is not None else None

    def _remove(self, step: steps.Removal, managed: Managed) -> bool:
        worker = self._workers[step.cluster]
        held = (worker.runs.get(managed.key), worker.copies.get(managed.key))
        managed.writes.remote += sum(part is not None for part in held)
        worker.remove(managed.key)
        return any(part is not None for part in held)

    def _sync_job(self, cluster: str, managed: Managed) -> bool:
        worker = self._workers[cluster]
        if managed.key not in worker.runs:
            worker.create_job(managed.key)
            self._estimates.compare(managed, cluster, worker.copies[managed.key].started_at)
            managed.writes.remote += 1
            return True
        return self._mirror(cluster, managed)

    def _mirror(self, cluster: str, managed: Managed) -> bool:
        """Copy the remote job's status to the manager's job; return whether it changed."""
        run = self._workers[cluster].runs.get(managed.key)
        active = run is not None and run.is_active
        if active == managed.job_is_active:
            return False
        managed.writes.local += 1
        managed.job_is_active = active
        return True
