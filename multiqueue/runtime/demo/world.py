"""The demo's setup: three embedded clusters in this process, and a manager process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from multiqueue.api.conditions import ACTIVE, find_condition
from multiqueue.api.config import build_configuration
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import ClusterQueue, MultiKueueCluster
from multiqueue.embedded.cluster.cluster import SimOptions
from multiqueue.embedded.cluster.nodes import parse_node_pool
from multiqueue.embedded.cluster.simulated_kinds import SimulatedKind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS
from multiqueue.kube.retries import READY
from multiqueue.runtime.components import TaskScope, open_scope
from multiqueue.runtime.demo import objects
from multiqueue.runtime.demo.kinds import build_integrations, list_crds, list_objects
from multiqueue.runtime.demo.manager_process import ManagerProcess
from multiqueue.runtime.demo.objects import WORKERS, DemoWorker
from multiqueue.runtime.demo.policies import build_policy
from multiqueue.runtime.embedded import EmbeddedCluster, EmbeddedOptions
from multiqueue.runtime.files import write_yaml
from multiqueue.serving.free_ports import find_free_ports

MANAGER = "manager"
CONFIGURATION = "manager-config.yaml"
OWN_KUBECONFIG = "manager-process.kubeconfig"
"""What the manager's process reads; it is there before those of the users."""
START_SECONDS = 30.0
"""The longest time until everything is connected; usually it takes about two seconds."""
WORKER_CONFIGURATION = {
    "metrics": {"bindAddress": "0"},
    "health": {"healthProbeBindAddress": "0"},
    "leaderElection": {"leaderElect": False},
    "webhook": {"host": "127.0.0.1", "port": 0},
}
"""The workers' managers share this process: no leader election and no metrics port."""

Activatable = MultiKueueCluster | ClusterQueue


class WorldFailed(Exception):  # noqa: N818 - a fact about the demo
    """The demo could not be set up; the message names the part that failed and its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """Options of the demo's setup.

    Attributes:
        data_dir: The folder for kubeconfigs, the manager's configuration and log; with `persist`
            also for objects.
        persist: Keep the objects of the clusters over restarts.
        speed: Simulated seconds per second.
        kinds: Kinds of jobs to serve beside Job.
        policy: The name of the DisruptionPolicy for the teams; "" for none.
    """

    data_dir: Path
    persist: bool = False
    speed: float = 1.0
    kinds: tuple[SimulatedKind, ...] = ()
    policy: str = ""


class DemoWorld:
    """The running demo.

    Attributes:
        clients: The administrator's client of each cluster in this process, by cluster name.
        manager: The manager's process.
    """

    def __init__(self, options: WorldOptions) -> None:
        self.options = options
        self.clients: dict[str, KubeClient] = {}
        self._health_port = 0
        self.manager = ManagerProcess(
            _manager_command(options), log=options.data_dir / "manager.log"
        )

    @property
    def kubeconfigs(self) -> dict[str, Path]:
        """The path of each cluster's kubeconfig, by cluster name."""
        clusters = (MANAGER, *(worker.name for worker in WORKERS))
        return {name: self.options.data_dir / f"{name}.kubeconfig" for name in clusters}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep all parts running inside of this block; a part that fails ends it with an error.

        The kubeconfigs are there inside of it only: a job that comes before the webhooks is
        rejected.
        """
        async with open_scope() as scope, contextlib.AsyncExitStack() as stack:
            clusters = await self._start_workers(scope)
            self._remove_kubeconfigs()  # of a demo that was killed: another would hold the lock
            stack.callback(self._remove_kubeconfigs)
            kubeconfigs = {name: cluster.kubeconfig for name, cluster in clusters.items()}
            clusters[MANAGER] = self._manager_cluster(kubeconfigs)
            scope.start(clusters[MANAGER])
            await clusters[MANAGER].ready.wait()
            for name, cluster in clusters.items():
                credentials = await Credentials.from_kubeconfig_dict(cluster.kubeconfig)
                client = KubeClient(credentials, user_agent="multiqueue-demo")
                self.clients[name] = await stack.enter_async_context(client)
            (self._health_port,) = find_free_ports(1)
            configuration = {
                **objects.manager_configuration(health_port=self._health_port),
                **build_integrations(self.options.kinds),
            }
            folder = self.options.data_dir
            await asyncio.to_thread(write_yaml, folder / CONFIGURATION, configuration)
            own = clusters[MANAGER].kubeconfig
            await asyncio.to_thread(write_yaml, folder / OWN_KUBECONFIG, own)
            await stack.enter_async_context(self.manager.running())
            await self._wait_until_connected()
            for name, path in self.kubeconfigs.items():
                await asyncio.to_thread(write_yaml, path, clusters[name].kubeconfig)
            yield

    def _remove_kubeconfigs(self) -> None:
        for path in (*self.kubeconfigs.values(), self.options.data_dir / OWN_KUBECONFIG):
            path.unlink(missing_ok=True)

    async def _start_workers(self, scope: TaskScope) -> dict[str, EmbeddedCluster]:
        clusters = {worker.name: self._worker_cluster(worker) for worker in WORKERS}
        for cluster in clusters.values():
            scope.start(cluster)
        for cluster in clusters.values():
            await cluster.ready.wait()
        return clusters

    def _worker_cluster(self, worker: DemoWorker) -> EmbeddedCluster:
        pool = parse_node_pool(f"{worker.flavor}/{worker.gpus}")
        return EmbeddedCluster(
            EmbeddedOptions(
                name=worker.name,
                data_dir=self._data_dir(worker.name),
                objects=[*objects.worker_objects(worker), *list_objects(self.options.kinds)],
                simulation=SimOptions(pools=[pool], speed=self.options.speed),
                crds=list_crds(self.options.kinds),
                manager=build_configuration(
                    {**WORKER_CONFIGURATION, **build_integrations(self.options.kinds)}
                ),
            )
        )

    def _manager_cluster(self, kubeconfigs: Mapping[str, Mapping[str, Any]]) -> EmbeddedCluster:
        pool = parse_node_pool("l4/8")
        return EmbeddedCluster(
            EmbeddedOptions(
                name=MANAGER,
                data_dir=self._data_dir(MANAGER),
                objects=[*self._list_manager_objects(), *list_objects(self.options.kinds)],
                secrets=objects.kubeconfig_secrets(kubeconfigs),
                crds=list_crds(self.options.kinds),
                simulation=SimOptions(pools=[pool], speed=self.options.speed),
            )
        )

    def _list_manager_objects(self) -> list[objects.Object]:
        policy = self.options.policy
        policies = [build_policy(policy)] if policy else []
        return [*policies, *objects.manager_objects(policy)]

    async def _wait_until_connected(self) -> None:
        """Return once workers are connected, ClusterQueues active, and the manager ready."""
        client = self.clients[MANAGER]
        clusters = Informer(
            client, MULTIKUEUE_CLUSTERS, decode=lambda data: decode(MultiKueueCluster, data)
        )
        queues = Informer(client, CLUSTER_QUEUES, decode=lambda data: decode(ClusterQueue, data))
        done = asyncio.Event()

        def look(_old: Any, _new: Any) -> None:
            seen: list[Activatable] = [*clusters.store.list(), *queues.store.list()]
            if clusters.synced.is_set() and queues.synced.is_set() and all(map(_is_active, seen)):
                done.set()

        async with open_scope() as scope:
            for informer in (clusters, queues):
                scope.create_task(informer.run())
            died = scope.create_task(self.manager.exited.wait())
            for informer in (clusters, queues):
                await informer.synced.wait()
                informer.add_handler(look)
            waiting = scope.create_task(self._wait_until_ready(done))
            await asyncio.wait(
                {waiting, died}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            is_up = waiting.done()
        if not is_up:
            raise WorldFailed(self._explain(clusters.store.list(), queues.store.list()))

    async def _wait_until_ready(self, connected: asyncio.Event) -> None:
        """Wait until the process reports that it is ready; it registers its webhooks last."""
        await connected.wait()
        url = f"http://127.0.0.1:{self._health_port}/readyz"
        async with aiohttp.ClientSession(raise_for_status=True) as session:

            async def ask() -> None:
                async with session.get(url):
                    pass

            await READY.run(ask, on=aiohttp.ClientError)

    def _explain(self, clusters: list[MultiKueueCluster], queues: list[ClusterQueue]) -> str:
        seen: list[Activatable] = [*clusters, *queues]
        missing = ", ".join(
            f'{type(each).__name__} "{each.metadata.name}"' for each in seen if not _is_active(each)
        )
        what = missing or "the manager is not ready"
        if self.manager.exited.is_set():
            return f"not everything was up: {what}. {self.manager.describe_end()}"
        return f"not everything was up within {START_SECONDS:g} s: {what}; see {self.manager.log}"

    def _data_dir(self, name: str) -> Path | None:
        return self.options.data_dir / name if self.options.persist else None


def _manager_command(options: WorldOptions) -> list[str]:
    script = Path(sys.executable).with_name("multiqueue")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "multiqueue"]
    return [
        *program,
        "run",
        "--config",
        str(options.data_dir / CONFIGURATION),
        "--kubeconfig",
        str(options.data_dir / OWN_KUBECONFIG),
    ]


def _is_active(obj: Activatable) -> bool:
    condition = find_condition(obj.status.conditions, ACTIVE)
    return condition is not None and condition.status == "True"
