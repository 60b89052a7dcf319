"""Keeps every Workload with a MultiKueue check and its copies in step: observe, decide, apply.

Woken by the Workload, its job and configuration here, by whatever of ours changes on a worker, and
by workers that come and go; each at once, without batching. A Workload that waits for a cluster is
also looked at when room changes on a worker; `waiting` says which, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import key_of
from multiqueue.api.workload_state import has_quota, is_evicted, is_finished
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.informers import BY_CHECK, BY_OWNER
from multiqueue.kube.errors import NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.model.build import BuildOptions, effective_priority
from multiqueue.multikueue.checks import is_multikueue
from multiqueue.multikueue.decide import decide
from multiqueue.multikueue.dispatch import DispatchRunner
from multiqueue.multikueue.dispatch_view import DispatchViews
from multiqueue.multikueue.execute import Executor
from multiqueue.multikueue.fleet import Fleet, FleetListener, Reach
from multiqueue.multikueue.group import GroupConfig
from multiqueue.multikueue.memory import GroupMemory
from multiqueue.multikueue.observe import Observation, Observer
from multiqueue.multikueue.plan import GroupPlan
from multiqueue.multikueue.waiting import Rank, WaitingLane

CONCURRENCY = 32
"""Workloads looked at side by side; most of the time each waits for one request."""
MAX_PASSES = 8
"""Looks at one Workload without a pause; the longest way, from nomination to admission, takes four
when its worker answers at once."""

log = structlog.get_logger("multiqueue.multikueue")


@dataclass(frozen=True, slots=True)
class Tracked:
    """What is remembered of a Workload to know when to look at it."""

    waits: bool
    evicting: bool
    cluster: str | None
    rank: Rank


class WorkloadReconciler:
    """Looks at Workloads.

    Args:
        context: Of the manager.
        fleet: The workers.
        dispatcher: Who chooses the clusters.
        options: How requests of Workloads are read.
    """

    name = "multikueue-workloads"

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        dispatcher: DispatchRunner,
        options: BuildOptions,
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._dispatcher = dispatcher
        self._config = GroupConfig(
            worker_lost_timeout=context.config.multi_kueue.worker_lost_timeout
        )
        self._observer = Observer(context, fleet)
        self._views = DispatchViews(context, fleet, options)
        self._reconciler: Reconciler[str] = Reconciler(
            self.name,
            self.reconcile,
            concurrency=CONCURRENCY,
            on_outcome=context.metrics.observe_reconcile,
        )
        self._executor = Executor(context, fleet, wake=self.enqueue)
        self._memories: dict[str, GroupMemory] = {}
        self._tracked: dict[str, Tracked] = {}
        self._fleet_version = 0
        self._reach: dict[str, Reach] = {}
        self._waiting = WaitingLane(self._list_waiting, self._look_for_room)
        self._is_running = False
        self._listen()

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Look at Workloads until cancelled."""
        informers = self._context.informers
        needed: tuple[Informer[Any], ...] = (
            informers.workloads,
            informers.admission_checks,
            informers.multikueue_configs,
            informers.multikueue_clusters,
            *informers.jobs.values(),
        )
        for informer in needed:
            await informer.settled.wait()
        self._is_running = True
        for key in self._tracked:
            self.enqueue(key)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._waiting.run(), name=f"{self.name}-waiting")
                tasks.create_task(self._reconciler.run(), name=self.name)
        finally:
            self._is_running = False

    def enqueue(self, key: str) -> None:
        """Look at a Workload soon."""
        if self._is_running:
            self._reconciler.queue.add(key)

    async def reconcile(self, key: str) -> Result:
        """Look at one Workload until nothing is left to do now."""
        try:
            return await self._reconcile(key)
        finally:
            self._waiting.answer(key, moved=False)

    async def _reconcile(self, key: str) -> Result:
        for _ in range(MAX_PASSES):
            memory = self._memory(key)
            seen = self._observer.observe(key, memory, self._fleet_version)
            now = self._context.clock.now()
            plan = decide(seen.view, self._config, now)
            if plan.ask:
                seen = await self._ask(seen, memory)
                plan = decide(seen.view, self._config, now)
            if plan.removals and seen.workload is None and await self._exists(key):
                continue
            outcome = await self._executor.apply(plan, seen, memory)
            if not outcome.again:
                self._forget_if_gone(key, seen)
                return _result(outcome.after, plan)
        log.info("workload does not come to rest", workload=key, passes=MAX_PASSES)
        return Result(requeue_after=1.0)

    async def _ask(self, seen: Observation, memory: GroupMemory) -> Observation:
        """Ask the dispatcher, and return the view with its answer."""
        workload = seen.workload
        assert workload is not None
        fleet = (self._fleet_version, seen.clusters)
        answer = await self._dispatcher.ask(
            lambda: self._views.build(seen, workload, memory),
            lambda view, nomination: self._views.accept(view, nomination, memory, fleet),
        )
        if answer.nomination is None:
            self._views.postpone(memory, answer.retry_at, fleet)
        elif set(answer.nomination.clusters) != set(workload.status.nominated_cluster_names):
            # What is written and created now is not waited for: the next one may be asked about.
            self._waiting.answer(workload.metadata.key, moved=True)
        view = replace(
            seen.view,
            nomination=answer.nomination,
            problem=answer.problem,
            ask_due=False,
            ask_again_at=memory.ask_again_at,
        )
        return replace(seen, view=view)

    async def _exists(self, key: str) -> bool:
        """Ask the API server itself before everything of a Workload is deleted."""
        try:
            await self._context.writer.read(key)
        except NotFound:
            return False
        return True

    def _memory(self, key: str) -> GroupMemory:
        workload = self._context.informers.workloads.store.get(key)
        uid = workload.metadata.uid if workload is not None else ""
        memory = self._memories.get(key)
        if memory is None or (uid and memory.uid not in {"", uid}):
            memory = GroupMemory()
            self._memories[key] = memory
        memory.uid = uid or memory.uid
        return memory

    def _forget_if_gone(self, key: str, seen: Observation) -> None:
        if seen.workload is None and all(cluster.is_empty for cluster in seen.view.clusters):
            self._memories.pop(key, None)

    # ------------------------------------------------------------ what wakes us

    def _listen(self) -> None:
        informers = self._context.informers
        informers.workloads.add_handler(self._on_workload)
        informers.admission_checks.add_handler(self._on_check)
        informers.multikueue_configs.add_handler(lambda _old, _new: self._on_configuration())
        informers.multikueue_clusters.add_handler(self._on_cluster)
        for informer in informers.jobs.values():
            informer.add_handler(self._on_job)
        self._fleet.add_listener(
            FleetListener(
                on_remote=self.enqueue,
                on_connection=self._on_connection,
                on_room=self._waiting.wake,
            )
        )

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        workload = new or old
        assert workload is not None
        key = workload.metadata.key
        if new is None or is_finished(new.status):
            known = self._tracked.pop(key, None)
            if known is not None or key in self._memories:
                self.enqueue(key)
            return
        if not _concerns_us(new) and key not in self._tracked:
            return
        self._tracked[key] = Tracked(
            waits=has_quota(new.status) and new.status.cluster_name is None,
            evicting=is_evicted(new.status) and has_quota(new.status),
            cluster=new.status.cluster_name,
            rank=_rank(new),
        )
        self.enqueue(key)

    def _on_job(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """The job's status waits for its spec (M-140), and a stop for its status."""
        if new is None or (old is not None and _same_job(old, new)):
            return
        uid = new["metadata"].get("uid", "")
        for workload in self._context.informers.workloads.store.by_index(BY_OWNER, uid):
            if workload.metadata.key in self._tracked:
                self.enqueue(workload.metadata.key)

    def _on_check(self, old: api.AdmissionCheck | None, new: api.AdmissionCheck | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        check = new or old
        assert check is not None
        if not is_multikueue(check):
            return
        name = check.metadata.name
        for workload in self._context.informers.workloads.store.by_index(BY_CHECK, name):
            self._on_workload(workload, workload)

    def _on_cluster(
        self, old: api.MultiKueueCluster | None, new: api.MultiKueueCluster | None
    ) -> None:
        """Filters look at labels and annotations."""
        if old is None or new is None:
            return
        before, after = old.metadata, new.metadata
        if (before.labels, before.annotations) != (after.labels, after.annotations):
            self._on_configuration()

    def _on_configuration(self) -> None:
        """Clusters were added or taken away: everything that waits is looked at (M-70)."""
        self._fleet_version += 1
        self._enqueue_all(key for key, known in self._tracked.items() if known.waits)

    def _on_connection(self, name: str) -> None:
        """A worker came or went, or serves other job kinds; another failed attempt is no news.

        Deviates: upstream does not offer what waits to a worker that comes back (M-71, #10428).
        """
        reach = self._fleet.find_reach(name)
        if reach == self._reach.get(name):
            return
        self._reach[name] = reach
        self._fleet_version += 1
        self._enqueue_all(
            key
            for key, known in self._tracked.items()
            if known.waits or known.evicting or known.cluster == name
        )

    def _list_waiting(self) -> list[Rank]:
        return [known.rank for known in self._tracked.values() if known.waits]

    def _look_for_room(self, key: str) -> None:
        self._memory(key).room_changed = True
        self.enqueue(key)

    def _enqueue_all(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self.enqueue(key)


def _concerns_us(workload: api.Workload) -> bool:
    """Whether there is a check that may be ours, or a cluster."""
    status = workload.status
    return bool(status.admission_checks or status.cluster_name or status.nominated_cluster_names)


def _rank(workload: api.Workload) -> Rank:
    metadata = workload.metadata
    return Rank(
        urgency=-effective_priority(workload),
        created_at=metadata.creation_timestamp,
        key=metadata.key,
        queue=key_of(metadata.namespace, workload.spec.queue_name),
    )


def _same_job(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return bool(
        old["metadata"].get("generation") == new["metadata"].get("generation")
        and old.get("spec") == new.get("spec")
        and (old.get("status") or {}).get("active") == (new.get("status") or {}).get("active")
    )


def _result(after: float | None, plan: GroupPlan) -> Result:
    waits = [after] if after is not None else []
    if plan.wait is not None:
        waits.append(max(plan.wait.total_seconds(), 0.01))
    return Result(requeue_after=min(waits)) if waits else DONE
