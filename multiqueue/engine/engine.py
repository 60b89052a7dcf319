"""The facade of the engine: it mirrors the API and returns decisions.

The shell calls it and is its only writer. The shell must not await between reading and acting.
Level triggered: every upsert gives the current state, not an event, and repeating it changes
nothing. Pure: no clock, no randomness, no logging; the same calls give the same plans, whatever
the order of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from multiqueue.api.disruptions import Stop
from multiqueue.engine import queue_states
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cycle import CycleResult, run_cycle
from multiqueue.engine.cycle_schedule import CycleSchedule
from multiqueue.engine.disruption.disruption import Disruption
from multiqueue.engine.disruption.moves import MoveWeight
from multiqueue.engine.fairness.past_usage import PastUsageRecords
from multiqueue.engine.flavors.oracle import Oracle, PreemptionOracle
from multiqueue.engine.giving_notice import next_notice_end, settle_notices
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.engine.plan import Admit, CyclePlan, Decision, TreeFailure
from multiqueue.engine.preemption.candidates import HolderIndex
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.queue_activation import QueueActivation
from multiqueue.engine.queues.entry import FindRun, Rank, rank_of
from multiqueue.engine.queues.pending_order import Placed, ordered_in_steps
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.engine.remote import FleetOracle
from multiqueue.engine.second_pass import SecondPass
from multiqueue.engine.state import (
    Changed,
    ClusterQueueState,
    CohortState,
    LocalQueueState,
    PendingWorkload,
)
from multiqueue.engine.tas.forest import build_forest
from multiqueue.engine.waiting import Waiting
from multiqueue.engine.waking import deliver_due, unblock
from multiqueue.engine.what_if import Trial, try_workload
from multiqueue.engine.workload_changes import WorkloadChanges
from multiqueue.engine.world import EngineParts
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import AdmissionCheckInfo, ClusterQueue, Cohort, LocalQueue
from multiqueue.model.disruption_policy import DisruptionRules
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import Node
from multiqueue.model.workload import Admission, Workload

DEFAULT_OPTIONS = EngineOptions()
FAILED_PAUSE = timedelta(seconds=5)
"""Pause before the next cycle of a tree whose cycle raised, if nothing in it changes before."""


class Engine:
    """Queues, quotas and the cycle that brings them together.

    Args:
        options: the parts of the Configuration that change decisions.
        oracle: tells which flavor may preempt; by default it searches for victims.

    Attributes:
        parts: the state of the engine; others must not change it.

    Shape: ``usage`` is the past usage of LocalQueues, which the shell seeds and samples; None if
    past usage does not count (E-20).
    """

    def __init__(
        self, options: EngineOptions = DEFAULT_OPTIONS, *, oracle: Oracle | None = None
    ) -> None:
        self._options = options
        self._cache = Cache(build_forest(options.topology))
        self._pending: dict[str, PendingQueue] = {}
        self._quota_usage = QuotaUsage(self._cache)
        self._schedule = CycleSchedule(options.wake_batch, options.busy_wake_batch)
        self._waiting = Waiting(self._cache, self._pending, self._quota_usage, self._schedule)
        self._workload_changes = WorkloadChanges(
            self._cache,
            self._pending,
            self._quota_usage,
            self._schedule,
            self._waiting,
            keeps_scan=options.keep_scan_progress,
        )
        self._activation = QueueActivation(
            self._pending, self._quota_usage, self._waiting, self._workload_changes.entries
        )
        self.usage = PastUsageRecords.of(
            options, self._cache, self._quota_usage, self._pending, self._schedule
        )
        self._disruption = Disruption(self._cache, self._quota_usage)
        context = SearchContext(
            holders=HolderIndex(self._quota_usage),
            options=options,
            past_usage=self.usage.past_usage if self.usage is not None else None,
            disruption=self._disruption,
        )
        self.parts = EngineParts(
            cache=self._cache,
            pending=self._pending,
            entries=self._workload_changes.entries,
            quota_usage=self._quota_usage,
            schedule=self._schedule,
            context=context,
            oracle=oracle or PreemptionOracle(self._cache.tree_by_queue, context),
            options=options,
            usage=self.usage,
            disruption=self._disruption,
            second_pass=SecondPass(self._cache, self._quota_usage, options.topology),
        )

    # ---------------------------------------------------------------- mirror: quotas

    def upsert_resource_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or change a ResourceFlavor."""
        self._wake(self._cache.set_flavor(flavor.name, flavor))

    def delete_resource_flavor(self, name: str) -> None:
        """Remove a ResourceFlavor; queues that use it become inactive."""
        self._wake(self._cache.set_flavor(name, None))

    def upsert_cluster_queue(self, cluster_queue: ClusterQueue) -> None:
        """Add or change a ClusterQueue."""
        touched = self._cache.upsert_cluster_queue(cluster_queue)
        self._activation.upsert_cluster_queue(cluster_queue)
        self.parts.second_pass.follow_cluster_queue(cluster_queue.name)
        if self.usage is not None:
            self.usage.follow_cluster_queue(cluster_queue.name)
        self._wake(touched)

    def delete_cluster_queue(self, name: str) -> None:
        """Remove a ClusterQueue; its workloads wait for a new one with that name."""
        self._activation.delete_cluster_queue(name)
        self._wake(self._cache.delete_cluster_queue(name))

    def upsert_cohort(self, cohort: Cohort) -> None:
        """Add or change a Cohort."""
        self._wake(self._cache.upsert_cohort(cohort))

    def delete_cohort(self, name: str) -> None:
        """Remove a Cohort; its members stay together, without its quota."""
        self._wake(self._cache.delete_cohort(name))

    def upsert_admission_check(self, check: AdmissionCheckInfo) -> None:
        """Add or change an AdmissionCheck."""
        self._wake(self._cache.set_check(check.name, check))

    def delete_admission_check(self, name: str) -> None:
        """Remove an AdmissionCheck; queues that use it become inactive."""
        self._wake(self._cache.set_check(name, None))

    def upsert_disruption_policy(self, rules: DisruptionRules) -> None:
        """Add or change a DisruptionPolicy; it counts from the next cycle."""
        self._set_policy(rules.name, rules)

    def delete_disruption_policy(self, name: str) -> None:
        """Remove a DisruptionPolicy; queues that name it preempt nobody, nor are preempted."""
        self._set_policy(name, None)

    def _set_policy(self, name: str, rules: DisruptionRules | None) -> None:
        if self._disruption.set_policy(name, rules):
            self._wake(self._cache.touch_trees())

    def set_last_checkpoint(self, job_uid: str, at: datetime | None) -> bool:
        """Note when a job reported its last checkpoint; None once the job is gone.

        Returns whether a cycle should look at it now: the job was told to save its work.
        """
        self._disruption.losses.report(job_uid, at)
        return self._disruption.notices.ends_by_report(job_uid)

    def note_pods_gone(self, workload: str, uid: str) -> bool:
        """Note that all pods of a Workload are gone (P-52).

        Returns whether a cycle should look at it now: the job was told to save its work.
        """
        return self._disruption.notices.note_gone(workload, uid)

    def ask_fleet(self, oracle: FleetOracle) -> None:
        """Set the oracle to ask before quota is reserved for workloads of other clusters."""
        self.parts.fleet.oracle = oracle
        self.fleet_changed()

    def ask_run_times(self, find_run: FindRun) -> None:
        """Set what says how long workloads are expected to run, to be asked for their turns (P-85).

        Without it, they run for as long as they declare.
        """
        self._disruption.find_run = find_run

    def fleet_changed(self) -> None:
        """Note that the oracle may answer otherwise: try again the workloads that it refused."""
        self._wake(self._cache.touch_remote())

    def upsert_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change a namespace; its workloads wait until the namespace is known."""
        self._wake(self._cache.set_namespace(name, dict(labels)))
        if self.usage is not None:
            self.usage.follow_namespace(name)

    def delete_namespace(self, name: str) -> None:
        """Remove a namespace."""
        self._cache.set_namespace(name, None)
        if self.usage is not None:
            self.usage.follow_namespace(name)

    # ---------------------------------------------------------------- mirror: topologies and nodes

    def upsert_topology(self, topology: Topology) -> None:
        """Add or change a Topology."""
        self._wake(self._cache.set_topology(topology.name, topology))

    def delete_topology(self, name: str) -> None:
        """Remove a Topology; queues whose flavors use it become inactive."""
        self._wake(self._cache.set_topology(name, None))

    def upsert_node(self, node: Node) -> None:
        """Add or change a node; wake the workloads that wait for its topology (E-27)."""
        self._wake_placers(self._cache.set_node(node.name, node))

    def delete_node(self, name: str) -> None:
        """Remove a node."""
        self._wake_placers(self._cache.set_node(name, None))

    def set_pod_usage(self, key: str, node: str, requests: Mapping[str, Amount] | None) -> None:
        """Note what a running pod uses of its node if no topology placed the pod (E-130).

        Args:
            key: ``namespace/name`` of the pod.
            node: the name of the pod's node.
            requests: its requests without the resource ``pods``; None once the pod has ended.
        """
        self._wake_placers(self._cache.set_pod(key, node, requests))

    def places_written(self, key: str, admission: Admission) -> None:
        """Note that the new node assignment of a workload was written."""
        if self._quota_usage.placing.get(key) is admission:  # else it is decided again
            del self._quota_usage.placing[key]

    def _wake_placers(self, touched: Iterable[str]) -> None:
        for key in sorted(touched):
            tree = self._cache.trees[key]
            self._schedule.poke(key, tree.queues)
            self._schedule.tree(key).parked.update(tree.queues)
            self._schedule.notify(key)

    def _wake(self, touched: Iterable[str]) -> None:
        """Schedule cycles of trees whose spec changed, and wake their parked workloads (E-27)."""
        self._disruption.forget_specs()
        for key in sorted(touched):
            tree = self._cache.trees.get(key)
            if tree is None:
                self._schedule.forget_tree(key)
                continue
            self._schedule.poke(key, tree.queues)
            self._schedule.tree(key).parked.update(tree.queues)
            self._schedule.notify(key)
            self._quota_usage.changed_cluster_queues.update(tree.queues)
            self._activation.touch_local_queues(tree.queues)

    # ---------------------------------------------------------------- mirror: workloads

    def upsert_local_queue(self, local_queue: LocalQueue) -> None:
        """Add or change a LocalQueue; a new or restarted one queues its workloads (E-19)."""
        self._activation.upsert_local_queue(local_queue)
        if self.usage is not None:
            self.usage.follow_local_queue(local_queue.key)

    def delete_local_queue(self, key: str) -> None:
        """Remove a LocalQueue; its workloads leave the queue."""
        self._activation.delete_local_queue(key)
        if self.usage is not None:
            self.usage.forget_local_queue(key)

    def upsert_workload(self, workload: Workload, now: datetime) -> None:
        """Add or change a Workload: pending, holding quota, or finished."""
        old = self._workload_changes.entries.get(workload.key) if self.usage is not None else None
        before = old.workload if old is not None else None
        self._workload_changes.upsert_workload(workload, now)
        entry = self._workload_changes.entries.get(workload.key)
        self._disruption.observe(workload, entry)
        self.parts.second_pass.observe(workload.key, entry, now)
        if self.usage is not None:
            self.usage.observe(before, workload, now)

    def delete_workload(self, key: str, now: datetime) -> None:
        """Remove a Workload and release its quota."""
        self._acquit(key)
        self._take_back_stop(key)
        self._disruption.notices.follow(key, None)
        self.parts.second_pass.drop(key)
        self._workload_changes.delete_workload(key, now)

    def confirm(self, key: str) -> None:
        """Note that an assumed admission was written."""
        self._workload_changes.confirm(key)

    def forget(self, key: str, now: datetime, *, retry_at: datetime | None = None) -> None:
        """Undo an assumed admission that could not be written; queue the workload again.

        The next cycle tries it, or no cycle before ``retry_at``. Its quota is free at once. If it
        was to be preempted, that is over, too.
        """
        self._acquit(key, only_assumed=True)
        self._take_back_stop(key)
        self._workload_changes.forget(key, now, retry_at)
        self._disruption.notices.follow(key, self._workload_changes.entries.get(key))

    def places_failed(self, key: str, now: datetime) -> None:
        """Note that a new node assignment could not be written; it is decided again."""
        entry = self._workload_changes.entries.get(key)
        if entry is not None:
            self.parts.second_pass.retry(entry, now)
            self._waiting.notify_freed(now)

    def set_aside(self, key: str, now: datetime) -> None:
        """Undo an assumed admission that the Workload object forbids, until that object changes."""
        self._acquit(key, only_assumed=True)
        self._take_back_stop(key)
        self._workload_changes.set_aside(key, now)
        self._disruption.notices.follow(key, self._workload_changes.entries.get(key))

    def preemption_failed(self, key: str, now: datetime) -> None:
        """Note that the preemption or eviction of a workload could not be written.

        The workload that needs the room decides again one second later. Until this is called, or
        the eviction is seen, no plan has the same preemption twice (E-80).
        """
        self._workload_changes.preemption_failed(key, now)
        self._take_back_stop(key)
        entry = self._workload_changes.entries.get(key)
        self._disruption.notices.follow(key, entry)
        self.parts.second_pass.observe(key, entry, now)

    def _take_back_stop(self, key: str) -> None:
        """Count a stop no more that was decided and not written; wake who waits for a budget."""
        entry = self._workload_changes.entries.get(key)
        if entry is not None and self._disruption.book.take_back(entry.workload.uid):
            self._wake_for_budgets()

    def _wake_for_budgets(self) -> None:
        for name in self._schedule.wake_ends():
            tree = self._cache.trees.get(name)
            if tree is not None:
                tree.version += 1  # verdicts counted the stop

    def _acquit(self, key: str, *, only_assumed: bool = False) -> None:
        """Drop the entry penalty of a workload whose admission it was charged for (E-125)."""
        entry = self._workload_changes.entries.get(key) if self.usage is not None else None
        if self.usage is not None and entry is not None and (entry.assumed or not only_assumed):
            self.usage.drop(entry.workload)

    # ---------------------------------------------------------------- scheduling

    def run_cycle(self, now: datetime) -> CyclePlan:
        """Decide until nothing more can be decided now, or the budget is spent.

        Delivers due wakes. Then every changed tree gets one cycle per round, as upstream's cycles
        would do one after another, until each tree repeats itself. Admissions are assumed at once.
        An exception in one tree stops no other tree; the admissions of its last cycle are undone.
        """
        self._activation.begun = True
        self._disruption.advance(now)
        deliver_due(self.parts, now)
        for key in self.parts.second_pass.trees_due(now):
            self._schedule.poke(key)
        decisions: list[Decision] = [*settle_notices(self.parts)]
        failures: list[TreeFailure] = []
        recomputed: list[tuple[str, bool]] = []
        explained: list[str] = []
        cycles = 0
        exhausted = False
        while self._schedule.is_busy and not exhausted:
            for key in self._schedule.next_round():
                exhausted = len(decisions) >= self._options.decision_budget
                if exhausted:
                    break
                result = self._run_tree(key, now)
                decisions += result.decisions
                recomputed += result.recomputed
                explained += result.explained
                cycles += 1
                if result.error is not None:
                    failures.append(TreeFailure(tree=key, error=result.error))
        decisions += settle_notices(self.parts)  # cycles decide who is needed no more
        return CyclePlan(
            decisions=tuple(decisions),
            explained=tuple(explained),
            cycles=cycles,
            exhausted=exhausted,
            failures=tuple(failures),
            recomputed=tuple(recomputed),
        )

    def _run_tree(self, key: str, now: datetime) -> CycleResult:
        schedule = self._schedule.serve(key)
        tree = self._cache.trees[key]
        result = CycleResult()
        self._cache.forest.lacked_room = False
        try:
            self._disruption.order_queues(tree, self._pending)
            run_cycle(self.parts, tree, schedule, now, result)
        except Exception as error:  # noqa: BLE001 - told in the plan; the other trees go on
            # The last cycle may be half done, so all of its admissions are undone.
            for head in result.heads:
                self._acquit(head.key, only_assumed=True)
            self._workload_changes.roll_back(result.heads, now)
            self._schedule.pause(key, now + FAILED_PAUSE)
            refused: list[Decision] = [d for d in result.decisions if not isinstance(d, Admit)]
            return CycleResult(decisions=refused, explained=result.explained, error=error)
        finally:
            schedule.lacks_nodes = schedule.lacks_nodes or self._cache.forest.lacked_room
        if result.has_moved:
            schedule.seen.clear()
        elif result.fingerprint in schedule.seen or not result.fingerprint:
            self._schedule.settle(key)
            # Upstream repeats this for ever; where a wake finds it is chance. Start over.
            for head in result.heads:
                head.resume = None
        else:
            schedule.seen.add(result.fingerprint)
        return result

    def next_cycle_at(self, now: datetime) -> datetime | None:
        """Return when to call `run_cycle` next: now, at a timer, or None (only after an event)."""
        self._schedule.stamp(now)
        unblock(self.parts)
        if self._schedule.is_busy:
            return now
        timers = (
            self._schedule.next_timer(),
            self.parts.second_pass.next_at(),
            next_notice_end(self.parts),
        )
        return min((at for at in timers if at is not None), default=None)

    # ---------------------------------------------------------------- reading

    def cluster_queue_state(self, name: str) -> ClusterQueueState | None:
        """Return the state of a ClusterQueue; None if it is unknown."""
        return queue_states.cluster_queue_state(self.parts, name)

    def cohort_state(self, name: str) -> CohortState | None:
        """Return the state of a Cohort; None if its tree has no queue."""
        return queue_states.cohort_state(self.parts, name)

    def cohorts_above(self, cluster_queue: str) -> list[str]:
        """Return the cohorts that a ClusterQueue is below, the nearest first."""
        return queue_states.cohorts_above(self.parts, cluster_queue)

    def local_queue_state(self, key: str) -> LocalQueueState | None:
        """Return the state of a LocalQueue; None if it is unknown."""
        return queue_states.local_queue_state(self.parts, key)

    def pending_workloads(self, cluster_queue: str) -> list[PendingWorkload]:
        """Return the waiting workloads in queue order. Cost: O(n log n)."""
        return queue_states.pending_workloads(self.parts, cluster_queue)

    def pending_revision(self, cluster_queue: str) -> object | None:
        """Return a token that stays the same while the order of a ClusterQueue does.

        None if the queue is unknown.
        """
        pending = self._pending.get(cluster_queue)
        return None if pending is None else pending.revision

    def turns_revision(self, cluster_queue: str) -> object | None:
        """Return a token that stays the same while the turns of a ClusterQueue do.

        None if turns do not count there (P-67).
        """
        pending = self._pending.get(cluster_queue)
        return None if pending is None or not pending.passing else pending.revision

    def rank_of(self, workload: Workload, cluster_queue: str) -> Rank:
        """Return the rank that a workload has in a ClusterQueue, or would have if it came now."""
        pending = self._pending.get(cluster_queue)
        return rank_of(workload) if pending is None else pending.rank_of(workload)

    def pending_in_steps(self, cluster_queue: str) -> Iterator[Sequence[Placed]]:
        """Yield (workload, LocalQueue) in queue order, in pieces; other tasks may run between them.

        Raises:
            KeyError: the ClusterQueue is unknown.
        """
        return ordered_in_steps(self._pending[cluster_queue])

    def local_queue_target(self, key: str) -> str | None:
        """Return the ClusterQueue that a LocalQueue names; None if the LocalQueue is unknown."""
        record = self._quota_usage.local_queues.get(key)
        return None if record is None or record.spec is None else record.cluster_queue

    def find_workload(self, key: str) -> Workload | None:
        """Return an unfinished workload as the engine sees it."""
        entry = self._workload_changes.entries.get(key)
        return None if entry is None else entry.workload

    def workload_reason(self, key: str) -> Explanation | None:
        """Return why a workload is pending; None if it is not pending, or unknown."""
        entry = self._workload_changes.entries.get(key)
        return None if entry is None else queue_states.workload_reason(self.parts, entry)

    def requests_by_flavor(self, key: str) -> Mapping[str, Mapping[str, Amount]]:
        """Return what a workload requests of each flavor of its queue; empty if it is unknown."""
        entry = self._workload_changes.entries.get(key)
        return {} if entry is None else queue_states.requests_by_flavor(self.parts, entry)

    def try_workload(self, workload: Workload, cluster_queue: str) -> Trial | None:
        """Return what a cycle would decide about a workload now; changes nothing."""
        return try_workload(self.parts, workload, cluster_queue)

    def weigh_move(self, key: str, now: datetime) -> MoveWeight | None:
        """Return what it costs to move a workload to another worker; None: it never moves."""
        self._disruption.advance(now)
        return self._disruption.weigh_move(self.parts.entries.get(key))

    def plan_move(self, key: str, stop: Stop | None) -> None:
        """Count the stop of a workload that is to move until it is written; None: it stays."""
        entry, book = self.parts.entries.get(key), self._disruption.book
        if stop is None and book.drop_move(key):
            self._wake_for_budgets()
        if stop is not None and entry is not None:
            book.plan_move(entry.workload, stop)

    def changed_since_last_call(self) -> Changed:
        """Return the queues whose state may have changed since the last call."""
        self._quota_usage.changed_cluster_queues |= self._cache.restated
        self._quota_usage.changed_local_queues |= queue_states.take_restated(self.parts)
        self._activation.touch_local_queues(self._cache.restated)
        self._cache.restated.clear()
        return queue_states.with_cohorts(self.parts, self._quota_usage.take_changed())
