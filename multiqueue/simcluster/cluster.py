"""A whole simulated cluster behind an API server: nodes, scheduler, kubelets, the Job controller
and an autoscaler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.events import EventRecorder
from multiqueue.simcluster.autoscaler import Autoscaler
from multiqueue.simcluster.clock import SimClock
from multiqueue.simcluster.job_controller import JobController
from multiqueue.simcluster.kubelet import Kubelet
from multiqueue.simcluster.lifecycle import Pace
from multiqueue.simcluster.node_agent import NodeAgent
from multiqueue.simcluster.nodes import NodePool, build_nodes
from multiqueue.simcluster.objects import build_informers
from multiqueue.simcluster.pod_collector import PodCollector
from multiqueue.simcluster.scheduler import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """What is simulated.

    Attributes:
        pools: The nodes.
        speed: Simulated seconds in a second of real time.
        pace: Durations of pods without annotations.
    """

    pools: Sequence[NodePool] = ()
    speed: float = 1.0
    pace: Pace = field(default_factory=Pace)


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
