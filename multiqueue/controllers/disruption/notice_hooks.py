"""Posts notices to the hooks of jobs: the annotation ``multiqueue.dev/checkpoint-hook`` (P-55).

Pods read an annotation a minute or two late, and pods on workers are not annotated at all. A hook
is told within seconds: it is a Service in the namespace of the job, on the cluster where the job
runs, and the API server of that cluster passes the post on. The policy of the ClusterQueue has to
allow it. A post is repeated until it is answered or the notice is over; a hook that does not answer
makes no notice longer. `AT_A_TIME` posts are under way at most, so hooks that hang delay others by
seconds once there are more of them.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from multiqueue.api.declarations import parse_hook
from multiqueue.api.names import CHECKPOINT_HOOK
from multiqueue.api.v1beta2 import Workload
from multiqueue.controllers.disruption.notice_teller import find_end
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.fleet_gate import FleetGate
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, Forbidden, KubeError
from multiqueue.kube.reconciler import DONE, Reconciler, Result

TIMEOUT_SECONDS = 2.0
AT_A_TIME = 100
RETRY_SECONDS = 5.0
CONNECT_SECONDS = 10.0
"""After a start, workers have so long to be connected before they count as out of reach."""


class PostFailure(NamedTuple):
    """Why a post was no success.

    Attributes:
        kind: What it is told once for: a Service may word each answer differently.
        words: The same for people.
    """

    kind: str
    words: str


class NoticeHooks:
    """Posts ``{"checkpointBy": "2026-11-22T10:05:00Z"}`` to the hooks of jobs with a notice.

    A new leader posts once more, because nothing about posts is stored.

    Args:
        context: The manager's context.
        fleet: Finds the clients of workers.
    """

    name = "notice-hooks"

    def __init__(self, context: ManagerContext, fleet: FleetGate) -> None:
        self._context = context
        self._fleet = fleet
        self._told: dict[str, str] = {}
        self._connecting_until = 0.0
        self._reconciler: Reconciler[str] = Reconciler(
            self.name, self.reconcile, concurrency=AT_A_TIME, metrics=context.metrics
        )
        context.informers.workloads.add_handler(self._on_workload)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = self._context.informers
        await wait_settled(
            informers.workloads,
            informers.disruption_policies,
            informers.cluster_queues,
            informers.cohorts,
        )
        self._connecting_until = asyncio.get_running_loop().time() + CONNECT_SECONDS
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Post the notice of one Workload; it is due when a notice begins, changes or ends."""
        workload = self._context.informers.workloads.store.get(key)
        hook, by = _find_due(workload)
        if workload is None or not by:
            self._told.pop(key, None)
            return DONE
        cluster = workload.status.cluster_name
        client = self._fleet.find_client(cluster) if cluster else self._context.client
        if client is None and asyncio.get_running_loop().time() < self._connecting_until:
            return Result(requeue_after=1.0)
        failure = await self._post(workload, hook, by, client)
        if failure is None:
            self._told.pop(key, None)
            return DONE
        if self._told.get(key) != failure.kind:
            self._told[key] = failure.kind
            words = f"the notice did not reach the hook: {failure.words}"
            reference = workload_reference(workload)
            self._context.recorder.event(reference, "Warning", "CheckpointHookFailed", words)
        return Result(requeue_after=RETRY_SECONDS)

    async def _post(
        self, workload: Workload, text: str, by: str, client: KubeClient | None
    ) -> PostFailure | None:
        """Post a notice once; return why that was no success."""
        try:
            hook = parse_hook(text)
        except ValueError as error:
            words = f"metadata.annotations[{CHECKPOINT_HOOK}] is malformed: {error}"
            return PostFailure(words, words)
        admission, cluster = workload.status.admission, workload.status.cluster_name
        queue = admission.cluster_queue if admission is not None else ""
        if not self._is_allowed(queue):
            words = f"no DisruptionPolicy with notice.hooks: true governs ClusterQueue {queue}"
            return PostFailure(words, words)
        if client is None:
            words = f"worker {cluster} is out of reach"
            return PostFailure(words, words)
        try:
            status = await client.post_to_service(
                workload.metadata.namespace,
                hook.service,
                hook.path,
                {"checkpointBy": by},
                timeout=TIMEOUT_SECONDS,
            )
        except Forbidden as error:
            role = (
                "config/worker-role-hooks on the worker" if cluster else "config/checkpoint-hooks"
            )
            words = f"{error}; if it is the manager that may not do that, apply {role}"
            return PostFailure("forbidden", words)
        except ApiError as error:
            return PostFailure(f"status {error.status}", str(error))
        except KubeError as error:
            return PostFailure(type(error).__name__, str(error))
        if status < 300:
            return None
        return PostFailure(f"status {status}", f"it answered with status {status}")

    def _is_allowed(self, queue: str) -> bool:
        policy = self._context.informers.find_disruption_policy(queue)
        return policy is not None and policy.spec.notice.hooks

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        newest = new or old
        if newest is not None and _find_due(old) != _find_due(new):
            self._reconciler.queue.add(newest.metadata.key)


def _find_due(workload: Workload | None) -> tuple[str, str]:
    """Return the hook of a Workload and when its notice ends; both empty unless it has both."""
    hook = workload.metadata.annotations.get(CHECKPOINT_HOOK, "") if workload is not None else ""
    by = find_end(workload) if workload is not None and hook else ""
    return (hook, by) if by else ("", "")
