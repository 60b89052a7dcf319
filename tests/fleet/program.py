"""The real program as a process of the simulation: a manager, or a worker's own controllers.

Assembled as `runtime.manager` does, but for what serves ports. Killing one cuts it off first, so
that nothing it does while it is taken apart reaches anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from datetime import datetime

from multiqueue_dispatchers.all_at_once import AllAtOnce
from multiqueue_dispatchers.external import External
from multiqueue_dispatchers.incremental import Incremental
from multiqueue_dispatchers.score import Score

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.controllers.setup import build_controllers
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.jobs.context import ManagerContext, Runnable
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.setup import build_registry
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.events import EventRecorder
from multiqueue.kube.leader_election import LeaderElector, LeadershipEnd
from multiqueue.kube.write_fence import WriteFence
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.plugins import Dispatcher
from multiqueue.runtime.multikueue import build_multikueue
from multiqueue.runtime.preconditions import list_informers
from multiqueue.workers.connections.fleet import Fleet
from tests.fleet.inline_thread import InlineThread
from tests.fleet.network import Network
from tests.fleet.virtual_loop import PROCESS, StoppableLoop
from tests.fleet.weather import Process

MOMENT = 1.0
STOP_SECONDS = 60.0
"""A process that takes longer to end than this hangs."""


class SimClock:
    """Wall-clock time on one cluster.

    Args:
        read: Returns it.
    """

    def __init__(self, read: Callable[[], datetime]) -> None:
        self._read = read

    def now(self) -> datetime:
        return self._read()


class Program:
    """One process after another of the same role; at most one lives at a time.

    Args:
        network: Leads to the API servers.
        group: Whose weather it has, such as ``manager-a``.
        home: The cluster that it works for.
        config: Its configuration.
        now: Its clock.
        multikueue: Whether it sends Workloads to workers.
        election: Whether it competes for leadership first.
        on_fleet: Given the workers' connections of each new process.
    """

    def __init__(
        self,
        network: Network,
        group: str,
        home: str,
        config: Configuration,
        now: Callable[[], datetime],
        *,
        multikueue: bool,
        election: bool = False,
        on_fleet: Callable[[Fleet], None] = lambda _: None,
    ) -> None:
        self.group = group
        self.process: Process | None = None
        self.failure: BaseException | None = None
        self.is_leading = False
        self._paused = False
        self._went_on_at = float("-inf")
        self.starts = 0
        self._network = network
        self._home = home
        self._config = config
        self._clock = SimClock(now)
        self._multikueue = multikueue
        self._election = election
        self._on_fleet = on_fleet
        self._task: asyncio.Task[None] | None = None

    def start(self) -> Process:
        """Begin a new process."""
        assert self._task is None
        self.starts += 1
        process = self.process = Process(f"{self.group}.{self.starts}", self.group)
        context = copy_context()
        context.run(PROCESS.set, self.group)
        self._task = asyncio.get_running_loop().create_task(
            self._run(process), name=process.name, context=context
        )
        self._task.add_done_callback(self._note_end)
        return process

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped, or has had no time yet to see what it missed."""
        now = asyncio.get_running_loop().time()
        return self._paused or now < self._went_on_at + MOMENT

    def pause(self) -> None:
        """Stop the process as SIGSTOP does."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StoppableLoop)
        self._paused = True
        loop.stop_process(self.group)

    def resume(self) -> None:
        """Let the process go on, if it was stopped so."""
        loop = asyncio.get_running_loop()
        if self._paused and isinstance(loop, StoppableLoop):
            self._paused, self._went_on_at = False, loop.time()
            loop.continue_process(self.group)

    async def stop(self, *, kill: bool) -> None:
        """End the process: kindly, or from one moment to the next."""
        task, process = self._task, self.process
        if task is None or process is None:
            return
        if kill:
            process.alive = False
        self.resume()
        self._task = None
        task.cancel()
        _, late = await asyncio.wait({task}, timeout=STOP_SECONDS)
        if late:
            raise AssertionError(f"{process.name} does not end: {late}")
        process.alive = False
        self.process = None
        self.is_leading = False

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._task is not None and not self._task.done()

    @property
    def has_ended(self) -> bool:
        """Whether the process ended by itself."""
        return self._task is not None and self._task.done()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.failure = error

    async def _run(self, process: Process) -> None:
        fence = WriteFence(self._network.transport(process))
        credentials = Credentials.static(f"http://{self._home}.sim")
        async with KubeClient(
            credentials, field_manager=names.FIELD_MANAGER, open_transport=fence.open
        ) as client:
            registry = build_registry(self._config)
            informers = build_informers(client, self._config, registry)
            context = ManagerContext(
                client=client,
                informers=informers,
                writer=WorkloadWriter(client, informers.workloads),
                recorder=EventRecorder(client, "kueue", instance=process.name, clock=self._clock),
                clock=self._clock,
                metrics=ManagerMetrics(),
                config=self._config,
                integrations=registry,
            )
            parts = self._parts(context, fence)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(context.recorder.run(), name="events")
                for informer in list_informers(informers):
                    tasks.create_task(informer.run(), name=informer.resource.plural)
                for informer in list_informers(informers):
                    await informer.settled.wait()
                await self._lead(client, process, parts, fence)

    def _parts(self, context: ManagerContext, fence: WriteFence) -> list[Runnable]:
        engine = build_engine(self._config)
        if not self._multikueue:
            return build_controllers(context, engine)
        dispatchers: dict[str, Dispatcher] = {
            names.DISPATCHER_ALL_AT_ONCE: AllAtOnce(),
            names.DISPATCHER_INCREMENTAL: Incremental(),
            "external": External(),
            "score": Score(),
        }
        ours = build_multikueue(
            context,
            engine,
            Dispatchers(dispatchers),
            open_transport=fence.open,
            open_thread=InlineThread,
        )
        self._on_fleet(ours.fleet)
        return [*build_controllers(context, engine, ours.gate), *ours.parts]

    async def _lead(
        self, client: KubeClient, process: Process, parts: list[Runnable], fence: WriteFence
    ) -> None:
        async def work() -> None:
            self.is_leading = True
            try:
                async with asyncio.TaskGroup() as tasks:
                    for part in parts:
                        tasks.create_task(part.run(), name=part.name)
            finally:
                self.is_leading = False

        if not self._election:
            await work()
            return
        elector = LeaderElector(
            client,
            self._config.namespace,
            "manager",
            identity=process.name,
            clock=self._clock,
            fence=fence,
            jitter=self._network.chance.random,
        )
        if await elector.run(work) is LeadershipEnd.LOST:
            raise LeadershipLostError(process.name)


class LeadershipLostError(Exception):
    """A manager could not keep its Lease: it ends, as the real one does."""
