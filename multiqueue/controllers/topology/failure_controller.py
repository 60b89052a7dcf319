"""Detects failed nodes of Workloads whose pods a topology placed there (E-148, E-149).

Writes ``status.unhealthyNodes``, so that the engine finds another node; evicts if a second node
fails; ends pods that wait for a failed node. Only nodes that are a topology level of their own can
fail: in wider domains, pods find another node by themselves.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.v1beta2.meta import Toleration, format_time
from multiqueue.controllers.topology.failures import (
    FailureRules,
    NodeFailureVerdict,
    NodeHealth,
    Placed,
    judge,
    judged_status,
)
from multiqueue.controllers.topology.placements import PlacementIndex, find_hosts, pod_sets_on
from multiqueue.controllers.topology.watch import TopologyWatch
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.pod_set_info import (
    FlavorNotFoundError,
    StartConflictError,
    build_infos,
)
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.machines.nodes import BY_HOSTNAME, WatchedNode
from multiqueue.jobs.machines.pods import BY_PINNED_NODE, BY_WORKLOAD, Pod
from multiqueue.kube.client import PatchType
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import PODS
from multiqueue.model.placement import build_placement
from multiqueue.model.topology import HOSTNAME

CONCURRENCY = 4
TERMINATED = "TerminatedByKueue"
TERMINATED_REASON = "UnschedulableOnAssignedNode"
TERMINATED_MESSAGE = "The pod waits for a node that it can no longer run on"


class NodeFailureController:
    """Reconciles hosts.

    context: The manager's context.
    watch: The watch of nodes and pods.
    """

    name = "node-failures"

    def __init__(self, context: ManagerContext, watch: TopologyWatch) -> None:
        self._context = context
        self._watch = watch
        self._rules = FailureRules.from_gates(context.config.gates)
        self.placements = PlacementIndex()
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=CONCURRENCY, metrics=context.metrics
        )

    async def run(self) -> None:
        """Reconcile until cancelled, once nodes and pods are known."""
        informers = self._context.informers
        await wait_settled(informers.workloads, informers.resource_flavors)
        await self._watch.until_known()
        informers.workloads.add_handler(self._on_workload)
        self._watch.nodes.add_handler(self._on_node)
        self._watch.pods.add_handler(self._on_pod)
        await self._reconciler.run()

    async def reconcile(self, host: str) -> Result:
        """Judge one host for every Workload with pods placed there."""
        pinned = self._watch.pods.store.by_index(BY_PINNED_NODE, host)
        keys = {*self.placements.on(host), *(pod.workload for pod in pinned)}
        waits: list[timedelta] = []
        errors: list[Exception] = []
        for key in sorted(keys):
            try:
                wait = await self._reconcile_one(key, host)
            except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
                errors.append(error)
            else:
                waits += [wait] if wait is not None else []
        if errors:
            raise errors[0]
        return Result(requeue_after=min(waits).total_seconds()) if waits else DONE

    async def _reconcile_one(self, key: str, host: str) -> timedelta | None:
        """Judge the host for one Workload; return when to check again."""
        workload = self._context.informers.workloads.store.get(key)
        if workload is None:
            return None
        verdict = self._judge(workload, host)
        await self._write(workload, host, verdict)
        return verdict.ask_again

    def _judge(self, workload: Workload, host: str) -> NodeFailureVerdict:
        pods = self._watch.pods.store.by_index(BY_WORKLOAD, workload.metadata.key)
        try:
            tolerations = self._tolerations(workload, host)
        except (FlavorNotFoundError, StartConflictError):
            return NodeFailureVerdict(health=NodeHealth.UNDECIDED)
        placed = Placed(
            assigned=host in find_hosts(workload),
            tolerations=tolerations,
            pods=tuple(pod for pod in pods if self._is_on(pod, host)),
        )
        return judge(self._find_node(host), placed, self._rules, self._context.clock.now())

    def _tolerations(self, workload: Workload, host: str) -> list[tuple[Toleration, ...]]:
        """Return the tolerations of the pod sets on the host, with those from their admission."""
        members = pod_sets_on(workload, host)
        if not members:
            return []
        infos = build_infos(workload, self._context.informers.resource_flavors.store.get)
        return [
            (*build_placement(pod_set.template).tolerations, *info.tolerations)
            for pod_set, info in zip(workload.spec.pod_sets, infos, strict=True)
            if pod_set.name in members
        ]

    async def _write(self, workload: Workload, host: str, verdict: NodeFailureVerdict) -> None:
        def change(newest: Workload) -> WorkloadStatus:
            health = verdict.health
            if newest.metadata.uid != workload.metadata.uid or (
                health is NodeHealth.UNHEALTHY and host not in find_hosts(newest)
            ):
                return newest.status
            return judged_status(
                newest.status,
                host,
                health,
                now=self._context.clock.now(),
                generation=newest.metadata.generation,
            )

        if change(workload) != workload.status:
            try:
                await self._context.writer.update_status(workload.metadata.key, change)
            except NotFound:
                return
        for pod in verdict.doomed:
            await self._end(pod)

    async def _end(self, pod: Pod) -> None:
        namespace, name = names.split_key(pod.key)
        condition = {
            "type": TERMINATED,
            "status": "True",
            "reason": TERMINATED_REASON,
            "message": TERMINATED_MESSAGE,
            "lastTransitionTime": format_time(self._context.clock.now()),
        }
        patch: dict[str, Any] = {
            "metadata": {"uid": pod.uid},
            "status": {"phase": "Failed", "conditions": [condition]},
        }
        try:
            await self._context.client.patch(
                PODS,
                name,
                patch,
                namespace=namespace,
                subresource="status",
                patch_type=PatchType.STRATEGIC,
            )
        except NotFound:
            return
        self._context.recorder.event(
            {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name}
            | {"uid": pod.uid},
            "Normal",
            "PodTerminatedByKueue",
            TERMINATED_MESSAGE,
        )

    def _find_node(self, host: str) -> WatchedNode | None:
        return next(iter(self._watch.nodes.store.by_index(BY_HOSTNAME, host)), None)

    def _is_on(self, pod: Pod, host: str) -> bool:
        return self._host_of(pod) == host

    def _host_of(self, pod: Pod) -> str:
        node = self._watch.nodes.store.get(pod.node) if pod.node else None
        return node.hostname if node is not None else pod.selector.get(HOSTNAME, pod.node)

    def _on_node(self, old: WatchedNode | None, new: WatchedNode | None) -> None:
        if old is not None and new is not None and _signs(old) == _signs(new):
            return
        for node in (old, new):
            if node is not None:
                self._reconciler.queue.add(node.hostname)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        assert workload is not None, "an event has an object"
        if old is not None and new is not None and _placement(old) == _placement(new):
            return
        for host in self.placements.set(workload.metadata.key, find_hosts(new)):
            node = self._find_node(host)
            if node is None or not node.node.ready or node.node.taints:
                self._reconciler.queue.add(host)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and pod.workload and (new is None or new.terminating or new.is_stuck):
            host = self._host_of(pod)
            if host:
                self._reconciler.queue.add(host)


def _signs(node: WatchedNode) -> tuple[object, ...]:
    """Return the fields that decide whether a node has failed."""
    return (node.hostname, node.reports, node.unready_since, node.node.taints, node.uid)


def _placement(workload: Workload) -> tuple[object, ...]:
    status = workload.status
    conditions = tuple(c for c in status.conditions if c.type in {"QuotaReserved", "Finished"})
    return (status.admission, status.cluster_name, conditions)
