"""The simulated kubelets: one reconciler that starts and ends the pods of all simulated nodes."""

from __future__ import annotations

from typing import Any

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.embedded.cluster import lifecycle
from multiqueue.embedded.cluster.clock import SimClock
from multiqueue.embedded.cluster.lifecycle import PodAction, PodPace, PodRun
from multiqueue.embedded.cluster.objects import (
    Object,
    SimInformers,
    delete_pod,
    key_of,
    patch_status,
)
from multiqueue.embedded.cluster.placement import is_ready
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.errors import Conflict, NotFound
from multiqueue.kube.reconciler import Reconciler, Result
from multiqueue.kube.resources import PODS

CONCURRENCY = 16


class Kubelet:
    """Starts, ends and removes pods that are bound to one of the simulated nodes."""

    name = "sim-kubelet"

    def __init__(
        self,
        client: KubeClient,
        informers: SimInformers,
        clock: SimClock,
        *,
        node_names: set[str],
        pace: PodPace,
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._node_names = node_names
        self._pace = pace
        self._runs: dict[str, PodRun] = {}
        self._reconciler = Reconciler(self.name, self.reconcile, concurrency=CONCURRENCY)
        informers.pods.add_handler(self._on_pod)
        informers.nodes.add_handler(self._on_node)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informers.pods.synced.wait()
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Take the next step with one pod, if it is due."""
        pod = self._informers.pods.store.get(key)
        if pod is None or not self._is_ours(pod):
            return Result()
        run = self._run_of(pod)
        step = lifecycle.decide_step(pod, run, pace=self._pace, now=self._clock.seconds())
        try:
            await self._take(step.action, pod, run)
        except (NotFound, Conflict):
            return Result()  # replaced or gone: another event follows
        if step.wait_seconds is not None:
            return Result(requeue_after=self._clock.real_seconds(step.wait_seconds))
        if step.action is PodAction.NOTHING or step.action is PodAction.REMOVE:
            return Result()
        again = lifecycle.decide_step(
            self._informers.pods.store.get(key) or pod,
            run,
            pace=self._pace,
            now=self._clock.seconds(),
        )
        wait = again.wait_seconds
        return Result(requeue_after=None if wait is None else self._clock.real_seconds(wait))

    async def _take(self, action: PodAction, pod: Object, run: PodRun) -> None:
        now, code = self._clock.now(), lifecycle.exit_code(pod)
        match action:
            case PodAction.START:
                run.started_at = self._clock.seconds()
                await self._report(pod, lifecycle.running_status(pod, now=now))
            case PodAction.RESTART:
                run.started_at, run.restart_at = self._clock.seconds(), None
                status = lifecycle.running_status(pod, now=now, restarts=run.restarts)
                await self._report(pod, status)
            case PodAction.FINISH if lifecycle.restarts_in_place(pod, code):
                run.restart_at = self._clock.seconds() + lifecycle.restart_delay(run.restarts)
                run.restarts += 1
                status = lifecycle.crashed_status(pod, code, now=now, restarts=run.restarts)
                await self._report(pod, status)
            case PodAction.FINISH:
                status = lifecycle.finished_status(pod, code, now=now, restarts=run.restarts)
                await self._report(pod, status)
            case PodAction.REMOVE:
                await delete_pod(self._client, pod, grace_seconds=0)
            case PodAction.NOTHING:
                pass

    async def _report(self, pod: Object, status: dict[str, Any]) -> None:
        self._informers.pods.observe(
            await patch_status(self._client, PODS, pod, status, patch_type=PatchType.STRATEGIC)
        )

    def _is_ours(self, pod: Object) -> bool:
        node = pod["spec"].get("nodeName")
        # A pod that was never bound has no kubelet, so its deletion is completed here.
        return node in self._node_names or (
            not node and bool(pod["metadata"].get("deletionTimestamp"))
        )

    def _run_of(self, pod: Object) -> PodRun:
        uid, seconds = pod["metadata"]["uid"], self._clock.seconds()
        run = self._runs.get(uid)
        if run is None:
            run = self._runs[uid] = PodRun(bound_at=seconds, started_at=self._started_before(pod))
        if pod["metadata"].get("deletionTimestamp") and run.stopping_at is None:
            run.stopping_at = seconds
        return run

    def _started_before(self, pod: Object) -> float | None:
        """Return when a pod was started by an earlier run of this process, or None."""
        moment = parse_time(lifecycle.started_at(pod))
        if moment is None:
            return None
        age = (self._clock.now() - moment).total_seconds()
        return self._clock.seconds() - age * self._clock.speed

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        """Reconcile the pods of a node that came back."""
        if old is None or new is None or is_ready(old) or not is_ready(new):
            return
        name = new["metadata"]["name"]
        for pod in self._informers.pods.store.list():
            if pod["spec"].get("nodeName") == name:
                self._reconciler.queue.add(key_of(pod))

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            if self._is_ours(new):
                self._reconciler.queue.add(key_of(new))
        elif old is not None:
            self._runs.pop(old["metadata"]["uid"], None)
