"""Workloads that hold quota and still need nodes for pods (E-63, E-134, E-150, E-151).

Either placement was put off, because nodes were still to come, or a node failed. These workloads
come before all heads of their tree, because they already hold the quota.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.flavors.assignment import Assignment, FlavorChoice, FlavorMode, PodSetResult
from multiqueue.engine.flavors.topology_phase import TopologyPhase, Unplaced
from multiqueue.engine.options import TopologyScheduling
from multiqueue.engine.plan import Evict, PlaceFailed, PlacePods
from multiqueue.engine.queues import entry as entries
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.engine.tas.charges import topology_flavors
from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.tas.replacement import replace_node
from multiqueue.model.topology import PENDING, READY, TopologyAssignment
from multiqueue.model.workload import Admission, PodSetAssignment, Workload

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=30)
NEVER = datetime.fromtimestamp(0, UTC)


class Turn(NamedTuple):
    """When a workload is tried, and how often it was tried before."""

    at: datetime
    tries: int


class SecondPass:
    """Places the pods of workloads that hold quota. Mutable; owned by the engine.

    Args:
        cache: the cohort trees.
        quota_usage: which workloads hold quota; `QuotaUsage.placing` has decisions from
            here that are not written yet.
        options: None if pods are not placed.
    """

    def __init__(
        self, cache: Cache, quota_usage: QuotaUsage, options: TopologyScheduling | None
    ) -> None:
        self._cache = cache
        self._quota_usage = quota_usage
        self._options = options
        self._turns: dict[str, Turn] = {}
        self._entries: dict[str, Entry] = {}
        self._now = NEVER

    def observe(self, key: str, entry: Entry | None, now: datetime) -> None:
        """Take over the newest object of a workload; None if it is gone or finished."""
        self._now = now
        if entry is None or self._options is None or not self._qualifies(entry):
            self.drop(key)
        elif key not in self._quota_usage.placing:
            self._entries[key] = entry  # another entry if the workload was deleted and created
            self._turns.setdefault(key, Turn(now + FIRST_WAIT, 0))

    def follow_cluster_queue(self, name: str) -> None:
        """Take over a ClusterQueue whose workloads may hold quota already."""
        for key, entry in sorted(self._quota_usage.holders.get(name, {}).items()):
            self.observe(key, entry, self._now)

    def drop(self, key: str) -> None:
        """Forget a workload."""
        self._turns.pop(key, None)
        self._entries.pop(key, None)

    def retry(self, entry: Entry, now: datetime) -> None:
        """Try a workload again whose node assignment could not be written."""
        if self._quota_usage.placing.pop(entry.key, None) is None:
            return
        if entry.workload.reservation is not None:
            self._quota_usage.place(entry, entry.workload.reservation.admission)
        self.observe(entry.key, entry, now)

    def next_at(self) -> datetime | None:
        """Return when the next workload is tried."""
        queues = self._cache.queues
        known = (turn for key, turn in self._turns.items() if self._entries[key].charged in queues)
        return min((turn.at for turn in known), default=None)

    def trees_due(self, now: datetime) -> list[str]:
        """Return the keys of the trees that have a workload to try."""
        due = (key for key, turn in self._turns.items() if turn.at <= now)
        charged = {self._entries[key].charged for key in due}
        return sorted(
            {self._cache.tree_by_queue[q].key for q in charged if q in self._cache.tree_by_queue}
        )

    def run(self, tree: Tree, now: datetime) -> list[PlacePods | PlaceFailed | Evict]:
        """Decide on every due workload of a tree, in the order of their queues."""
        due = [
            self._entries[key]
            for key, turn in self._turns.items()
            if turn.at <= now and self._entries[key].charged in tree.queues
        ]
        return [self._decide(entry, tree, now) for entry in sorted(due, key=lambda e: e.rank)]

    # ---------------------------------------------------------------- which workloads

    def _qualifies(self, entry: Entry) -> bool:
        """Whether a workload still needs nodes (E-151)."""
        workload = entry.workload
        reservation, queue = workload.reservation, self._cache.queues.get(entry.charged)
        if reservation is None or queue is None or not entries.is_queueable(workload):
            return False
        if entries.is_evicted(workload) or queue.remote_check:
            return False
        if reservation.admitted:
            return self._replaces() and _failed_node(workload, reservation.admission) is not None
        states = workload.checks.values()
        is_checked = bool(states) and all(state is CheckState.READY for state in states)
        return is_checked and any(map(_is_waiting, reservation.admission.pod_sets))

    def _replaces(self) -> bool:
        return self._options is not None and self._options.replace_failed_nodes

    # ---------------------------------------------------------------- decisions

    def _decide(self, entry: Entry, tree: Tree, now: datetime) -> PlacePods | PlaceFailed | Evict:
        workload, queue = entry.workload, tree.queues[entry.charged]
        reservation = workload.reservation
        assert reservation is not None, "only holders of quota are looked at again"
        failed = _failed_node(workload, reservation.admission) if reservation.admitted else None
        if failed is not None:
            found = self._replace(workload, reservation.admission, failed)
        else:
            found = self._place_delayed(workload, reservation.admission, queue)
        if isinstance(found, Admission):
            return self._accept(entry, found)
        if failed is not None and self._options is not None and self._options.fail_fast:
            self.drop(entry.key)
            return Evict(
                workload=entry.key,
                cluster_queue=queue.name,
                reason=Reason.NODE_FAILURES,
                message="Workload was evicted as there was no replacement for a failed node: "
                f"{failed}",
            )
        tries = self._turns[entry.key].tries + 1
        wait = min(FIRST_WAIT * 2 ** min(tries, 10), LONGEST_WAIT)
        self._turns[entry.key] = Turn(now + wait, tries)
        return PlaceFailed(workload=entry.key, cluster_queue=queue.name, message=found.message)

    def _accept(self, entry: Entry, admission: Admission) -> PlacePods:
        """Count the pods on their new nodes at once; the shell writes the status later."""
        self.drop(entry.key)
        self._quota_usage.placing[entry.key] = admission
        self._quota_usage.place(entry, admission)
        return PlacePods(
            workload=entry.key, cluster_queue=admission.cluster_queue, admission=admission
        )

    def _replace(
        self, workload: Workload, admission: Admission, node: str
    ) -> Admission | PlacementFailure:
        """Find another node for the pods of a failed one, pod set by pod set (E-150)."""
        phase = self._phase(workload)
        changed: dict[str, TopologyAssignment] = {}
        for result, assignment in _results(workload, admission):
            topology = assignment.topology
            if topology is None or node not in topology.nodes():
                continue
            flavors = topology_flavors(assignment.flavors.values(), self._cache.flavors)
            grown = self._cache.forest.tree(flavors[0]) if flavors else None
            if grown is None:
                return PlacementFailure(topology="", detail="the flavor has no topology any more")
            found = replace_node(grown, phase.pods(result), topology, node)
            if isinstance(found, PlacementFailure):
                return found
            changed[assignment.name] = found
        return _with_topologies(admission, changed)

    def _place_delayed(
        self, workload: Workload, admission: Admission, queue: CachedQueue
    ) -> Admission | PlacementFailure:
        """Place the pods whose placement was put off, in the flavors that they have."""
        results = _results(workload, admission)
        waiting = frozenset(a.name for _, a in results if _is_waiting(a))
        assignment = Assignment(
            pod_sets=tuple(result for result, _ in results),
            delayed=frozenset(a.name for _, a in results) - waiting,
        )
        phase = replace(self._phase(workload), implied=queue.has_only_topologies)
        found = phase.find(assignment)
        if isinstance(found, Unplaced):
            return found.failure
        return _with_topologies(admission, found.topologies)

    def _phase(self, workload: Workload) -> TopologyPhase:
        return TopologyPhase(
            forest=self._cache.forest,
            flavors=self._cache.flavors,
            updates=workload.placement_updates,
        )


def _is_waiting(assignment: PodSetAssignment) -> bool:
    return assignment.topology is None and assignment.delayed_topology == PENDING


def _failed_node(workload: Workload, admission: Admission) -> str | None:
    """Return the first failed node that the workload's pods are assigned to."""
    assigned = {
        node for ps in admission.pod_sets if ps.topology is not None for node in ps.topology.nodes()
    }
    return next((node for node in workload.unhealthy_nodes if node in assigned), None)


def _results(
    workload: Workload, admission: Admission
) -> list[tuple[PodSetResult, PodSetAssignment]]:
    """Return the assignment of each pod set in the form that the topology search reads."""
    found = []
    by_name = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    for assignment in admission.pod_sets:
        pod_set = by_name.get(assignment.name)
        if pod_set is not None:
            flavors = {
                resource: FlavorChoice(flavor, FlavorMode.FIT, 0, -1, 0)
                for resource, flavor in assignment.flavors.items()
            }
            result = PodSetResult(pod_set, assignment.count, assignment.usage, flavors)
            found.append((result, assignment))
    return found


def _with_topologies(
    admission: Admission, topologies: Mapping[str, TopologyAssignment]
) -> Admission:
    pod_sets = tuple(
        dataclasses.replace(
            assignment,
            topology=topologies.get(assignment.name, assignment.topology),
            delayed_topology=READY
            if assignment.name in topologies and assignment.delayed_topology
            else assignment.delayed_topology,
        )
        for assignment in admission.pod_sets
    )
    return dataclasses.replace(admission, pod_sets=pod_sets)
