"""Asks for a reconcile when an object or a connection that matters to it changes.

The objects are Workloads, jobs, checks, configurations, queues and clusters. Keeps just enough of
each Workload to know which Workloads a change concerns; only these are reconciled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import DISPATCH_PROFILE, key_of
from multiqueue.api.workload_state import has_quota, is_evicted, is_finished
from multiqueue.capacity.checks import is_multikueue
from multiqueue.capacity.filters import read_constraints
from multiqueue.dispatch.observe.lineage import Lineage
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.dispatch.wake.waiting import Rank
from multiqueue.jobs.context import Informers
from multiqueue.jobs.framework.integration import Integration, Job
from multiqueue.jobs.framework.job_source import BY_OWNER
from multiqueue.jobs.informers import BY_CHECK
from multiqueue.jobs.registry import IntegrationRegistry, SupportedKind
from multiqueue.kube.clock import Moment
from multiqueue.model.build_workload import effective_priority
from multiqueue.workers.connections.fleet import Fleet, FleetListener, Reach


@dataclass(frozen=True, slots=True)
class Tracked:
    """What is remembered of a Workload to know when to reconcile it."""

    waits: bool
    evicting: bool
    cluster: str | None
    rank: Rank


class Wakes:
    """Listens to everything that a decision may depend on.

    Args:
        informers: The manager's informers.
        fleet: The workers.
        global_queue: The Workloads that wait for room.
        integrations: The kinds of jobs.
        enqueue: Asks for a reconcile of a Workload.
        is_known: Whether there is memory of a Workload.
        on_room: Called when room changes on a worker.

    Attributes:
        fleet_version: Counts the changes after which a dispatcher may answer differently.
    """

    def __init__(
        self,
        informers: Informers,
        fleet: Fleet,
        global_queue: GlobalQueue,
        *,
        integrations: IntegrationRegistry,
        enqueue: Callable[[str], None],
        is_known: Callable[[str], bool],
        on_room: Callable[[], None],
    ) -> None:
        self.fleet_version = 0
        self._informers = informers
        self._fleet = fleet
        self._global_queue = global_queue
        self._on_room = on_room
        self._lineage = Lineage(informers, fleet)
        self._enqueue = enqueue
        self._is_known = is_known
        self._tracked: dict[str, Tracked] = {}
        self._reach: dict[str, tuple[Reach, Moment | None]] = {}
        informers.workloads.add_handler(self._on_workload)
        informers.admission_checks.add_handler(self._on_check)
        informers.multikueue_configs.add_handler(self._on_config)
        informers.multikueue_clusters.add_handler(self._on_cluster)
        informers.local_queues.add_handler(self._on_queue)
        informers.cluster_queues.add_handler(self._on_queue)
        for kind in integrations.kinds:
            self._follow(kind)
        integrations.add_listener(on_added=self._follow)
        fleet.add_listener(
            FleetListener(
                on_remote=self.on_remote, on_connection=self._on_connection, on_room=on_room
            )
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all Workloads that MultiKueue has a part in."""
        return tuple(self._tracked)

    def _follow(self, kind: SupportedKind) -> None:
        integration = kind.integration
        self._informers.jobs[integration.name].add_handler(partial(self._on_job, integration))

    def is_waiting(self, key: str) -> bool:
        """Whether a Workload waits for a cluster."""
        known = self._tracked.get(key)
        return known is not None and known.waits

    def list_waiting(self) -> list[Rank]:
        """Return the ranks of the Workloads that wait for a cluster."""
        return [
            self._global_queue.give_turn(known.rank)
            for known in self._tracked.values()
            if known.waits
        ]

    def ask_all_again(self) -> None:
        """Ask about every waiting Workload again: its dispatcher, or its settings, changed."""
        self.fleet_version += 1
        self._enqueue_all(key for key, known in self._tracked.items() if known.waits)

    def on_remote(self, key: str) -> None:
        """Reconcile a Workload that changed on a worker, and the slices that took over from it.

        Args:
            key: The key of the Workload.
        """
        self._enqueue(key)
        self._enqueue_all(each for each in self._lineage.list_later(key) if each in self._tracked)

    def _on_queue(
        self,
        old: api.LocalQueue | api.ClusterQueue | None,
        new: api.LocalQueue | api.ClusterQueue | None,
    ) -> None:
        """Ask again if a queue names another profile."""
        before, after = (
            "" if each is None else each.metadata.annotations.get(DISPATCH_PROFILE, "")
            for each in (old, new)
        )
        if before != after:
            self.ask_all_again()

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        workload = new or old
        assert workload is not None
        key = workload.metadata.key
        for earlier in self._lineage.list_earlier(workload):
            # The earlier slice's objects on a cluster are taken over or removed with this Workload.
            if any(self._fleet.find_holders(earlier)):
                self._enqueue(earlier)
        if new is None or is_finished(new.status):
            known = self._tracked.pop(key, None)
            self._leave_line(key)
            if known is not None or self._is_known(key):
                self._enqueue(key)
            return
        evicting = is_evicted(new.status) and has_quota(new.status)
        # Ending the eviction of a Workload that lost its check meanwhile is also our task.
        concerns_us = _concerns_us(new)
        if not concerns_us and not evicting and key not in self._tracked:
            return
        holds = has_quota(new.status) and not evicting
        self._tracked[key] = Tracked(
            waits=concerns_us and holds and new.status.cluster_name is None,
            evicting=evicting,
            cluster=new.status.cluster_name,
            rank=_rank(new),
        )
        if not self._tracked[key].waits:
            self._leave_line(key)
        self._enqueue(key)

    def _leave_line(self, key: str) -> None:
        """Let others have the room that was kept for the Workload."""
        if self._global_queue.leave(key):
            self._on_room()

    def _on_job(self, integration: Integration, old: Job | None, new: Job | None) -> None:
        """Reconcile if spec or constraints of the job changed, or whether it runs (M-140)."""
        if new is None or (old is not None and _same_job(integration, old, new)):
            return
        uid = new["metadata"].get("uid", "")
        for workload in self._informers.workloads.store.by_index(BY_OWNER, uid):
            if workload.metadata.key in self._tracked:
                self._enqueue(workload.metadata.key)

    def _on_check(self, old: api.AdmissionCheck | None, new: api.AdmissionCheck | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        check = new or old
        assert check is not None
        if not is_multikueue(check):
            return
        name = check.metadata.name
        for workload in self._informers.workloads.store.by_index(BY_CHECK, name):
            self._on_workload(workload, workload)

    def _on_config(
        self, old: api.MultiKueueConfig | None, new: api.MultiKueueConfig | None
    ) -> None:
        """Reconcile Workloads that wait for clusters if clusters were added or removed (M-70)."""
        config = new or old
        assert config is not None
        if (
            old is not None
            and new is not None
            and (old.spec, old.metadata.annotations) == (new.spec, new.metadata.annotations)
        ):
            return
        self.fleet_version += 1
        informers = self._informers
        for check in informers.admission_checks.store.list():
            parameters = check.spec.parameters
            if parameters is None or parameters.name != config.metadata.name:
                continue
            for workload in informers.workloads.store.by_index(BY_CHECK, check.metadata.name):
                known = self._tracked.get(workload.metadata.key)
                if known is not None and known.waits:
                    self._enqueue(workload.metadata.key)

    def _on_cluster(
        self, old: api.MultiKueueCluster | None, new: api.MultiKueueCluster | None
    ) -> None:
        """Reconcile if labels or annotations changed: the filters depend on them."""
        if old is None or new is None:
            return
        before, after = old.metadata, new.metadata
        if (before.labels, before.annotations) != (after.labels, after.annotations):
            self.ask_all_again()

    def _on_connection(self, name: str) -> None:
        """Reconcile if a worker came, went or serves other job kinds; failed attempts are ignored.

        Deviates: upstream does not offer waiting Workloads to a worker that comes back (M-71,
        #10428).
        """
        connection = self._fleet.find(name)
        # Since when it is lost is news too: who waits for it was told what was known before.
        lost = connection.lost if connection is not None else None
        reach = (self._fleet.find_reach(name), lost)
        if reach == self._reach.get(name):
            return
        self._reach[name] = reach
        self.fleet_version += 1
        self._enqueue_all(
            key
            for key, known in self._tracked.items()
            if known.waits or known.evicting or known.cluster == name
        )

    def _enqueue_all(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self._enqueue(key)


def _concerns_us(workload: api.Workload) -> bool:
    """Whether it has an admission check, which may be ours, or a cluster."""
    status = workload.status
    return bool(status.admission_checks or status.cluster_name or status.nominated_cluster_names)


def _rank(workload: api.Workload) -> Rank:
    metadata = workload.metadata
    return Rank(
        urgency=-effective_priority(workload),
        turn=metadata.creation_timestamp,
        key=metadata.key,
        queue=key_of(metadata.namespace, workload.spec.queue_name),
    )


def _same_job(integration: Integration, old: Job, new: Job) -> bool:
    return bool(
        old["metadata"].get("generation") == new["metadata"].get("generation")
        and old.get("spec") == new.get("spec")
        and integration.is_active(old) == integration.is_active(new)
        and integration.is_suspended(old) == integration.is_suspended(new)
        and read_constraints(old) == read_constraints(new)
    )
