"""A fleet in a few values: one Workload, its manager, and workers that fail in every way.

The rules and the memory are the real ones; API servers, workers and the core controllers are
played. What the manager sees of a worker is a snapshot that lags behind until `deliver`; its own
writes show at once, as `Informer.observe` does. A plan can be cut between any two writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide import plan as steps
from multiqueue.dispatch.decide.cluster_state import (
    ClusterState,
    Finish,
    GroupConfig,
    RemoteJob,
    RemoteWorkload,
)
from multiqueue.dispatch.decide.decide import decide
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.decide.view import Check, GroupView, LocalJob, LocalWorkload
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.plugins import Nomination

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LOST_TIMEOUT = timedelta(minutes=15)
FIRST_CHANCE = timedelta(minutes=1)
CONFIG = GroupConfig(worker_lost_timeout=LOST_TIMEOUT)
FOREIGN = "a Job of that name belongs to somebody else"


Write = steps.Step | tuple[str, str]
"""A step, or the removal of a part from a cluster."""


class PromiseBrokenError(AssertionError):
    """What must never happen did."""


@dataclass
class Worker:
    """One worker: what is really there, and what the manager last saw."""

    name: str
    up: bool = True
    configured: bool = True
    lost_at: datetime | None = None
    seen_since_start: bool = True
    workload: RemoteWorkload | None = None
    job: RemoteJob | None = None
    job_runs: bool = False
    foreign_job: bool = False
    seen_workload: RemoteWorkload | None = None
    seen_job: RemoteJob | None = None

    def deliver(self) -> None:
        self.seen_workload, self.seen_job = self.workload, self.job


@dataclass
class Fleet:
    """The world."""

    workers: dict[str, Worker]
    now: datetime = T0
    local: LocalWorkload | None = None
    job_ended: bool = False
    memory: GroupMemory = field(default_factory=GroupMemory)
    race: bool = True
    reservations: int = 0
    started_jobs: int = 0
    crashed: bool = False

    # ------------------------------------------------------------ manager

    def view(self) -> GroupView:
        seen = {w.name for w in self.workers.values() if w.seen_since_start}
        self.memory.note(self.local, lambda name: self.workers[name].up)
        clusters = tuple(self._state(self.workers[name], seen) for name in sorted(self.workers))
        return GroupView(
            key="ns/job",
            local=self.local,
            clusters=clusters,
            last_cluster=self.memory.last_cluster,
            ask_due=True,
        )

    def _state(self, worker: Worker, seen: set[str]) -> ClusterState:
        if not worker.up:
            hidden = self.local is not None and self.memory.may_run_unseen(
                worker.name, self.local, seen
            )
            return ClusterState(
                name=worker.name,
                configured=worker.configured,
                reachable=False,
                lost_at=worker.lost_at,
                may_run_unseen=hidden,
            )
        stopping = self.memory.stopping_for(worker.name, self.local, self.now.timestamp())
        state = ClusterState(
            name=worker.name,
            configured=worker.configured,
            workload=worker.seen_workload,
            job=worker.seen_job,
            refusal=self.memory.refusal(worker.name, self.now),
            stopping_since=self.now - stopping if stopping is not None else None,
        )
        self.memory.see(state)
        return state

    def _needs_no_others(self, view: GroupView, plan: GroupPlan) -> None:
        """What runs is decided about without a look at clusters that have nothing of it."""
        local = view.local
        if local is None or not local.is_settled:
            return
        named = {*self.memory.suspects, *local.nominated, local.cluster_name, view.last_cluster}
        few = tuple(c for c in view.clusters if c.name in named or not c.is_empty)
        assert decide(replace(view, clusters=few), CONFIG, self.now) == plan

    def step(self, *, writes: int | None = None) -> bool:
        """Decide once and apply; ``writes`` cuts the plan after so many. Whether all was done."""
        view = self.view()
        plan = decide(view, CONFIG, self.now)
        if plan.ask:
            view = replace(view, nomination=self._nominate(view))
            plan = decide(view, CONFIG, self.now)
        self._needs_no_others(view, plan)
        for number, write in enumerate(_list_writes(plan)):
            if number == writes:
                return False
            if not self._apply(write):
                return True
        return True

    def _nominate(self, view: GroupView) -> Nomination:
        usable = [c.name for c in view.clusters if c.reachable and c.configured and not c.refusal]
        present = [name for name in usable if self.local and name in self.local.nominated]
        return Nomination(clusters=tuple(usable) if self.race else tuple((present or usable)[:1]))

    def _remove(self, worker: Worker, part: str) -> None:
        if not worker.up:
            return
        if part == "job" and worker.job is not None and worker.seen_job is not None:
            if worker.job.uid == worker.seen_job.uid:
                # In the foreground: it is gone when its pods are, see `work`.
                worker.job = replace(worker.job, deleting=True)
        elif (
            part == "workload"
            and worker.workload is not None
            and worker.seen_workload is not None
            and worker.workload.uid == worker.seen_workload.uid
        ):
            worker.workload = None

    def _apply(self, step: Write) -> bool:  # noqa: C901, PLR0912 - a table of steps
        match step:
            case (name, part):
                self._remove(self.workers[name], part)
            case steps.CreateWorkload(cluster=name):
                return self._create_workload(self.workers[name])
            case steps.SyncJob(cluster=name):
                return self._sync_job(self.workers[name])
            case steps.MirrorStatus(cluster=name):
                return self._mirror(self.workers[name])
            case steps.FinishJob():
                self.local = replace(self.local, job=LocalJob(finished=True))
            case steps.DeactivateCopy(cluster=name):
                return self._deactivate(self.workers[name])
            case steps.ConfirmCopyGone(cluster=name):
                return self._confirm(self.workers[name], "workload")
            case steps.ConfirmJobGone(cluster=name):
                return self._confirm(self.workers[name], "job")
            case steps.Nominate(clusters=names):
                self.local = replace(self.local, nominated=names)
            case steps.SetCheck():
                self._set_check(step)
            case steps.FinishLocal():
                self._finish()
            case steps.StopLocalJob():
                self._assert_nothing_runs()
                self.local = replace(self.local, job=replace(self.local.job, active=False))
            case steps.EndEviction():
                self._end_eviction()
            case steps.UpdatePriority() | steps.Explain():
                pass
        return True

    def _create_workload(self, worker: Worker) -> bool:
        if not worker.up:
            return False
        if self.local.finished:
            raise PromiseBrokenError("I-5: a finished workload was dispatched again")
        if worker.foreign_job:
            self.memory.refuse(worker.name, FOREIGN, self.now + LOST_TIMEOUT)
            return False
        if worker.workload is None:
            worker.workload = RemoteWorkload(
                uid=f"w{self.now.timestamp()}", epoch=self.local.epoch, digest=self.local.digest
            )
            worker.seen_workload = worker.workload
        return True

    def _sync_job(self, worker: Worker) -> bool:
        self.memory.suspects.add(worker.name)
        if not worker.up:
            return False
        if worker.job is not None:
            return self._mirror(worker)
        if worker.foreign_job:
            self.memory.refuse(worker.name, FOREIGN, self.now + LOST_TIMEOUT)
            return False
        self._assert_nobody_else_runs(worker)
        self.started_jobs += 1
        worker.job = RemoteJob(uid=f"j{self.started_jobs}", epoch=self.local.epoch)
        worker.seen_job = worker.job
        return True

    def _assert_nobody_else_runs(self, worker: Worker) -> None:
        if self.local.finished or self.local.job.finished:
            raise PromiseBrokenError("I-5: a finished job is started again")
        for other in self.workers.values():
            if other is worker:
                continue
            if other.job is not None and not self._is_given_up(other):
                raise PromiseBrokenError(f"I-1: {other.name} and {worker.name} may both run it")
            if other.up and other.workload is not None and other.seen_workload is not None:
                raise PromiseBrokenError(
                    f"{other.name} still has a copy, {worker.name} gets the job"
                )

    def _assert_nothing_runs(self) -> None:
        for worker in self.workers.values():
            if worker.job is not None and not self._is_given_up(worker):
                raise PromiseBrokenError(f"I-6: {worker.name} still has the job")

    def _end_eviction(self) -> None:
        self._assert_nothing_runs()
        self.local = replace(
            self.local, has_quota=False, epoch="", evicted_at=None, job=LocalJob(finished=False)
        )

    def _is_given_up(self, worker: Worker) -> bool:
        return not worker.up and self.now - worker.lost_at >= LOST_TIMEOUT

    def _mirror(self, worker: Worker) -> bool:
        if worker.seen_job is not None:
            finished = worker.seen_job.finished is not None
            active = worker.job_runs and not finished
            self.local = replace(self.local, job=LocalJob(active=active, finished=finished))
        return True

    def _deactivate(self, worker: Worker) -> bool:
        if not worker.up or worker.workload is None:
            return False
        worker.workload = replace(worker.workload, deactivating=True)
        worker.seen_workload = worker.workload
        return True

    def _confirm(self, worker: Worker, part: str) -> bool:
        if not worker.up:
            return False
        worker.deliver()
        return getattr(worker, part) is None

    def _set_check(self, step: steps.SetCheck) -> None:
        holder = self.workers.get(self.local.cluster_name or "")
        lost = holder is not None and not holder.up and step.state == CheckState.RETRY
        if lost and not self._is_given_up(holder):
            raise PromiseBrokenError(f"{holder.name} was given up too early")
        check = replace(self.local.check, state=step.state, message=step.message)
        if step.state == CheckState.READY:
            if step.cluster not in self.local.nominated and self.local.is_pending:
                raise PromiseBrokenError("I-2: the winner was not nominated")
            self.local = replace(self.local, cluster_name=step.cluster, nominated=())
        self.local = replace(self.local, check=check)

    def _finish(self) -> None:
        if not self.local.job.finished:
            raise PromiseBrokenError("I-5: finished before the final status was mirrored")
        if not self.job_ended:
            raise PromiseBrokenError("I-5: finished, but the job has ended nowhere")
        self.local = replace(self.local, finished=True)

    def restart(self) -> None:
        """Kill the manager; the next one knows only what the API says, and lists every worker.

        A worker may be lost again before this Workload is looked at.
        """
        self.memory = GroupMemory()
        for worker in self.workers.values():
            worker.seen_since_start = worker.up
            # The Active condition of the MultiKueueCluster remembers since when it is lost.
            if worker.lost_at is not None:
                worker.lost_at = max(worker.lost_at, self.now - LOST_TIMEOUT + FIRST_CHANCE)
            if worker.up:
                worker.deliver()

    # ------------------------------------------------------------ the core controllers

    def reserve(self) -> None:
        if self.local is not None and not self.local.has_quota and not self.local.finished:
            self.reservations += 1
            self.local = replace(
                self.local, has_quota=True, epoch=str(self.reservations), evicted_at=None
            )

    def evict(self) -> None:
        """Preempt it, say: what `workload_state.evict` does."""
        local = self.local
        if local is None or not local.has_quota or local.finished or local.evicted_at is not None:
            return
        self.local = replace(
            local,
            evicted_at=self.now,
            was_evicted=True,
            cluster_name=None,
            nominated=(),
            check=replace(local.check, state=CheckState.PENDING),
        )

    def core(self) -> None:
        """One round of the core: Retry evicts."""
        local = self.local
        if local is None or local.finished:
            return
        if local.check.state == CheckState.RETRY and local.has_quota:
            self.evict()

    # ------------------------------------------------------------ a worker's own controllers

    def work(self, worker: Worker) -> None:
        """One round of the worker's controllers: stop what must stop, run what may run."""
        copy = worker.workload
        if copy is not None and copy.deactivating and copy.evicted_at is None:
            copy = replace(copy, evicted_at=self.now, admitted_at=None, quota_reserved=False)
            worker.workload = copy
        if copy is not None and worker.job is not None:
            copy = worker.workload = replace(copy, had_job=True)
        if worker.job is not None and worker.job.deleting:
            worker.job = None
        admitted = copy is not None and copy.admitted_at is not None and copy.finished is None
        worker.job_runs = worker.job is not None and admitted and worker.job.finished is None

    def admit(self, worker: Worker) -> None:
        copy = worker.workload
        if copy is not None and copy.finished is None and not copy.deactivating:
            worker.workload = replace(
                copy, quota_reserved=True, admitted_at=copy.admitted_at or self.now, evicted_at=None
            )
        self.work(worker)

    def evict_on(self, worker: Worker) -> None:
        copy = worker.workload
        if copy is not None and copy.admitted_at is not None and copy.finished is None:
            worker.workload = replace(
                copy, admitted_at=None, evicted_at=self.now, quota_reserved=False
            )
        self.work(worker)

    def finish_on(self, worker: Worker) -> None:
        if worker.job is not None and worker.job_runs and worker.workload is not None:
            end = Finish(success=True, reason="Succeeded", at=self.now)
            self.job_ended = True
            worker.job = replace(worker.job, finished=end)
            worker.workload = replace(worker.workload, finished=end)
        self.work(worker)

    def end_out_of_sync(self, worker: Worker) -> None:
        if worker.workload is not None and worker.workload.finished is None:
            end = Finish(success=False, reason="OutOfSync", at=self.now)
            worker.workload = replace(worker.workload, finished=end)
        self.work(worker)

    def end_without_job(self, worker: Worker) -> None:
        """Finish a copy whose job is gone or going, as upstream's job reconciler does."""
        copy, job = worker.workload, worker.job
        is_gone = job is None or job.deleting
        if is_gone and copy is not None and copy.finished is None and copy.had_job:
            end = Finish(success=False, reason="OwnerNotFound", at=self.now)
            worker.workload = replace(copy, finished=end)
        self.work(worker)

    # ------------------------------------------------------------ the network

    def cut(self, worker: Worker) -> None:
        if worker.up:
            worker.up, worker.lost_at = False, self.now

    def heal(self, worker: Worker) -> None:
        if not worker.up:
            worker.up, worker.lost_at, worker.seen_since_start = True, None, True
            worker.deliver()


def _list_writes(plan: GroupPlan) -> Iterator[Write]:
    """Yield the writes of a plan, between any two of which the manager may die."""
    for step in (*plan.removals, *plan.steps):
        if isinstance(step, steps.Removal):
            yield step.cluster, "job"
            yield step.cluster, "workload"
        else:
            yield step


def make_fleet(names: tuple[str, ...] = ("a", "b"), *, race: bool = True) -> Fleet:
    """A fleet with one Workload that holds quota."""
    local = LocalWorkload(uid="u", digest="d", check=Check(name="multikueue"), job=LocalJob())
    fleet = Fleet(workers={name: Worker(name=name) for name in names}, local=local, race=race)
    fleet.reserve()
    return fleet
