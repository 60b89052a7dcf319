"""A manager and its workers, each an API server in this process, for integration tests.

`multikueue_world` starts the control planes; `MultiKueueWorld.manager()` runs a manager's
controllers, and ending that is as good as killing one. Workers either run the same program's
controllers (`MultiKueueWorld.worker()`) or are played by hand: `admit`, `evict`, `finish_job`.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from multiqueue_dispatchers.all_at_once import AllAtOnce
from multiqueue_dispatchers.external import External
from multiqueue_dispatchers.incremental import Incremental
from multiqueue_dispatchers.score import Score

from multiqueue.api import names, workload_state
from multiqueue.api.conditions import ACTIVE, CheckState, find_condition
from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Admission, PodSetAssignment, Workload, WorkloadStatus
from multiqueue.controllers.declared.catalog import DeclaredKinds
from multiqueue.controllers.declared.controller import DeclaredJobs
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.controllers.setup import build_controllers
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.jobs.context import ManagerContext, Runnable
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.setup import build_registry
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from multiqueue.kube.call_thread import OpenThread, PluginThread
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.errors import NotFound
from multiqueue.kube.events import EventRecorder
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.plugins import Dispatcher
from multiqueue.runtime.multikueue import MultiKueueParts, build_multikueue
from multiqueue.runtime.preconditions import list_informers
from multiqueue.workers.kubeconfigs.credentials import PATH_PREFIX
from tests.builders.queues import GPU, make_gpu_flavor, make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.fleet.inline_thread import InlineThread
from tests.guarded_transport import Audit
from tests.least_privilege import REMOTE_TOKEN, kubeconfig_of
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster, tasks
from tests.tcp_gate import Gate, gate_to
from tests.virtual_time import is_virtual, loop_clock
from tests.waiting import Changes

CHECK = "multikueue"
BUILT_IN: Mapping[str, Dispatcher] = {
    "all-at-once": AllAtOnce(),
    names.DISPATCHER_ALL_AT_ONCE: AllAtOnce(),
    "external": External(),
    "incremental": Incremental(),
    "score": Score(),
}


def make_config(*, of: Configuration = CONFIG, **multi_kueue: Any) -> Configuration:
    """A configuration with these multiKueue settings; times are short."""
    settings = {"worker_lost_timeout": timedelta(seconds=2), **multi_kueue}
    section = msgspec.structs.replace(of.multi_kueue, **settings)
    return msgspec.structs.replace(of, multi_kueue=section)


def record_warnings(context: ManagerContext) -> list[str]:
    """Return a list that gets the messages of MultiKueue's Warnings about Workloads."""
    warnings: list[str] = []
    event = context.recorder.event

    def listen(regarding: Mapping[str, str], kind: str, reason: str, message: str) -> None:
        if (regarding["kind"], kind, reason) == ("Workload", "Warning", "MultiKueue"):
            warnings.append(message)
        event(regarding, kind, reason, message)

    context.recorder.event = listen  # type: ignore[method-assign]
    return warnings


class MultiKueueWorld:
    """A manager cluster and worker clusters."""

    def __init__(
        self,
        hub: QueueCluster,
        workers: dict[str, QueueCluster],
        gates: dict[str, Gate],
        side_gates: dict[str, Gate],
    ) -> None:
        self.hub = hub
        self.workers = workers
        self.gates = gates
        self.side_gates = side_gates
        self.multikueue: MultiKueueParts  # of the manager that was started last
        self.changes = Changes(
            hub.informers.multikueue_clusters,
            hub.informers.admission_checks,
            hub.informers.workloads,
        )

    # ------------------------------------------------------------ setting up

    async def add_worker(self, name: str, *, kubeconfig: Any = None) -> None:
        """Register a worker: its Secret and its MultiKueueCluster."""
        await self.put_secret(name, self.kubeconfig(name) if kubeconfig is None else kubeconfig)
        await self.hub.create(
            resources.MULTIKUEUE_CLUSTERS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "MultiKueueCluster",
                "metadata": {"name": name},
                "spec": {"clusterSource": {"kubeConfig": {"location": name}}},
            },
        )

    def kubeconfig(self, name: str, **changes: Any) -> dict[str, Any]:
        """A manager's kubeconfig of a worker, through its gate; ``changes`` are of its user."""
        return self._kubeconfig(name, self.gates[name], **changes)

    def other_kubeconfig(self, name: str, **changes: Any) -> dict[str, Any]:
        """The same under another address, whose gate nobody closes."""
        return self._kubeconfig(name, self.side_gates[name], **changes)

    def _kubeconfig(self, name: str, gate: Gate, **changes: Any) -> dict[str, Any]:
        config = kubeconfig_of(deepcopy(self.workers[name].server.kubeconfig()), REMOTE_TOKEN)
        config["clusters"][0]["cluster"] = gate.cluster
        config["users"][0]["user"].update(changes)
        return config

    async def put_secret(self, name: str, kubeconfig: Any) -> None:
        """Create or replace the Secret with a worker's kubeconfig."""
        text = kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig)
        data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
        try:
            await self.hub.patch(
                resources.SECRETS, name, {"data": data}, namespace=CONFIG.namespace
            )
        except NotFound:
            await self.hub.create(
                resources.SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": name, "namespace": CONFIG.namespace},
                    "data": data,
                },
            )

    async def set_clusters(self, *clusters: str) -> None:
        """Make the MultiKueueConfig list these clusters."""
        spec = {"clusters": list(clusters)}
        try:
            await self.hub.patch(resources.MULTIKUEUE_CONFIGS, "fleet", {"spec": spec})
        except NotFound:
            await self.hub.create(
                resources.MULTIKUEUE_CONFIGS,
                {
                    "apiVersion": names.V1BETA2,
                    "kind": "MultiKueueConfig",
                    "metadata": {"name": "fleet"},
                    "spec": spec,
                },
            )

    async def make_check(self) -> None:
        await self.hub.create(
            resources.ADMISSION_CHECKS,
            {
                "apiVersion": names.V1BETA2,
                "kind": "AdmissionCheck",
                "metadata": {"name": CHECK},
                "spec": {
                    "controllerName": names.MULTIKUEUE_CONTROLLER,
                    "parameters": {
                        "apiGroup": names.GROUP,
                        "kind": "MultiKueueConfig",
                        "name": "fleet",
                    },
                },
            },
        )

    async def make_queues(
        self,
        cluster: QueueCluster,
        gpus: int,
        *,
        checks: tuple[str, ...] = (),
        flavor: str = "gpu",
        **labels: str,
    ) -> None:
        await cluster.create(resources.RESOURCE_FLAVORS, make_gpu_flavor(flavor, **labels))
        await cluster.create(
            resources.CLUSTER_QUEUES, make_gpu_queue(gpus, flavor=flavor, checks=checks)
        )
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())

    # ------------------------------------------------------------ running

    @contextlib.asynccontextmanager
    async def manager(
        self,
        config: Configuration | None = None,
        *,
        dispatchers: Mapping[str, Dispatcher] | None = None,
        clock: Clock | None = None,
        kubeconfigs: Path = PATH_PREFIX,
        open_thread: OpenThread | None = None,
        client_type: type[KubeClient] = KubeClient,
        keep: Callable[[Runnable], Coroutine[Any, Any, None]] = lambda part: part.run(),
    ) -> AsyncIterator[ManagerContext]:
        """Run a manager while the block runs; what it writes on workers is audited.

        `keep` runs its components.
        """
        config = config or make_config()
        clock = clock or loop_clock()
        hub, audit = self.hub, Audit()
        async with client_type(hub.credentials, on_outcome=hub.on_outcome) as client:
            registry = build_registry(config, *hub.kinds)
            informers = build_informers(client, config, registry)
            context = ManagerContext(
                client=client,
                informers=informers,
                writer=WorkloadWriter(client, informers.workloads),
                recorder=EventRecorder(client, "kueue", clock=clock),
                clock=clock,
                metrics=ManagerMetrics(),
                config=config,
                integrations=registry,
            )
            engine = build_engine(config)
            self.multikueue = build_multikueue(
                context,
                engine,
                Dispatchers({**BUILT_IN, **(dispatchers or {})}),
                path_prefix=kubeconfigs,
                open_thread=open_thread or (InlineThread if is_virtual() else PluginThread),
                open_transport=audit.open,
            )
            declared = DeclaredKinds(context)
            parts = [
                *build_controllers(context, engine, self.multikueue.gate),
                DeclaredJobs(context, declared, dispatches=True),
                *self.multikueue.parts,
            ]
            async with tasks() as start:
                start(context.recorder.run())
                for informer in list_informers(informers):
                    start(informer.run())
                start(declared.run())
                await declared.ready.wait()
                for part in parts:
                    start(keep(part))
                yield context
        assert not audit.refused

    # ------------------------------------------------------------ looking

    def cluster_condition(self, name: str) -> tuple[str, str, str]:
        """Status, reason and message of a MultiKueueCluster's Active condition."""
        return self._active(self.hub.informers.multikueue_clusters.store.get(name))

    def check_condition(self) -> tuple[str, str, str]:
        """Status, reason and message of the AdmissionCheck's Active condition."""
        return self._active(self.hub.informers.admission_checks.store.get(CHECK))

    def _active(self, obj: Any) -> tuple[str, str, str]:
        condition = find_condition(obj.status.conditions, ACTIVE) if obj is not None else None
        if condition is None:
            return "", "", ""
        return condition.status, condition.reason, condition.message

    async def until_connected(self, *names_: str) -> None:
        """Wait until workers are connected, and the check shows it; all of them by default."""
        for name in names_ or self.workers:
            await self.changes.until(
                lambda name=name: self.cluster_condition(name)[0] == "True", f"{name} connected"
            )
        await self.changes.until(lambda: self.check_condition()[0] == "True", "check active")

    async def until_cluster(self, name: str, *, reason: str) -> str:
        """Wait for a reason on a MultiKueueCluster; returns its message."""
        await self.changes.until(
            lambda: self.cluster_condition(name)[1] == reason, f"{reason} on {name}"
        )
        return self.cluster_condition(name)[2]

    def workload(self, job: str = "train") -> Workload | None:
        return self.hub.workload_of(job)

    def check(self, job: str = "train") -> tuple[str, str]:
        """State and message of the MultiKueue check."""
        workload = self.workload(job)
        for state in workload.status.admission_checks if workload is not None else ():
            if state.name == CHECK:
                return state.state, state.message
        return "", ""

    def copy(self, worker: str, job: str = "train") -> Workload | None:
        workload = self.workload(job)
        if workload is None:
            return None
        store = self.workers[worker].informers.workloads.store
        return store.get(workload.metadata.key)

    async def until(
        self, condition: Callable[[], Any], what: str = "", *, on: str | None = None
    ) -> Any:
        """Wait for a condition on the manager's cluster, or on a worker's."""
        cluster = self.hub if on is None else self.workers[on]
        return await cluster.changes.until(condition, what)

    async def until_ready(self, job: str = "train") -> str:
        """Wait until a job runs somewhere; returns where."""
        await self.until(lambda: self.check(job)[0] == CheckState.READY, f"{job} ready")
        workload = self.workload(job)
        assert workload is not None
        assert workload.status.cluster_name
        return workload.status.cluster_name

    # ------------------------------------------------------------ playing a worker

    async def change_copy(
        self, worker: str, change: Callable[[Workload], WorkloadStatus], job: str = "train"
    ) -> Workload:
        """Change the status of a copy as its worker's controllers would."""
        await self.until(lambda: self.copy(worker, job), f"a copy on {worker}", on=worker)
        copy = self.copy(worker, job)
        assert copy is not None
        cluster = self.workers[worker]
        writer = WorkloadWriter(cluster.client, cluster.informers.workloads)
        return await writer.update_status(copy.metadata.key, change)

    async def admit(self, worker: str, job: str = "train", clock: Clock | None = None) -> Workload:
        now = (clock or loop_clock()).now()

        def change(copy: Workload) -> WorkloadStatus:
            assignments = tuple(
                PodSetAssignment(
                    name=pod_set.name,
                    flavors={GPU: "gpu"},
                    resource_usage={GPU: "1"},
                    count=pod_set.count,
                )
                for pod_set in copy.spec.pod_sets
            )
            admission = Admission(cluster_queue="cq", pod_set_assignments=assignments)
            status = workload_state.reserve_quota(copy.status, admission, now=now)
            return workload_state.sync_admitted(status, now=now)

        return await self.change_copy(worker, change, job)

    async def evict(self, worker: str, job: str = "train") -> Workload:
        now = loop_clock().now()

        def change(copy: Workload) -> WorkloadStatus:
            status = workload_state.evict(copy.status, "Preempted", "by somebody", now=now)
            return workload_state.complete_eviction(status, now=now)

        return await self.change_copy(worker, change, job)

    async def finish_copy(
        self, worker: str, job: str = "train", *, reason: str = "Succeeded"
    ) -> Workload:
        now = loop_clock().now()
        return await self.change_copy(
            worker, lambda copy: workload_state.finish(copy.status, reason, "done", now=now), job
        )

    async def set_job_status(self, worker: str, job: str = "train", **status: Any) -> None:
        cluster = self.workers[worker]
        await self.until(lambda: cluster.job(job), f"job on {worker}", on=worker)
        await cluster.patch(
            resources.JOBS, job, {"status": status}, namespace=NAMESPACE, subresource="status"
        )

    async def run_job(self, worker: str, job: str = "train") -> None:
        """Let the worker's job run, as its Kueue and its Job controller would."""
        cluster = self.workers[worker]
        await self.until(lambda: cluster.job(job), f"job on {worker}", on=worker)
        await cluster.patch(resources.JOBS, job, {"spec": {"suspend": False}}, namespace=NAMESPACE)
        await self.set_job_status(worker, job, startTime="2026-01-01T00:00:00Z", active=1, ready=1)

    async def finish_job(self, worker: str, job: str = "train") -> None:
        """End a running job well."""
        now = "2026-01-01T00:10:00Z"
        conditions = [
            {"type": t, "status": "True", "lastTransitionTime": now, "reason": "r", "message": "m"}
            for t in ("SuccessCriteriaMet", "Complete")
        ]
        await self.set_job_status(
            worker,
            job,
            active=0,
            ready=0,
            succeeded=1,
            startTime="2026-01-01T00:00:00Z",
            completionTime=now,
            conditions=conditions,
        )


@contextlib.asynccontextmanager
async def multikueue_world(
    *worker_names: str,
    gpus: int = 8,
    real_workers: bool = False,
    crds: Sequence[Mapping[str, Any]] = (),
    config: Configuration = CONFIG,
    kinds: Sequence[SupportedKind] = (),
    worker_config: Configuration | None = None,
) -> AsyncIterator[MultiKueueWorld]:
    """Start a manager cluster and workers with one queue each, all registered.

    Args:
        worker_names: Names of the workers.
        gpus: Quota of every worker.
        real_workers: Run this program's controllers on the workers.
        crds: CRDs beside our own, on all clusters.
        config: Enables the kinds of jobs on all clusters; pass it to `World.manager`, too.
        kinds: Kinds of jobs that are not built in, on all clusters.
        worker_config: The Configuration of the workers' controllers; `config` by default.
    """
    names_ = worker_names or ("worker1", "worker2")
    async with contextlib.AsyncExitStack() as stack:
        start = partial(queue_cluster, crds=crds, config=config, kinds=kinds)
        hub = await stack.enter_async_context(start())
        workers = {name: await stack.enter_async_context(start()) for name in names_}
        gates, side_gates = [
            {
                name: await stack.enter_async_context(gate_to(cluster.server.url))
                for name, cluster in workers.items()
            }
            for _ in range(2)
        ]
        world = MultiKueueWorld(hub, workers, gates, side_gates)
        for name, cluster in workers.items():
            await world.make_queues(cluster, gpus)
            if real_workers:
                await stack.enter_async_context(cluster.manager(worker_config))
            await world.add_worker(name)
        await world.set_clusters(*names_)
        await world.make_check()
        await world.make_queues(hub, gpus * 10, checks=(CHECK,))
        yield world
