"""The manager in virtual time: its engine, and the status of each Workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.dispatch.decide.view import Check, LocalJob, LocalWorkload
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.wake.waiting import Rank
from multiqueue.engine.plan import Admit, Decision, Preempt
from multiqueue.model.workload import Admission, Reservation, Workload
from multiqueue.simulation.agenda import SimulationAgenda
from multiqueue.simulation.cycles import EngineCycles, make_evicted
from multiqueue.simulation.fleet import SimulatedFleet
from multiqueue.simulation.progress import Guess, Progress
from multiqueue.simulation.queues import CHECK, POOL, make_engine, make_workload
from multiqueue.simulation.traces.trace import TraceJob
from multiqueue.simulation.writes import Writes

PENDING = Check(name=CHECK)


@dataclass(slots=True)
class Managed:
    """A Workload on the manager with its job, and what is remembered and counted for them."""

    workload: Workload
    progress: Progress
    submitted_at: datetime
    memory: GroupMemory = field(default_factory=GroupMemory)
    writes: Writes = field(default_factory=Writes)
    guesses: list[Guess] = field(default_factory=list)
    reservations: int = 0
    admission: Admission | None = None
    evicted_at: datetime | None = None
    was_evicted: bool = False
    cluster_name: str | None = None
    nominated: tuple[str, ...] = ()
    check: Check = PENDING
    job_is_active: bool = False
    is_finished: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.workload.key

    @property
    def epoch(self) -> str:
        """The dispatch epoch: the number of the reservation; empty without one."""
        return str(self.reservations) if self.admission is not None else ""

    @property
    def waits(self) -> bool:
        """Whether it has quota and no cluster yet."""
        return self.admission is not None and self.cluster_name is None and not self.is_finished

    @property
    def rank(self) -> Rank:
        """Its rank among the Workloads that wait for room."""
        return Rank(
            urgency=-self.workload.priority,
            turn=format_time(self.submitted_at),
            key=self.key,
            queue=self.workload.queue,
        )

    def as_local(self) -> LocalWorkload:
        """Return the Workload in the form that the rules of dispatch use."""
        return LocalWorkload(
            uid=self.workload.uid,
            finished=self.is_finished,
            has_quota=self.admission is not None,
            epoch=self.epoch,
            evicted_at=self.evicted_at,
            was_evicted=self.was_evicted,
            cluster_name=self.cluster_name,
            nominated=self.nominated,
            check=self.check,
            job=LocalJob(active=self.job_is_active, finished=self.is_finished),
        )


class SimulatedManager:
    """The queues of the manager.

    Attributes:
        managed: All Workloads, by key.
        waiting: Workloads with quota and without a cluster.

    Args:
        fleet: The hardware of the workers.
        agenda: The virtual clock.
        weights: Weights of the teams.
        on_news: Gets the key of a Workload that changed.
    """

    def __init__(
        self,
        fleet: SimulatedFleet,
        agenda: SimulationAgenda,
        *,
        weights: Mapping[str, float],
        on_news: Callable[[str], None],
    ) -> None:
        quota = {POOL: fleet.total * fleet.quota_percent // 100}
        self.engine, self.queues = make_engine(quota, weights, is_manager=True, fleet=fleet)
        self.managed: dict[str, Managed] = {}
        self.waiting: dict[str, Managed] = {}
        self._agenda = agenda
        self._on_news = on_news
        self._cycles = EngineCycles(self.engine, agenda, self._apply)

    def submit(self, job: TraceJob) -> None:
        """Submit a job."""
        now = self._agenda.now
        workload = make_workload(job, now)
        managed = Managed(workload=workload, progress=Progress(job=job), submitted_at=now)
        managed.memory.uid = workload.uid
        managed.writes.local += 1
        self.managed[workload.key] = managed
        self._upsert(managed, workload)

    # ------------------------------------------------------------ actions of the rules

    def set_check(
        self,
        managed: Managed,
        state: CheckState,
        message: str,
        *,
        cluster: str | None,
        requeue_after: timedelta | None,
        ran: Admission | None = None,
    ) -> None:
        """Write the state of the check, and carry out the immediate consequences.

        With Ready, quota is held for the pods that the worker admitted.

        Raises:
            RuntimeError: The Workload would be rejected, which no job of a trace may be.
        """
        managed.check = replace(managed.check, state=state, message=message)
        if state is CheckState.READY:
            managed.cluster_name, managed.nominated = cluster, ()
            reservation = managed.workload.reservation
            assert reservation is not None
            self._upsert(
                managed,
                replace(
                    managed.workload,
                    reservation=replace(
                        reservation,
                        admission=_shrink(reservation.admission, ran),
                        admitted=True,
                    ),
                    checks={CHECK: state},
                ),
            )
        elif state is CheckState.RETRY:
            count = managed.check.retry_count + 1
            managed.check = replace(managed.check, retry_count=count)
            again = self._agenda.now + requeue_after if requeue_after else None
            managed.workload = replace(managed.workload, requeue_at=again)
            self.evict(managed, Reason.ADMISSION_CHECK)
        else:
            raise RuntimeError(f'job "{managed.progress.job.name}" is rejected: {message}')

    def evict(self, managed: Managed, reason: str) -> None:
        """Evict a Workload; its quota is freed once nothing of it runs."""
        now = self._agenda.now
        if managed.evicted_at is not None or managed.admission is None:
            return
        managed.evicted_at, managed.was_evicted = now, True
        managed.writes.local += 1
        managed.cluster_name, managed.nominated = None, ()
        managed.check = replace(managed.check, state=CheckState.PENDING)
        evicted = make_evicted(reason, now)
        order_at = now if reason == Reason.ADMISSION_CHECK else managed.submitted_at
        self._upsert(managed, replace(managed.workload, evicted=evicted, queue_order_at=order_at))

    def end_eviction(self, managed: Managed) -> None:
        """Free the quota of an evicted Workload, and queue it again."""
        managed.admission = managed.evicted_at = None
        managed.writes.local += 1
        workload = managed.workload
        self._upsert(managed, replace(workload, reservation=None, checks={}))
        if workload.requeue_at is not None:
            self._agenda.at(workload.requeue_at, self._cycles.rearm)

    def finish(self, managed: Managed) -> None:
        """Mark a Workload as finished."""
        managed.is_finished = True
        managed.job_is_active = False
        managed.writes.local += 1
        self._upsert(managed, replace(managed.workload, finished=True))

    # ------------------------------------------------------------ queues

    def _upsert(self, managed: Managed, workload: Workload) -> None:
        managed.workload = workload
        if managed.waits:
            self.waiting[workload.key] = managed
        else:
            self.waiting.pop(workload.key, None)
        self.engine.upsert_workload(workload, self._agenda.now)
        self._on_news(workload.key)
        self._cycles.rearm()

    def _apply(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Admit):
                self._admit(decision)
            elif isinstance(decision, Preempt):
                for victim in decision.victims:
                    if victim.is_new:
                        self.evict(self.managed[victim.workload], victim.reason)

    def _admit(self, decision: Admit) -> None:
        managed, now = self.managed[decision.workload], self._agenda.now
        managed.reservations += 1
        managed.admission, managed.evicted_at = decision.admission, None
        managed.check = replace(managed.check, state=CheckState.PENDING, message="")
        managed.writes.local += 1
        reservation = Reservation(admission=decision.admission, reserved_at=now)
        self._upsert(
            managed,
            replace(
                managed.workload,
                reservation=reservation,
                evicted=None,
                requeue_at=None,
                checks={CHECK: CheckState.PENDING},
            ),
        )


def _shrink(held: Admission, ran: Admission | None) -> Admission:
    """Return the admission reduced to the number of pods that run."""
    if ran is None or ran.pod_sets[0].count >= held.pod_sets[0].count:
        return held
    (pod_set,), count = held.pod_sets, ran.pod_sets[0].count
    usage = {name: amount // pod_set.count * count for name, amount in pod_set.usage.items()}
    return replace(held, pod_sets=(replace(pod_set, usage=usage, count=count),))
