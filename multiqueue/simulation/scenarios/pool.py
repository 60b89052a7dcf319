"""One cluster in virtual time: the engine decides, and jobs start, work, are stopped and end.

A job that is stopped loses what it did since its last checkpoint, and needs time to begin again.
If it gets notice, it saves the work that it had done by then. Times are seconds since the
beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from multiqueue.api.notices import Notice
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import (
    Admit,
    Decision,
    EndNotice,
    Preempt,
    PreemptedWorkload,
    Requeue,
    RescindNotice,
)
from multiqueue.forecast.history import RuntimeHistory
from multiqueue.forecast.traits import FinishedRun, Traits
from multiqueue.model.cluster_queue import LocalQueue
from multiqueue.model.disruption_policy import SaveHabits
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, Reservation, Workload
from multiqueue.simulation.agenda import SimulationAgenda
from multiqueue.simulation.cycles import EngineCycles, make_evicted
from multiqueue.simulation.fleet import GPU
from multiqueue.simulation.scenarios.hundred_gpus import (
    BATCH_PRIORITY,
    FLAVOR,
    INTERACTIVE_PRIORITY,
    NOTICE_SECONDS,
    RESTART_SECONDS,
    SAVE_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    Layout,
    PoolJob,
)
from multiqueue.simulation.scenarios.job_run import JobRun

LOCAL_QUEUE = "jobs"
Declare = Callable[[PoolJob, Workload], Workload]
HABITS = SaveHabits(interval=SAVE_SECONDS, restart=RESTART_SECONDS)
NOTICE_HABITS = HABITS._replace(on_notice=True, notice_seconds=NOTICE_SECONDS)


@dataclass(slots=True, kw_only=True)
class PoolRun(JobRun):
    """A job, and how the engine sees it.

    Attributes:
        done: The seconds of its work that were saved when it was stopped last.
        saved: Those that it has saved because of a notice.
        notices: How many seconds each notice lasted after which it was stopped.
    """

    workload: Workload
    done: float = 0.0
    saved: float = 0.0
    notices: list[int] = field(default_factory=list)
    admitted: float = 0.0
    is_leaving: bool = False


class GpuPool:
    """The cluster.

    Args:
        layout: The queues.
        declare: Changes what a job declares about itself, true or not.
    """

    def __init__(self, layout: Layout, *, declare: Declare = lambda _, workload: workload) -> None:
        self._layout = layout
        self._declare = declare
        self._agenda = SimulationAgenda()
        self._engine = Engine(EngineOptions(topology=None))
        self._engine.upsert_resource_flavor(ResourceFlavor(name=FLAVOR))
        if layout.policy is not None:
            self._engine.upsert_disruption_policy(layout.policy)
        for queue in layout.queues:
            self._engine.upsert_cluster_queue(queue)
        for team, name in layout.queue_of.items():
            self._engine.upsert_namespace(team, {})
            local = LocalQueue(key=f"{team}/{LOCAL_QUEUE}", cluster_queue=name)
            self._engine.upsert_local_queue(local)
        self._history = RuntimeHistory()
        if layout.learns:
            self._engine.ask_run_times(self._find_run)
        self._runs: dict[str, PoolRun] = {}
        self._cycles = EngineCycles(self._engine, self._agenda, self._apply)

    def play(self, jobs: tuple[PoolJob, ...]) -> list[PoolRun]:
        """Play all jobs to their ends; return them in the order of submission."""
        for job in jobs:
            self._agenda.after(job.submitted, partial(self._submit, job))
        self._agenda.run()
        return list(self._runs.values())

    def _submit(self, job: PoolJob) -> None:
        urgent, usual = (INTERACTIVE_PRIORITY, BATCH_PRIORITY)
        priority = urgent if job.is_interactive else usual
        habits = NOTICE_HABITS if job.saves_on_notice else HABITS
        workload = Workload(
            key=f"{job.team}/{job.name}",
            uid=job.name,
            job_uid=job.name,
            queue=f"{job.team}/{LOCAL_QUEUE}",
            priority=priority if self._layout.has_priorities else 0,
            created_at=self._agenda.now,
            queue_order_at=self._agenda.now,
            pod_sets=(PodSet(count=job.gpus, requests={GPU: 1}),),
            saves=habits if job.saves else None,
            expected_run=round(job.seconds) if self._layout.tells_run_times else 0,
        )
        workload = self._declare(job, workload)
        self._runs[workload.key] = PoolRun(job=job, workload=workload)
        self._put(self._runs[workload.key], workload)

    def _find_run(self, workload: Workload) -> int:
        traits = _traits_of(self._runs[workload.key])
        return round(self._history.runtime(traits).mean.total_seconds())

    def _put(self, run: PoolRun, workload: Workload) -> None:
        run.workload = workload
        self._engine.upsert_workload(workload, self._agenda.now)
        self._cycles.rearm()

    def _apply(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Admit):
                self._admit(decision)
            elif isinstance(decision, Preempt):
                self._preempt(decision)
            elif isinstance(decision, EndNotice):
                self._runs[decision.workload].notices.append(decision.seconds)
                self._stop(decision)
            elif isinstance(decision, RescindNotice):
                run = self._runs[decision.workload]
                self._put(run, replace(run.workload, notice=None))
            elif isinstance(decision, Requeue):
                held_back = decision.explanation.held_back if decision.explanation else None
                if held_back is not None and held_back.promised is not None:
                    self._runs[decision.workload].was_promised = True

    def _admit(self, decision: Admit) -> None:
        run, now = self._runs[decision.workload], self._agenda.now
        run.admitted, run.is_leaving = self._agenda.seconds, False
        held = Reservation(
            admission=decision.admission, reserved_at=now, admitted=True, admitted_at=now
        )
        self._put(run, replace(run.workload, reservation=held, evicted=None))
        left = run.job.seconds - run.done + START_SECONDS + self._restart(run)
        self._agenda.after(left, partial(self._end, run, len(run.stays)))

    def _restart(self, run: PoolRun) -> float:
        return RESTART_SECONDS if run.stops and run.job.saves else 0.0

    def _end(self, run: PoolRun, stay: int) -> None:
        if stay != len(run.stays) or run.is_leaving:
            return  # it was stopped before
        run.lost += self._restart(run)
        run.finished = self._agenda.seconds
        run.stays.append((run.admitted, run.finished))
        took = timedelta(seconds=run.finished - run.admitted)
        self._history.learn(
            FinishedRun(uid=run.job.name, traits=_traits_of(run), flavor=FLAVOR, took=took)
        )
        self._engine.delete_workload(run.workload.key, self._agenda.now)
        self._cycles.rearm()

    def _preempt(self, decision: Preempt) -> None:
        for victim in decision.victims:
            if victim.is_new and victim.notice:
                self._tell(victim, self._runs[decision.workload].workload.uid)
            elif victim.is_new:
                self._stop(victim)

    def _tell(self, victim: PreemptedWorkload, preemptor: str) -> None:
        run, now = self._runs[victim.workload], self._agenda.now
        notice = Notice(int(now.timestamp()), victim.notice, victim.reason, "", preemptor)
        self._put(run, replace(run.workload, notice=notice))
        habits = run.workload.saves
        if habits is not None and habits.notice_seconds is not None:
            saving = partial(self._save, run, notice, self._reached(run))
            self._agenda.after(habits.notice_seconds, saving)

    def _save(self, run: PoolRun, notice: Notice, reached: float) -> None:
        if run.workload.notice == notice and not run.is_leaving:
            run.saved = reached
            if self._engine.set_last_checkpoint(run.workload.job_uid, self._agenda.now):
                self._cycles.run()

    def _reached(self, run: PoolRun) -> float:
        """Return how many seconds of its work a job has done."""
        return run.done + max(0.0, self._worked(run))

    def _worked(self, run: PoolRun) -> float:
        return self._agenda.seconds - run.admitted - START_SECONDS - self._restart(run)

    def _stop(self, victim: PreemptedWorkload | EndNotice) -> None:
        run, now = self._runs[victim.workload], self._agenda.now
        worked, reached = self._worked(run), self._reached(run)
        saved = max(run.done, reached // SAVE_SECONDS * SAVE_SECONDS) if run.job.saves else 0.0
        saved = max(saved, run.saved)
        run.lost += reached - saved + min(self._restart(run), max(0.0, worked + RESTART_SECONDS))
        run.done, run.is_leaving, run.stops = saved, True, run.stops + 1
        evicted = make_evicted(victim.reason, now)
        stops = run.workload.stops
        if victim.stop is not None:
            stops = (*stops, victim.stop)
        self._put(run, replace(run.workload, evicted=evicted, stops=stops, notice=None))
        self._agenda.at(now + timedelta(seconds=STOP_SECONDS), partial(self._free, run))

    def _free(self, run: PoolRun) -> None:
        run.stays.append((run.admitted, self._agenda.seconds))
        ran = sum(end - begin for begin, end in run.stays)
        self._put(run, replace(run.workload, reservation=None, ran_before=int(ran)))


def _traits_of(run: PoolRun) -> Traits:
    """Return what is known of a job if its name tells who submitted it, and the kind of work."""
    job, says = run.job, run.workload.expected_run
    kind = "interactive" if job.is_interactive else "batch"
    return Traits(
        job_class=f"{job.team}/{job.person}/{kind}/{job.gpus}",
        declared=timedelta(seconds=says) if says else None,
    )
