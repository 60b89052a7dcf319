"""The part of the engine's facade that is about topologies and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multiqueue.engine.agenda import Agenda
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.ledger import Ledger
from multiqueue.engine.openings import Openings
from multiqueue.lib.amount import Amount
from multiqueue.model.resource_flavor import Topology
from multiqueue.model.topology import Node
from multiqueue.model.workload import Admission


class TopologyMirror:
    """Takes in topologies, nodes and what runs on them; the engine is one."""

    _cache: Cache
    _agenda: Agenda
    _ledger: Ledger
    _openings: Openings

    def upsert_topology(self, topology: Topology) -> None:
        """Add or change a Topology."""
        self._wake(self._cache.set_topology(topology.name, topology))

    def delete_topology(self, name: str) -> None:
        """Remove a Topology; queues whose flavors name it become inactive."""
        self._wake(self._cache.set_topology(name, None))

    def upsert_node(self, node: Node) -> None:
        """Add or change a node; what waits for a topology with it is woken (E-27)."""
        self._wake_placers(self._cache.set_node(node.name, node))

    def delete_node(self, name: str) -> None:
        """Remove a node."""
        self._wake_placers(self._cache.set_node(name, None))

    def set_pod_usage(self, key: str, node: str, requests: Mapping[str, Amount] | None) -> None:
        """Note what a running pod takes of its node that no topology placed there (E-130).

        Args:
            key: ``namespace/name`` of the pod.
            node: where it runs.
            requests: what it requests, without the ``pods`` that it counts as; None once it ended.
        """
        self._wake_placers(self._cache.set_pod(key, node, requests))

    def places_written(self, key: str, admission: Admission) -> None:
        """Note that the new places of a workload were written."""
        if self._ledger.placing.get(key) is admission:  # else it is decided on anew
            del self._ledger.placing[key]

    def _wake_placers(self, touched: Iterable[str]) -> None:
        for key in sorted(touched):
            tree = self._cache.trees[key]
            self._agenda.poke(key, tree.queues)
            self._agenda.tree(key).parked.update(tree.queues)
            self._agenda.notify(key)

    def _wake(self, touched: Iterable[str]) -> None:
        """Look again at trees in which a spec changed, and wake what is parked there (E-27)."""
        for key in sorted(touched):
            tree = self._cache.trees.get(key)
            if tree is None:
                self._agenda.forget_tree(key)
                continue
            self._agenda.poke(key, tree.queues)
            self._agenda.tree(key).parked.update(tree.queues)
            self._agenda.notify(key)
            self._ledger.changed_cluster_queues.update(tree.queues)
            self._openings.touch_local_queues(tree.queues)
