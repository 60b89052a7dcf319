"""A burst of jobs over a manager and its workers, whatever serves their APIs; and what it costs.

One ClusterQueue on the manager in front of equal workers. Nothing runs the jobs: what is measured
is the way to a worker. CPU seconds are those of each process, so they do not depend on what else
the machine does.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import is_admitted
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.informer import Informer
from multiqueue.kube.limiter import RateLimiter
from multiqueue.runtime.manifests import create_missing
from tests.integration.waiting import condition, until
from tests.processes import running, wait_for_text

QUEUE = "burst"
"""Of the namespace, the LocalQueue and the ClusterQueue, everywhere."""
CREATORS = 16
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {{frameworks: [batch/job]}}
clientConnection: {{qps: 5000, burst: 5000}}
leaderElection: {{leaderElect: false}}
metrics: {{bindAddress: "0"}}
health: {{healthProbeBindAddress: "0"}}
webhook: {{port: 0}}
internalCertManagement: {{enable: false}}
multiKueue:
  dispatcherName: {dispatcher}
"""
TICKS = os.sysconf("SC_CLK_TCK")


def kueue(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def queue_objects(quota: int) -> list[dict[str, Any]]:
    """A namespace, and a queue with so many CPUs."""
    cpu = {"name": "cpu", "nominalQuota": quota}
    local_queue = kueue("LocalQueue", QUEUE, {"clusterQueue": QUEUE})
    local_queue["metadata"]["namespace"] = QUEUE
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [cpu]}]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": QUEUE}},
        kueue("ResourceFlavor", "default", {}),
        kueue("ClusterQueue", QUEUE, {"namespaceSelector": {}, "resourceGroups": [group]}),
        local_queue,
    ]


def manager_objects(quota: int, kubeconfigs: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The same, behind a check for these workers."""
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    objects = [namespace | {"metadata": {"name": names.DEFAULT_NAMESPACE}}]
    for worker, path in kubeconfigs.items():
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": worker, "namespace": names.DEFAULT_NAMESPACE},
            "data": {"kubeconfig": base64.b64encode(path.read_bytes()).decode()},
        }
        source = {"kubeConfig": {"locationType": "Secret", "location": worker}}
        objects += [secret, kueue("MultiKueueCluster", worker, {"clusterSource": source})]
    parameters = {"apiGroup": names.GROUP, "kind": "MultiKueueConfig", "name": QUEUE}
    check = {"controllerName": names.MULTIKUEUE_CONTROLLER, "parameters": parameters}
    queue = queue_objects(quota)
    queue[2]["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": QUEUE}]}
    config = {"clusters": list(kubeconfigs)}
    objects += [kueue("MultiKueueConfig", QUEUE, config), kueue("AdmissionCheck", QUEUE, check)]
    return [*objects, *queue]


def make_managed_job(name: str, *, cpu: str = "1") -> dict[str, Any]:
    """A job as a webhook would leave it, so that none is needed."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": QUEUE, "labels": {names.QUEUE_NAME: QUEUE}},
        "spec": {
            "suspend": True,
            "managedBy": names.MULTIKUEUE_CONTROLLER,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def cpu_seconds(pid: int) -> float:
    """What a process has used of the CPUs so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass
class Trail:
    """When what became of one job, by a clock that never jumps, in seconds."""

    submitted_at: float
    remote_at: float | None = None
    started_at: float | None = None
    """When its last worker let it go."""
    admitted_at: float | None = None
    worker: str = ""
    started_on: str = ""


@dataclass
class Burst:
    """What a burst showed. ``cpu`` is seconds by process, ``trails`` by name of the job."""

    trails: dict[str, Trail]
    cpu: dict[str, float]
    seconds: float

    @property
    def rate(self) -> float:
        """Admissions in a second, from the first submission to the last admission."""
        return len(self.trails) / self.seconds

    def waits(self, to: str = "admitted_at") -> list[float]:
        found = [getattr(trail, to) for trail in self.trails.values()]
        return sorted(
            at - trail.submitted_at
            for at, trail in zip(found, self.trails.values(), strict=True)
            if at is not None
        )

    def percentile(self, share: float, to: str = "admitted_at") -> float:
        waits = self.waits(to)
        return waits[min(len(waits) - 1, int(share * len(waits)))]

    @property
    def placement(self) -> Counter[str]:
        return Counter(trail.worker for trail in self.trails.values())

    def describe(self) -> str:
        count = len(self.trails)
        cpu = ", ".join(f"{name} {used / count * 1e3:.1f}" for name, used in self.cpu.items())
        return (
            f"{count} jobs, {self.rate:.1f} admitted/s, submit to admitted median "
            f"{statistics.median(self.waits()):.2f} s, p95 {self.percentile(0.95):.2f} s; placed "
            f"{'/'.join(str(n) for _, n in sorted(self.placement.items()))}; "
            f"CPU ms per job: {cpu} (all {sum(self.cpu.values()) / count * 1e3:.1f})"
        )


@dataclass
class Field:
    """The clusters as their users see them."""

    manager: KubeClient
    workers: Mapping[str, KubeClient]
    pids: Mapping[str, int]
    """Processes whose CPU time is told, by name."""
    trails: dict[str, Trail] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, manager: Path, workers: Mapping[str, Path], pids: Mapping[str, int]
    ) -> AsyncIterator[Self]:
        """Connect, set everything up, and follow what happens."""
        async with contextlib.AsyncExitStack() as stack:

            async def connect(path: Path) -> KubeClient:
                credentials = await Credentials.from_kubeconfig_file(path)
                client = KubeClient(credentials, limiter=RateLimiter(rate=5000))
                return await stack.enter_async_context(client)

            clients = {name: await connect(path) for name, path in workers.items()}
            this = cls(await connect(manager), clients, pids)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            following = [tasks.create_task(run) for run in this.follow()]
            try:
                yield this
            finally:
                for task in following:
                    task.cancel()

    def follow(self) -> list[Any]:
        """Return the runs of the informers."""
        admitted: Informer[Workload] = Informer(
            self.manager, resources.WORKLOADS, decode=lambda data: decode(Workload, data)
        )
        admitted.add_handler(self._on_workload)
        runs = [admitted.run()]
        for name, client in self.workers.items():
            jobs: Informer[dict[str, Any]] = Informer(client, resources.JOBS)
            jobs.add_handler(lambda old, new, name=name: self._on_job(name, old, new))
            runs.append(jobs.run())
        return runs

    async def set_up(
        self, kubeconfigs: Mapping[str, Path], *, quota: int, worker_quota: int
    ) -> None:
        """Create queues: so many CPUs in all, and on each worker."""
        for client in self.workers.values():
            await create_missing(client, queue_objects(worker_quota))
        await create_missing(self.manager, manager_objects(quota, kubeconfigs))

    async def until_connected(self) -> None:
        """The manager says that it has every worker and that its queue is ready."""

        def is_connected(objects: list[dict[str, Any]]) -> bool:
            active = [condition(each, "Active") for each in objects]
            return bool(active) and all(each and each["status"] == "True" for each in active)

        for resource in (resources.MULTIKUEUE_CLUSTERS, resources.CLUSTER_QUEUES):
            await until(self.manager, resource, is_connected, seconds=60)

    async def submit(self, name: str, **options: Any) -> Trail:
        trail = self.trails[name] = Trail(time.monotonic())
        await self.manager.create(resources.JOBS, make_managed_job(name, **options))
        return trail

    async def burst(self, count: int, seconds: float = 300.0) -> Burst:
        """Submit so many jobs at once, and wait until all are admitted."""
        todo = iter([f"burst-{i:04}" for i in range(count)])
        used = {name: cpu_seconds(pid) for name, pid in self.pids.items()}
        begun = time.monotonic()

        async def create() -> None:
            for name in todo:
                await self.submit(name)

        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            for _ in range(CREATORS):
                tasks.create_task(create())
            await self.until(lambda: sum(map(_is_placed, self.trails.values())) == count)
        ended = max(trail.admitted_at or 0 for trail in self.trails.values())
        cpu = {name: cpu_seconds(pid) - used[name] for name, pid in self.pids.items()}
        return Burst(dict(self.trails), cpu, ended - begun)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once something holds for the trails."""
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    async def end(self, name: str) -> None:
        """Have a job succeed on its worker, as the controller of Jobs would say it."""
        now = format_time(datetime.now(UTC))
        types = ("SuccessCriteriaMet", "Complete")
        moments = {"lastProbeTime": now, "lastTransitionTime": now}
        conditions = [{"type": each, "status": "True"} | moments for each in types]
        status = {"startTime": now, "completionTime": now, "conditions": conditions, "succeeded": 1}
        await self.workers[self.trails[name].worker].patch(
            resources.JOBS, name, {"status": status}, namespace=QUEUE, subresource="status"
        )

    def _on_workload(self, _: Workload | None, new: Workload | None) -> None:
        if new is None or not is_admitted(new.status) or not new.metadata.owner_references:
            return
        trail = self.trails.get(new.metadata.owner_references[0].name)
        if trail is not None and trail.admitted_at is None:
            trail.admitted_at = time.monotonic()
            self.changed.set()

    def _on_job(self, worker: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        job = new or old
        assert job is not None
        trail = self.trails.get(job["metadata"]["name"])
        if trail is None or new is None:
            return
        now = time.monotonic()
        if old is None:
            assert trail.worker != worker, f"created twice on {worker}"
            trail.remote_at, trail.worker = now, worker
        if not new["spec"]["suspend"] and (old is None or old["spec"]["suspend"]):
            trail.started_at, trail.started_on = now, worker
        self.changed.set()


def _is_placed(trail: Trail) -> bool:
    return trail.admitted_at is not None and trail.remote_at is not None


@contextlib.contextmanager
def embedded_fleet(
    folder: Path, workers: int, dispatcher: str
) -> Iterator[tuple[dict[str, Path], dict[str, int]]]:
    """Run API servers and managers, a process each; gives kubeconfigs and pids by name.

    The first is "manager"; the process of an API server is called "NAME api".
    """
    names_ = ["manager", *(f"w{i + 1}" for i in range(workers))]
    kubeconfigs, pids = {}, {}
    config = folder / "config.yaml"
    config.write_text(CONFIGURATION.format(dispatcher=dispatcher))
    with contextlib.ExitStack() as stack:
        for name in names_:
            log = folder / f"{name}-api.log"
            arguments = ("apiserver", "--log-level", "error")
            process = stack.enter_context(running(*arguments, log=log))
            found = wait_for_text(process, log, r"KUBECONFIG=(\S+)").group(1)
            kubeconfigs[name], pids[f"{name} api"] = Path(found), process.pid
        for name in reversed(names_):
            process = stack.enter_context(
                run_manager(kubeconfigs[name], config, folder / f"{name}.log")
            )
            pids[name] = process.pid
        yield kubeconfigs, pids


def run_manager(
    kubeconfig: Path, config: Path, log: Path
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """Run this program; nobody asks its webhooks."""
    options = ("--config", str(config), "--kubeconfig", str(kubeconfig), "--no-webhooks")
    return running("run", *options, "--log-level", "warning", log=log)
