"""A whole simulated cluster behind an API server: nodes, scheduler, kubelets, the Job controller
and an autoscaler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from multiqueue.embedded.cluster.autoscaler import Autoscaler
from multiqueue.embedded.cluster.clock import SimClock
from multiqueue.embedded.cluster.job_controller import JobController
from multiqueue.embedded.cluster.kind_controller import KindController
from multiqueue.embedded.cluster.kubelet import Kubelet
from multiqueue.embedded.cluster.lifecycle import PodPace
from multiqueue.embedded.cluster.node_agent import NodeAgent
from multiqueue.embedded.cluster.nodes import NodePool, build_nodes
from multiqueue.embedded.cluster.objects import build_informers
from multiqueue.embedded.cluster.pod_collector import PodCollector
from multiqueue.embedded.cluster.scheduler import Scheduler
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.events import EventRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """Settings of the simulation.

    Attributes:
        pools: The pools of nodes.
        speed: Simulated seconds per second of real time.
        pace: Durations of pods without annotations.
    """

    pools: Sequence[NodePool] = ()
    speed: float = 1.0
    pace: PodPace = field(default_factory=PodPace)


class SimCluster:
    """Runs against any API server that has no controllers, scheduler and kubelets of its own."""

    name = "simcluster"

    def __init__(
        self,
        client: KubeClient,
        options: SimOptions,
        *,
        clock: Clock | None = None,
        recorder: EventRecorder | None = None,
    ) -> None:
        sim_clock = SimClock(speed=options.speed, wall=clock)
        nodes = build_nodes(options.pools)
        self._informers = build_informers(client)
        self._node_agent = NodeAgent(client, sim_clock, nodes, self._informers.nodes)
        self._components = (
            self._node_agent,
            Scheduler(client, self._informers, sim_clock),
            Kubelet(
                client,
                self._informers,
                sim_clock,
                node_names=self._node_agent.names,
                pace=options.pace,
            ),
            PodCollector(client, self._informers, sim_clock),
            JobController(client, self._informers, sim_clock, recorder),
            KindController(client, self._informers),
            Autoscaler(client, self._informers, sim_clock, self._node_agent),
        )

    async def run(self) -> None:
        """Simulate until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.all():
                tasks.create_task(informer.run())
            for component in self._components:
                tasks.create_task(component.run(), name=component.name)

    async def wait_until_ready(self) -> None:
        """Return when all nodes are Ready and everything is being watched."""
        await self._node_agent.registered.wait()
        for informer in self._informers.all():
            await informer.synced.wait()
