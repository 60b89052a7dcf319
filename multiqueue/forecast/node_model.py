"""The nodes of a worker, and what they mean for gangs with topology requests. Pure.

While the nodes are unknown, flavors count as if they had no topology, and forecasts for topology
requests say so. Once they are known, the replica's engine places pods as the worker's engine does.
One difference remains: the worker's configuration may transform or add requests of the pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from multiqueue.api.conditions import Reason
from multiqueue.engine.eligibility import refuse_placement, wants_topology
from multiqueue.engine.engine import Engine
from multiqueue.engine.flavors.assignment import Assignment, Mode, PodSetResult
from multiqueue.engine.flavors.topology_phase import TopologyPhase, TopologyPlaces
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.pending_reasons import FlavorAttempt, TopologyPlacement
from multiqueue.engine.tas.forest import Forest
from multiqueue.engine.what_if import Trial
from multiqueue.lib.amount import Amount
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import Node
from multiqueue.model.workload import Workload
from multiqueue.plugins.forecast import Forecast, Prospect

NODES_UNKNOWN = "whether its nodes have the places is not known"
PODS_UNKNOWN = "what other pods take of its nodes is not known"
_HOPELESS = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR})
_WITH_ROOM = frozenset({Prospect.FITS, Prospect.BORROWS, Prospect.PREEMPTS})


class NodeModel:
    """What is known of the nodes of a worker.

    Args:
        engine: The replica's engine, which gets all changes.

    Attributes:
        changes: Grows with every change of flavors.
        revision: Grows with every change that may affect where there is room.
    """

    def __init__(self, engine: Engine) -> None:
        self.changes = 0
        self.revision = 0
        self._engine = engine
        self._flavors: dict[str, ResourceFlavor] = {}
        self._sees_nodes = False
        self._sees_pods = False
        self._empty = Forest()  # the same nodes with nothing on them

    @property
    def is_wanted(self) -> bool:
        """Whether any flavor has a topology."""
        return any(flavor.topology_name for flavor in self._flavors.values())

    @property
    def is_known(self) -> bool:
        """Whether the replica knows where pods can be placed."""
        return self._sees_nodes or not self.is_wanted

    def see(self, *, nodes: bool, pods: bool) -> None:
        """Set what is known from now on: topologies and nodes, and the pods on them."""
        self.revision += 1
        self._sees_pods = pods
        if nodes != self._sees_nodes:
            self._sees_nodes = nodes
            for flavor in self._flavors.values():
                self._tell(flavor)

    # ------------------------------------------------------------ flavors and nodes

    def upsert_flavor(self, flavor: ResourceFlavor) -> None:
        """Add or change a ResourceFlavor."""
        self._flavors[flavor.name] = flavor
        self._empty.set_flavor(flavor.name, flavor)
        self._tell(flavor)

    def delete_flavor(self, name: str) -> None:
        """Remove a ResourceFlavor."""
        self._flavors.pop(name, None)
        self._empty.set_flavor(name, None)
        self._engine.delete_resource_flavor(name)
        self.changes += 1

    def upsert_topology(self, topology: Topology) -> None:
        """Add or change a Topology."""
        self.revision += 1
        self._empty.set_topology(topology.name, topology)
        self._engine.upsert_topology(topology)

    def delete_topology(self, name: str) -> None:
        """Remove a Topology."""
        self.revision += 1
        self._empty.set_topology(name, None)
        self._engine.delete_topology(name)

    def upsert_node(self, node: Node) -> None:
        """Add or change a node."""
        # A node that is cordoned or not ready may return before any Workload ends.
        touched = self._empty.set_node(node.name, replace(node, ready=True, schedulable=True))
        self.revision += bool(touched)
        self._engine.upsert_node(node)

    def delete_node(self, name: str) -> None:
        """Remove a node."""
        self.revision += bool(self._empty.set_node(name, None))
        self._engine.delete_node(name)

    def set_pod_usage(self, key: str, node: str, requests: Mapping[str, Amount] | None) -> None:
        """Set what a pod without topology placement uses of a node; None: nothing any more."""
        self._engine.set_pod_usage(key, node, requests)

    def _tell(self, flavor: ResourceFlavor) -> None:
        self.changes += 1
        known = flavor if self._sees_nodes else replace(flavor, topology_name=None)
        self._engine.upsert_resource_flavor(known)

    # ------------------------------------------------------------ forecasts

    def qualify(self, found: Forecast, trial: Trial, workload: Workload) -> Forecast:
        """Add to a forecast what is not known of the nodes; room for a gang may then be unknown.

        Args:
            found: The forecast from quota and known nodes.
            trial: The engine's verdict behind that forecast.
            workload: The Workload that asks, with its topology requests.
        """
        if found.prospect not in _WITH_ROOM:
            return found
        names = set(trial.queue.flavors())
        topologies = {f.topology_name for f in self._flavors.values() if f.name in names}
        if topologies <= {None}:
            return found
        if not self.is_known:
            found = replace(found, reason=f"{found.reason}; {NODES_UNKNOWN}")
            if not any(map(wants_topology, workload.pod_sets)):
                return found
            return replace(found, prospect=Prospect.UNKNOWN, start=None)
        if not self._sees_pods:
            return replace(found, reason=f"{found.reason}; {PODS_UNKNOWN}")
        return found

    def is_hopeless(self, trial: Trial) -> bool:
        """Whether pods without a place would find none even on empty nodes.

        The engine disregards pods that topologies placed; here, all other pods may end as well.
        """
        failed = _failed_places(trial)
        if failed is None:
            return False
        assignment, refused = failed
        phase = TopologyPhase(
            forest=self._empty, flavors=self._flavors, implied=trial.queue.has_only_topologies
        )
        return not isinstance(phase.find(assignment), TopologyPlaces) and not any(
            self._has_other_flavor(trial, result) for result in refused
        )

    def _has_other_flavor(self, trial: Trial, result: PodSetResult) -> bool:
        """Whether another flavor is possible, once its first choice has no quota left."""
        explanation = result.explanation
        assert explanation is not None, "it was refused"
        attempts = {attempt.flavor: attempt for attempt in explanation.groups[-1]}
        for group in trial.queue.spec.resource_groups:
            names = [item.name for item in group.flavors]
            if not any(_is_place(attempts.get(name)) for name in names):
                continue
            for name in names:
                flavor, attempt = self._flavors.get(name), attempts.get(name)
                if flavor is None or _is_place(attempt):
                    continue
                if attempt is not None and attempt.reason in _HOPELESS:
                    continue
                if refuse_placement(flavor, result.pod_set.placement) is None:
                    return True
        return False


def _failed_places(trial: Trial) -> tuple[Assignment, list[PodSetResult]] | None:
    """Return the assignment and its pod sets without a place; None if all have one."""
    verdict = trial.verdict
    if not isinstance(verdict, Nominated) or verdict.assignment.mode is not Mode.NO_FIT:
        return None
    refused = [
        result
        for result in verdict.assignment.pod_sets
        if result.explanation is not None
        and result.explanation.groups
        and any(map(_is_place, result.explanation.groups[-1]))
    ]
    return (verdict.assignment, refused) if refused else None


def _is_place(attempt: FlavorAttempt | None) -> bool:
    return attempt is not None and any(
        isinstance(refusal, TopologyPlacement) for refusal in attempt.refusals
    )
