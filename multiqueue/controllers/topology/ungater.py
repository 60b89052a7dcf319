"""The topology ungater: gives pods the node labels of their domain and ungates them (E-147).

An ungated pod is in the informer before the next reconcile of its Workload, so no pod is counted
twice. If a pod changed meanwhile, the write fails and the Workload is reconciled again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import find, is_admitted
from multiqueue.controllers.topology.ungate import Release, decide_releases
from multiqueue.controllers.topology.watch import TopologyWatch
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.machines.pods import BY_WORKLOAD, Pod, read_pod
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import PODS

CONCURRENCY = 8
WRITES_AT_A_TIME = 32
"""Pods written at the same time, over all Workloads; a gang is as slow as its last pod."""


class TopologyUngater:
    """Reconciles Workloads that have gated pods.

    Args:
        context: The manager's context.
        watch: The watch of pods.
    """

    name = "topology-ungater"

    def __init__(self, context: ManagerContext, watch: TopologyWatch) -> None:
        self._context = context
        self._watch = watch
        self._slots = asyncio.Semaphore(WRITES_AT_A_TIME)
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=CONCURRENCY, metrics=context.metrics
        )

    async def run(self) -> None:
        """Reconcile until cancelled, once all pods are known."""
        await wait_settled(self._context.informers.workloads)
        await self._watch.pods.synced.wait()
        self._context.informers.workloads.add_handler(self._on_workload)
        self._watch.pods.add_handler(self._on_pod)
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Ungate the pods of one Workload that may be scheduled."""
        workload = self._context.informers.workloads.store.get(key)
        if workload is None:
            return DONE
        pods = self._watch.pods.store.by_index(BY_WORKLOAD, key)
        failures: list[KubeError] = []
        async with asyncio.TaskGroup() as tasks:
            for release in decide_releases(workload, pods):
                tasks.create_task(self._release(workload, release, failures))
        if failures:
            raise failures[0]
        return DONE

    async def _release(
        self, workload: Workload, release: Release, failures: list[KubeError]
    ) -> None:
        pod = release.pod
        namespace, name = names.split_key(pod.key)
        try:
            async with self._slots:
                answer = await self._context.client.patch(
                    PODS, name, release_patch(release), namespace=namespace, decode=read_pod
                )
        except NotFound:
            return
        except KubeError as error:
            failures.append(error)
            return
        self._watch.pods.observe(answer)
        self._measure(workload, pod)

    def _measure(self, workload: Workload, pod: Pod) -> None:
        admitted = find(workload.status, WorkloadCondition.ADMITTED)
        created, admission = parse_time(pod.created_at), workload.status.admission
        if admitted is None or created is None or admission is None:
            return
        since = max(created, admitted.transitioned_at)
        is_group = workload.metadata.annotations.get(names.IS_GROUP_WORKLOAD) == "true"
        self._context.metrics.pod_scheduling_gate_removal_seconds.child(
            names.TOPOLOGY_GATE, admission.cluster_queue, str(is_group).lower()
        ).observe(max(0.0, (self._context.clock.now() - since).total_seconds()))

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        del old
        if new is None or not is_admitted(new.status):
            return
        key = new.metadata.key
        if any(pod.is_gated for pod in self._watch.pods.store.by_index(BY_WORKLOAD, key)):
            self._reconciler.queue.add(key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        # A deleted pod leaves its place to another one.
        if pod is not None and pod.workload and (new is None or new.is_gated):
            self._reconciler.queue.add(pod.workload)


def release_patch(release: Release) -> dict[str, Any]:
    """Return the merge patch that sets a pod's node labels and removes our gate."""
    pod = release.pod
    others = [{"name": gate} for gate in pod.gates if gate != names.TOPOLOGY_GATE]
    return {
        "metadata": {"uid": pod.uid, "resourceVersion": str(pod.version)},
        "spec": {"nodeSelector": dict(release.selector), "schedulingGates": others or None},
    }
