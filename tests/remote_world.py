"""A manager that serves pods, logs and events of jobs on workers, and people who ask for them.

Pods are made by hand, as a worker's Job controller and kubelet would; what they print is made from
their status (`simcluster.pod_logs`), so a log grows when its container ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from multiqueue.api.config import Configuration
from multiqueue.cli.main import main
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.forecast.manager_starts import ManagerStarts
from multiqueue.jobs.build_options import build_options
from multiqueue.kube import resources
from multiqueue.runtime.live_whatifs import LiveWhatIfs
from multiqueue.runtime.manifests import apply_all
from multiqueue.visibility.setup import VisibilityService, build_visibility
from multiqueue.workers.kubeconfigs.worker_clients import WorkerAccess
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.integration.waiting import is_true, until_one
from tests.least_privilege import documents
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import QueueCluster

REMOTE = "/apis/remote.multiqueue.dev/v1alpha1"
STARTED, FINISHED = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
SECONDS = 20.0
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


class RemoteWorld:
    """A world whose manager serves the API."""

    def __init__(
        self, world: MultiKueueWorld, service: VisibilityService, leading: asyncio.Event
    ) -> None:
        self.world = world
        self.service = service
        self.leading = leading
        self.hub = world.hub

    async def place(self, worker: str = "worker1", job: str = "train") -> str:
        """Have a job run on a worker; returns the name of its Workload."""
        if self.world.workload(job) is None:
            await self.hub.create(resources.JOBS, make_gpu_job(job))
        await self.world.admit(worker, job)
        assert await self.world.until_ready(job) == worker
        cluster = self.world.workers[worker]
        await self.world.until(lambda: cluster.job(job), f"job on {worker}", on=worker)
        workload = self.world.workload(job)
        assert workload is not None
        return workload.metadata.name

    async def run_pod(
        self, worker: str = "worker1", name: str = "train-a", **metadata: Any
    ) -> None:
        """Start a pod of the job on a worker."""
        cluster = self.world.workers[worker]
        job = cluster.job("train")
        assert job is not None
        await run_pod(cluster, name, job["metadata"]["uid"], **metadata)

    async def end_pod(self, worker: str = "worker1", name: str = "train-a") -> None:
        """End its container well."""
        ended = {"exitCode": 0, "reason": "Completed"}
        ended |= {"startedAt": STARTED, "finishedAt": FINISHED}
        await set_state(self.world.workers[worker], name, {"terminated": ended}, "Succeeded")

    async def get(self, path: str, *, user: str = "", **query: str) -> tuple[int, str]:
        """Ask the API server, as the administrator or as somebody."""
        credentials = self.hub.client.credentials
        headers = {"Authorization": await credentials.authorization() or ""}
        if user:
            headers["Impersonate-User"] = user
        async with (
            aiohttp.ClientSession() as session,
            session.get(credentials.server + path, headers=headers, params=query) as answer,
        ):
            return answer.status, await answer.text()

    async def ask(self, what: str, workload: str, *, user: str = "", **query: str) -> Any:
        """Ask for pods, log or events; returns what is said where it is refused."""
        path = f"{REMOTE}/namespaces/{NAMESPACE}/workloads/{workload}/{what}"
        status, text = await self.get(path, user=user, **query)
        if status != 200:
            return status, json.loads(text)["message"]
        return text if what == "log" else json.loads(text)["items"]


async def run_pod(cluster: QueueCluster, name: str, uid: str, **metadata: Any) -> None:
    """Start a pod of the job with this uid, or with other metadata."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"batch.kubernetes.io/controller-uid": uid},
            "ownerReferences": [{**owner, "controller": True}],
            **metadata,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    await cluster.create(resources.PODS, body)
    await set_state(cluster, name, {"running": {"startedAt": STARTED}}, "Running")


async def set_state(cluster: QueueCluster, name: str, state: dict[str, Any], phase: str) -> None:
    container = {"name": "c", "image": "i", "imageID": "", "restartCount": 0}
    container |= {"ready": phase == "Running", "state": state}
    status = {"phase": phase, "containerStatuses": [container]}
    await cluster.patch(
        resources.PODS, name, {"status": status}, namespace=NAMESPACE, subresource="status"
    )


@contextlib.asynccontextmanager
async def remote_world(
    *workers: str, config: Configuration | None = None
) -> AsyncIterator[RemoteWorld]:
    """Start manager, workers and the API."""
    config = config or make_config()
    async with multikueue_world(*workers) as world:
        hub = world.hub
        for name in ("visibility/service.yaml", "visibility/api_services.yaml"):
            await apply_all(hub.client, documents(name))
        await apply_all(hub.client, documents("rbac/kind_roles.yaml"))
        for cluster in world.workers.values():
            await cluster.create(resources.NODES, NODE)
        async with world.manager(config) as context:
            engine, leading = build_engine(config), asyncio.Event()
            leading.set()
            find_runtime = world.multikueue.forecasts.find_runtime
            starts = ManagerStarts(context, engine, find_runtime, build_options(config))
            service = build_visibility(
                context,
                engine,
                hub.credentials,
                address=("127.0.0.1", 0),
                leading=leading,
                workers=WorkerAccess(context, world.multikueue.fleet),
                fleet=world.multikueue.fleet,
                decision_service=world.multikueue.workloads.open_decision_service(engine),
                starts=starts,
                whatifs=LiveWhatIfs(context, world.multikueue.fleet, starts),
                environment={"KUBERNETES_SERVICE_HOST": "127.0.0.1"},
            )
            running = asyncio.create_task(service.run())
            try:
                async with asyncio.timeout(SECONDS):
                    await service.registered.wait()
                url = f"https://127.0.0.1:{service.server.port}"
                hub.server.map_service("kueue-system", "kueue-visibility-server", url)
                await world.until_connected()
                await until_one(
                    hub.client,
                    resources.API_SERVICES,
                    "v1alpha1.remote.multiqueue.dev",
                    lambda found: is_true(found, "Available"),
                )
                yield RemoteWorld(world, service, leading)
            finally:
                running.cancel()
                await asyncio.wait({running})


class Terminal(io.StringIO):
    """What a command has printed so far; it can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def write(self, text: str) -> int:
        """Take text from any thread."""
        written = super().write(text)
        self._loop.call_soon_threadsafe(self._changed.set)
        return written

    async def until(self, text: str) -> None:
        """Wait until this was printed."""
        try:
            async with asyncio.timeout(SECONDS):
                while text not in self.getvalue():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} is not in {self.getvalue()!r}") from None


class ManagerShell:
    """Runs commands in a thread, as the administrator of the manager's cluster."""

    def __init__(self, remote: RemoteWorld, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.out, self.err = Terminal(), Terminal()
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(yaml.safe_dump(remote.hub.server.kubeconfig()))
        patch.setattr("sys.stdout", self.out)
        patch.setattr("sys.stderr", self.err)

    async def run(self, *arguments: str, namespaced: bool = True) -> int:
        """Return the exit code."""
        where = ["--kubeconfig", str(self._kubeconfig), *(["-n", NAMESPACE] * namespaced)]
        return await asyncio.to_thread(main, [*arguments, *where])

    async def read(self, *arguments: str, namespaced: bool = True) -> str:
        """Return what a command that succeeds prints."""
        before = len(self.out.getvalue())
        assert await self.run(*arguments, namespaced=namespaced) == 0, self.err.getvalue()
        return self.out.getvalue()[before:]
