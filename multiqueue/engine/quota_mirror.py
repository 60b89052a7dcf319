"""The part of the engine that mirrors quotas: flavors, queues, cohorts, checks, namespaces."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.engine.fairness.usage_ledger import UsageLedger
from multiqueue.engine.remote import FleetOracle
from multiqueue.engine.tas.mirror import TopologyMirror
from multiqueue.engine.world import World
from multiqueue.model.cluster_queue import AdmissionCheckInfo, ClusterQueue, Cohort
from multiqueue.model.resource_flavor import ResourceFlavor


class QuotaMirror(TopologyMirror):
    """Takes in what says how much there is and for whom; the engine is one."""

    _world: World
    usage: UsageLedger | None

    def upsert_resource_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or change a ResourceFlavor."""
        self._wake(self._cache.set_flavor(flavor.name, flavor))

    def delete_resource_flavor(self, name: str) -> None:
        """Remove a ResourceFlavor; queues that name it become inactive."""
        self._wake(self._cache.set_flavor(name, None))

    def upsert_cluster_queue(self, cluster_queue: ClusterQueue) -> None:
        """Add or change a ClusterQueue."""
        touched = self._cache.upsert_cluster_queue(cluster_queue)
        self._openings.upsert_cluster_queue(cluster_queue)
        self._world.second_pass.follow_cluster_queue(cluster_queue.name)
        if self.usage is not None:
            self.usage.follow_cluster_queue(cluster_queue.name)
        self._wake(touched)

    def delete_cluster_queue(self, name: str) -> None:
        """Remove a ClusterQueue; its workloads wait for another one of that name."""
        self._openings.delete_cluster_queue(name)
        self._wake(self._cache.delete_cluster_queue(name))

    def upsert_cohort(self, cohort: Cohort) -> None:
        """Add or change a Cohort."""
        self._wake(self._cache.upsert_cohort(cohort))

    def delete_cohort(self, name: str) -> None:
        """Remove a Cohort; what refers to it stays together without its quota."""
        self._wake(self._cache.delete_cohort(name))

    def upsert_admission_check(self, check: AdmissionCheckInfo) -> None:
        """Add or change an AdmissionCheck."""
        self._wake(self._cache.set_check(check.name, check))

    def delete_admission_check(self, name: str) -> None:
        """Remove an AdmissionCheck; queues that name it become inactive."""
        self._wake(self._cache.set_check(name, None))

    def ask_fleet(self, oracle: FleetOracle) -> None:
        """Ask this before quota is reserved for what would run on other clusters."""
        self._world.fleet.oracle = oracle
        self.fleet_changed()

    def fleet_changed(self) -> None:
        """Note that the oracle may answer otherwise: what it kept waiting is looked at again."""
        self._wake(self._cache.touch_remote())

    def upsert_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change a namespace; its workloads wait until it is known."""
        self._wake(self._cache.set_namespace(name, dict(labels)))

    def delete_namespace(self, name: str) -> None:
        """Remove a namespace."""
        self._cache.set_namespace(name, None)
