"""One worker in virtual time: its engine, the manager's copies, and the running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from multiqueue.api.conditions import Reason
from multiqueue.dispatch.decide.cluster_state import Finish, RemoteJob, RemoteWorkload
from multiqueue.engine.plan import Admit, Decision, Preempt
from multiqueue.model.cluster_queue import ClusterQueue
from multiqueue.model.workload import Admission, Reservation, Workload
from multiqueue.simulation.agenda import SimulationAgenda
from multiqueue.simulation.cycles import EngineCycles, make_evicted
from multiqueue.simulation.fleet import GPU, Cluster, Preempting, SimulatedFleet
from multiqueue.simulation.knowledge import Knowledge
from multiqueue.simulation.mirror import Mirror
from multiqueue.simulation.progress import Progress
from multiqueue.simulation.queues import make_engine
from multiqueue.simulation.traces.trace import TraceJob

START_SECONDS = 10.0
"""Seconds from the creation of a job until its pods work: scheduling, images, sandboxes."""
STOP_SECONDS = 5.0
"""Seconds that pods take to stop."""


@dataclass(slots=True)
class SimulatedRun:
    """The remote job of the manager on a worker."""

    uid: str
    epoch: str
    begun: float | None = None
    is_over: bool = False
    finish: Finish | None = None

    @property
    def is_active(self) -> bool:
        """Whether the job's pods run."""
        return self.begun is not None and not self.is_over


@dataclass(slots=True)
class Copy:
    """The manager's copy on a worker, and its state there."""

    workload: Workload
    epoch: str
    offered_at: datetime
    progress: Progress
    admission: Admission | None = None
    admitted_at: datetime | None = None
    started_at: datetime | None = None
    evicted_at: datetime | None = None
    evicted_why: str = ""
    deactivating: bool = False
    finish: Finish | None = None

    def as_remote(self) -> RemoteWorkload:
        """Return the copy in the form that the rules of dispatch use."""
        return RemoteWorkload(
            uid=self.workload.uid,
            epoch=self.epoch,
            quota_reserved=self.admission is not None,
            admitted_at=self.admitted_at,
            evicted_at=self.evicted_at,
            evicted_why=self.evicted_why,
            finished=self.finish,
            deactivating=self.deactivating,
            had_job=self.admitted_at is not None,
            offered_at=self.offered_at,
        )


class SimulatedWorker:
    """A worker cluster.

    Attributes:
        lost_at: Since when it is down; None: it is up.

    Args:
        cluster: Its hardware.
        agenda: The virtual clock.
        weights: Weights of the teams.
        fleet: Has the rules of sharing and preemption.
        knowledge: Learns from jobs that end.
        on_news: Gets the key of a Workload that changed.
        on_room: Called when room may have changed.
        has_forecasts: Whether the manager makes forecasts for it.
    """

    def __init__(
        self,
        cluster: Cluster,
        agenda: SimulationAgenda,
        *,
        weights: Mapping[str, float],
        fleet: SimulatedFleet,
        knowledge: Knowledge,
        on_news: Callable[[str], None],
        on_room: Callable[[], None],
        has_forecasts: bool,
    ) -> None:
        self.cluster = cluster
        self.engine, queues = make_engine(cluster.gpus, weights, fleet=fleet)
        self.queues: tuple[ClusterQueue, ...] = queues
        self.copies: dict[str, Copy] = {}
        self.runs: dict[str, SimulatedRun] = {}
        self.version = 0
        self.lost_at: datetime | None = None
        self.mirror = Mirror(cluster, queues, knowledge)
        self._has_forecasts = has_forecasts
        self._knowledge = knowledge
        self._preempting = fleet.preempting
        self._counted_at, self._held = -1, Counter[int]()
        self._agenda = agenda
        self._on_news = on_news
        self._on_room = on_room
        self._cycles = EngineCycles(self.engine, agenda, self._apply)

    # ------------------------------------------------------------ actions of the manager

    def create_copy(self, workload: Workload, epoch: str, progress: Progress) -> None:
        """Create a copy; its position in the queue follows from its own age."""
        now = self._agenda.now
        copied = replace(
            workload,
            uid=f"{workload.uid}-{epoch}",
            created_at=now,
            queue_order_at=now,
            reservation=None,
            evicted=None,
            checks={},
            requeue_at=None,
        )
        self.copies[workload.key] = Copy(
            workload=copied, epoch=epoch, offered_at=now, progress=progress
        )
        self._upsert(copied)
        at = self.engine.next_cycle_at(now)
        if at is not None and at <= now:
            self._cycles.run()  # within milliseconds: before the next copy gets there

    def create_job(self, key: str) -> None:
        """Start the job of an admitted copy."""
        copy = self.copies[key]
        run = self.runs[key] = SimulatedRun(uid=f"job-{copy.workload.uid}", epoch=copy.epoch)
        self._agenda.after(START_SECONDS, lambda: self._begin(key, run))

    def deactivate(self, key: str) -> None:
        """Stop the copy's job for good."""
        copy = self.copies[key]
        copy.deactivating = True
        if copy.evicted_at is None:
            self._evict(copy, "it was deactivated", Reason.ADMISSION_CHECK)
        else:
            self._upsert(replace(copy.workload, active=False))

    def remove(self, key: str) -> None:
        """Delete the job and the copy, and free what they hold."""
        run, copy = self.runs.pop(key, None), self.copies.pop(key, None)
        if run is not None and not run.is_over:
            self._stop(key, run, copy)
        if copy is not None:
            self.engine.delete_workload(key, self._agenda.now)
            self.mirror.delete(key, self._agenda.now)
            self._changed()

    def may_hold(self, job: TraceJob, priority: int) -> bool:
        """Whether enough GPUs are free, or held by jobs that this priority may stop."""
        if self._counted_at != self.version:
            self._counted_at, self._held = self.version, self._count_held()
        stays = sum(n for other, n in self._held.items() if not self._may_stop(priority, other))
        needed = min(job.gpus_on(flavor) for flavor in self.cluster.gpus)
        return needed <= self.cluster.total - stays

    def _may_stop(self, priority: int, other: int) -> bool:
        if self._preempting is Preempting.LESS_URGENT:
            return other < priority
        return self._preempting is Preempting.BORROWERS

    def _count_held(self) -> Counter[int]:
        """Return how many GPUs are held, by priority."""
        held: Counter[int] = Counter()
        for copy in self.copies.values():
            if copy.admission is not None and copy.finish is None:
                held[copy.workload.priority] += sum(copy.admission.usage().values())
        return held

    def find_job(self, key: str) -> RemoteJob | None:
        """Return the remote job in the form that the rules of dispatch use; None if absent."""
        run = self.runs.get(key)
        if run is None:
            return None
        return RemoteJob(uid=run.uid, epoch=run.epoch, finished=run.finish)

    # ------------------------------------------------------------ outages

    def fail(self) -> None:
        """Go down: all jobs stop, and nobody reaches the queues."""
        self.lost_at = self._agenda.now
        for key, run in self.runs.items():
            if not run.is_over:
                self._stop(key, run, self.copies.get(key))

    def recover(self) -> None:
        """Come back: jobs that are admitted start again, unless the manager removes them first."""
        self.lost_at = None
        for key, copy in self.copies.items():
            if key in self.runs and copy.admission is not None and copy.finish is None:
                self.create_job(key)
        self._changed()

    # ------------------------------------------------------------ jobs

    def _begin(self, key: str, run: SimulatedRun) -> None:
        copy = self.copies.get(key)
        if run.is_over or copy is None or copy.admission is None:
            return
        run.begun = self._agenda.seconds
        flavor = copy.admission.pod_sets[0].flavors[GPU]
        left = copy.progress.begin(self.cluster.name, flavor, self._agenda.seconds)
        self._agenda.after(left, lambda: self._finish(key, run))
        self._on_news(key)

    def _finish(self, key: str, run: SimulatedRun) -> None:
        copy = self.copies.get(key)
        if run.is_over or copy is None:
            return
        run.is_over = True
        copy.progress.finish(self._agenda.seconds)
        assert copy.started_at is not None
        flavor = copy.progress.stays[-1].flavor
        self._knowledge.learn(copy.progress.job, flavor, self._agenda.now - copy.started_at)
        end = Finish(success=True, reason=Reason.SUCCEEDED, at=self._agenda.now)
        run.finish = copy.finish = end
        self._upsert(replace(copy.workload, finished=True))
        self._on_news(key)

    def _stop(self, key: str, run: SimulatedRun, copy: Copy | None) -> None:
        run.is_over = True
        if copy is not None and run.begun is not None:
            copy.progress.stop(self._agenda.seconds)
        self._on_news(key)

    # ------------------------------------------------------------ queues

    def _upsert(self, workload: Workload) -> None:
        copy = self.copies[workload.key]
        copy.workload = workload
        self.engine.upsert_workload(workload, self._agenda.now)
        if self._has_forecasts:
            self.mirror.upsert(workload, copy.progress.job, self._agenda.now)
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._on_room()
        self._cycles.rearm()

    def _apply(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Admit):
                self._admit(decision)
            elif isinstance(decision, Preempt):
                for victim in decision.victims:
                    if victim.is_new and victim.workload in self.copies:
                        words = f"{victim.reason}: {victim.message}"
                        self._evict(self.copies[victim.workload], words, victim.reason)
        if decisions:
            self._changed()

    def _admit(self, decision: Admit) -> None:
        copy = self.copies[decision.workload]
        # The API stores whole seconds, so the rules cannot compare anything finer.
        now = self._agenda.now.replace(microsecond=0)
        copy.admission, copy.admitted_at = decision.admission, now
        copy.started_at = self._agenda.now
        copy.evicted_at, copy.evicted_why = None, ""
        reservation = Reservation(admission=decision.admission, reserved_at=now, admitted=True)
        self._upsert(replace(copy.workload, reservation=reservation, evicted=None))
        if decision.workload in self.runs:
            # The job was stopped here and not removed yet: the worker starts it again.
            self.create_job(decision.workload)
        self._on_news(decision.workload)

    def _evict(self, copy: Copy, why: str, reason: str) -> None:
        """Evict a copy; it frees its quota when its pods have ended."""
        key, now = copy.workload.key, self._agenda.now
        copy.evicted_at, copy.evicted_why = now, why
        evicted = make_evicted(reason, now)
        self._upsert(replace(copy.workload, evicted=evicted))
        run = self.runs.get(key)
        active = run is not None and not run.is_over
        self._agenda.after(STOP_SECONDS if active else 0.0, lambda: self._release(copy))

    def _release(self, copy: Copy) -> None:
        key = copy.workload.key
        if self.copies.get(key) is not copy or copy.finish is not None:
            return
        run = self.runs.get(key)
        if run is not None and not run.is_over:
            self._stop(key, run, copy)
        copy.admission = copy.admitted_at = None
        active = not copy.deactivating
        self._upsert(replace(copy.workload, reservation=None, active=active))
        self._on_news(key)
