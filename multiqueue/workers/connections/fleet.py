"""All workers of a manager: their connections, our objects on them, and changes there.

One task per worker. Nothing here waits for a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import key_of
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.backoff import Backoff
from multiqueue.kube.clock import Clock, Moment
from multiqueue.kube.informer import EXPECTED, Informer
from multiqueue.kube.resources import Resource
from multiqueue.kube.store import ObjectKeyAndVersion, identify
from multiqueue.kube.transport import HttpTransport, OpenTransport
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.connections.attempt import SessionMaker
from multiqueue.workers.connections.connection import GRACE, WorkerConnection
from multiqueue.workers.connections.connection_state import ConnectionState
from multiqueue.workers.connections.informers import build_remote_jobs
from multiqueue.workers.connections.servers import ServerTable
from multiqueue.workers.connections.session import SessionPart, WorkerSession
from multiqueue.workers.connections.status import FIRST_CHANCE
from multiqueue.workers.connections.worker_health import WorkerHealth
from multiqueue.workers.owner import ManagerIdentity

Json = dict[str, Any]
P = TypeVar("P", bound=SessionPart)
T = TypeVar("T")
Reach = tuple[frozenset[tuple[str, bool]], str, int] | None
"""The job kinds that a worker serves and whether its jobs are known, why nothing new may be sent to
it, and its allowance on probation; None: it is out of reach."""

CONNECTION = "worker-connection"
"""All connections are one component in metrics; conditions and logs name the worker."""
RESTART_SECONDS = 1.0
MAX_RESTART_SECONDS = 60.0
HEALTHY_SECONDS = 60.0
"""When a connection that raised starts again, and after how long its failures are forgotten."""
IDENTIFY_SECONDS = 3.0
"""How long a worker waits for older names to identify their servers, before it is assumed to be
another server."""

log = structlog.get_logger("multiqueue.workers")

SessionHook = Callable[[str, WorkerSession], None]
"""Given a worker's name and session, adds what another package keeps about the worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetListener:
    """Receives the changes in the fleet; each function is called at once and must be quick.

    Attributes:
        on_remote: An object of ours changed on a worker: key of the Workload.
        on_connection: A connection came, went, or changed its status: its name.
        on_room: The queues of a worker changed.
    """

    on_remote: Callable[[str], None]
    on_connection: Callable[[str], None]
    on_room: Callable[[], None]


class Fleet:
    """The workers.

    Args:
        adapters: Job kinds that can be dispatched.
        origin: Value of the origin label of our objects.
        clock: Tells the time.
        metrics: Count the requests to workers.
        open_transport: Makes the transport that sends requests to workers.
        grace: After how long out of reach a worker is given up.
        is_here: Whether the manager's own cluster has this very Workload or job.
        count_left: How many Workloads may have objects of ours on the worker of this name.
    """

    name = "multikueue-workers"

    def __init__(
        self,
        *,
        adapters: Collection[MultiKueueAdapter],
        origin: str,
        clock: Clock,
        metrics: ManagerMetrics,
        open_transport: OpenTransport = HttpTransport,
        grace: timedelta = GRACE,
        is_here: Callable[[Resource, ObjectKeyAndVersion], bool] = lambda *_: False,
        count_left: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.adapters = adapters
        self.owner = ManagerIdentity(origin=origin)
        self.servers = ServerTable()
        self._is_here = is_here
        self._count_left = count_left
        self._clock = clock
        self._metrics = metrics
        self._open_transport = open_transport
        self._grace = grace
        self._connections: dict[str, WorkerConnection] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[FleetListener] = []
        self._session_hooks: list[SessionHook] = []
        self._unknown_since: dict[str, Moment] = {}
        self._seen: set[str] = set()
        self._started: Moment | None = None
        self._progress = asyncio.Event()
        self._attached: WeakKeyDictionary[WorkerSession, WorkerConnection] = WeakKeyDictionary()

    # ------------------------------------------------------------ the workers

    def add_listener(self, listener: FleetListener) -> None:
        """Call this listener after changes."""
        self._listeners.append(listener)

    def add_session_hook(self, hook: SessionHook) -> None:
        """Call this for each session, before anything is listed."""
        self._session_hooks.append(hook)

    def find(self, name: str) -> WorkerConnection | None:
        """Return the connection of that name."""
        return self._connections.get(name)

    def find_session(self, name: str) -> WorkerSession | None:
        """Return the session of a worker, while it is connected."""
        connection = self._connections.get(name)
        return connection.session if connection is not None else None

    def find_part(self, name: str, kind: type[P]) -> P | None:
        """Return what another package keeps about a connected worker; see `SessionHook`."""
        session = self.find_session(name)
        return session.find_part(kind) if session is not None else None

    @property
    def connections(self) -> tuple[WorkerConnection, ...]:
        """All connections, by name."""
        return tuple(self._connections[name] for name in sorted(self._connections))

    @property
    def seen(self) -> Collection[str]:
        """Workers that this process has been connected to.

        A worker without a connection is not the only unseen one: the connection is made once the
        kubeconfig was read.
        """
        return self._seen

    def lost_for(self, name: str) -> timedelta | None:
        """Return how long a worker has been out of reach; None while it is not.

        For a name without a connection: since this was first asked.
        """
        connection = self._connections.get(name)
        if connection is not None:
            return connection.lost.elapsed() if connection.lost is not None else None
        return self._unknown_since.setdefault(name, Moment()).elapsed()

    def find_reach(self, name: str) -> Reach:
        """Return the job kinds that can be sent to a worker now; None if it is out of reach."""
        session = self.find_session(name)
        if session is None:
            return None
        kinds = (adapter.gvk for adapter in self.adapters)
        served = frozenset(
            (str(kind), session.knows_jobs(kind)) for kind in kinds if session.serves(kind)
        )
        connection = self._connections[name]
        return served, connection.refusal, connection.health.now.allowance

    def find_refusal(self, name: str, key: str, *, has_copy: bool, only_asks: bool = False) -> str:
        """Return why a Workload may not be sent to a worker now, or may not wait there any longer.

        In words that go after the worker's name; empty if there is no reason. With `only_asks`, no
        place on probation is taken from others.
        """
        connection = self._connections.get(name)
        if connection is None:
            return ""
        return connection.move_refusal or connection.health.refuse(
            key, has_copy=has_copy, only_asks=only_asks
        )

    def find_health(self, name: str) -> WorkerHealth | None:
        """Return the health of a worker."""
        connection = self._connections.get(name)
        return connection.health if connection is not None else None

    def _healths_beside(self, name: str) -> list[WorkerHealth]:
        return [other.health for key, other in self._connections.items() if key != name]

    def first_chance_left(self, name: str) -> timedelta | None:
        """How long a worker is waited for that was not seen since the start; None once it was."""
        if name in self._seen:
            return None
        return FIRST_CHANCE - self._started.elapsed() if self._started else FIRST_CHANCE

    def find_holders(self, key: str) -> Iterator[str]:
        """Yield the connected workers that have objects of ours for a Workload."""
        for name, connection in self._connections.items():
            session = connection.session
            if session is None:
                continue
            if session.find_copy(key) is not None or next(session.find_jobs(key), None):
                yield name

    # ------------------------------------------------------------ changes

    def sign(self, manager: str, server: str) -> None:
        """Set the manager's identity before the first worker connects; see `ManagerIdentity`."""
        self.owner = replace(self.owner, manager=manager)
        self.servers.add_own(server, manager)

    def ensure(self, name: str, *, lost_for: timedelta | None, known: str = "") -> WorkerConnection:
        """Return the connection of that name, made if there is none."""
        connection = self._connections.get(name)
        if connection is None:
            health = WorkerHealth(
                name,
                partial(self._tell_connection, name),
                others=partial(self._healths_beside, name),
            )
            self._metrics.watch_health(name, health)
            connection = WorkerConnection(
                name,
                adapters=self.adapters,
                maker=SessionMaker(
                    name,
                    adapters=self.adapters,
                    owner=self.owner,
                    metrics=self._metrics,
                    health=health,
                    clock=self._clock,
                    open_transport=self._open_transport,
                ),
                health=health,
                clock=self._clock,
                listener=self,
                grace=self._grace,
                lost_for=lost_for,
                known=known,
            )
            self._connections[name] = connection
            self._unknown_since.pop(name, None)
            self._start(connection)
        return connection

    def retire(self, name: str, *, give_up_after: timedelta) -> bool:
        """Remove a connection once no object of ours is on its worker; return whether it is gone.

        Until then its kubeconfig is kept in memory and its jobs are followed to their end, unless
        the worker stays out of reach for `give_up_after`.
        """
        connection = self._connections.get(name)
        if connection is None:
            return True
        session = connection.session
        if session is not None and not session.is_empty:
            return False
        may_return = connection.seen and connection.state is not ConnectionState.REFUSED
        lost = connection.lost
        if session is None and may_return and (lost is None or lost.elapsed() < give_up_after):
            return False
        self._stop(name)
        return True

    def _stop(self, name: str) -> None:
        connection = self._connections.pop(name)
        connection.health.close()
        task = self._running.pop(name, None)
        if task is not None:
            task.cancel()
        if connection.lost is not None:
            self._unknown_since[name] = connection.lost
        self._tell_connection(name)

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Keep all workers connected until cancelled."""
        self._started = Moment()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for connection in self._connections.values():
                    self._start(connection)
                await asyncio.get_running_loop().create_future()
        finally:
            self._tasks = None
            self._running.clear()

    def _start(self, connection: WorkerConnection) -> None:
        if self._tasks is not None:
            task = self._tasks.create_task(self._keep(connection), name=f"worker {connection.name}")
            self._running[connection.name] = task

    async def _keep(self, connection: WorkerConnection) -> None:
        """Run a connection until cancelled, and again if it fails; other workers are unaffected."""
        backoff = Backoff(base=RESTART_SECONDS, cap=MAX_RESTART_SECONDS)
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                await connection.run()
            except Exception as error:
                log.exception("connection failed and starts again", worker=connection.name)
                self._metrics.component_restarts_total.child(CONNECTION).inc()
                with contextlib.suppress(Exception):  # the error of `run` may happen here again
                    connection.note_crash(error)
            if loop.time() - begun >= HEALTHY_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    # ------------------------------------------------------------ events of connections

    async def identify(self, connection: WorkerConnection, identity: str) -> bool:
        """Let only one name of a server be used: see `servers`.

        Older names are waited for: a younger name that saw their objects would delete them.
        """
        name = connection.name
        for other in self.servers.identify(name, identity):
            rival = self._connections.get(other)
            if rival is not None and self.servers.find_elder(other) is not None:
                rival.let_go()
            self._tell_connection(other)
        self._note_progress()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDENTIFY_SECONDS):
                while any(map(self._may_identify, self.servers.find_unidentified(name))):
                    await self._progress.wait()
        return self.servers.find_elder(name) is None

    def count_left(self, connection: WorkerConnection) -> int:
        """Return how many Workloads may have objects of ours on a worker."""
        return self._count_left(connection.name)

    def _may_identify(self, name: str) -> bool:
        """Whether a worker without a known server identity may still state one soon."""
        connection = self._connections.get(name)
        return connection is None or connection.state is ConnectionState.CONNECTING

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    def attach(self, connection: WorkerConnection, session: WorkerSession) -> None:
        """Follow our objects on a worker that is about to be listed.

        What a session shows before it is in use is handled when it comes into use.
        """
        self._attached[session] = connection
        workloads = session.informers.workloads
        workloads.add_handler(partial(self._look_for_own, connection, workloads.resource))
        workloads.add_handler(partial(self._on_workload, connection, session))
        workloads.add_listener(partial(self._on_watch, connection, session))
        for adapter in self.adapters:
            self._attach_jobs(connection, session, adapter, session.informers.jobs[adapter.gvk])
        for informer in session.informers.queues:
            informer.add_listener(lambda _: self._tell_connection(connection.name))
        for hook in self._session_hooks:
            hook(connection.name, session)

    def follow_kind(self, adapter: MultiKueueAdapter) -> None:
        """Follow jobs of one more kind on all workers that are connected, or about to be."""
        for session, connection in list(self._attached.items()):
            if adapter.gvk in session.informers.jobs:
                continue
            jobs = build_remote_jobs(
                session.client, adapter, self.owner.origin, self._metrics, connection.name
            )
            self._attach_jobs(connection, session, adapter, jobs)
            session.follow_jobs(adapter.gvk, jobs)

    def forget_kind(self, adapter: MultiKueueAdapter) -> None:
        """Do not follow jobs of a kind any more."""
        for session, connection in list(self._attached.items()):
            session.forget_jobs(adapter.gvk)
            self._tell_connection(connection.name)

    def _attach_jobs(
        self,
        connection: WorkerConnection,
        session: WorkerSession,
        adapter: MultiKueueAdapter,
        jobs: Informer[Json],
    ) -> None:
        jobs.add_handler(partial(self._look_for_own, connection, jobs.resource))
        jobs.add_handler(partial(self._on_job, connection, session, adapter))
        jobs.add_listener(lambda _: self._tell_connection(connection.name))

    def watch_others(
        self, name: str, informer: Informer[T], identity: Callable[[T], ObjectKeyAndVersion]
    ) -> None:
        """Watch objects on a worker that are not ours for another package, as `attach` does.

        Args:
            name: The name of the worker.
            informer: The informer of these objects.
            identity: Returns key, version and uid of an object.
        """
        connection = self._connections[name]
        informer.add_listener(lambda _: self._tell_connection(name))
        informer.add_handler(
            lambda _, new: self._judge_own(
                connection, informer.resource, identity(new) if new is not None else None
            )
        )

    def _look_for_own(
        self, connection: WorkerConnection, resource: Resource, _: Any, new: Any
    ) -> None:
        """Refuse the manager's own cluster, if older roles did not let us ask for its identity.

        It is known by the uids of its objects, before anything acts on these.
        """
        self._judge_own(connection, resource, identify(new) if new is not None else None)

    def _judge_own(
        self, connection: WorkerConnection, resource: Resource, seen: ObjectKeyAndVersion | None
    ) -> None:
        if seen is None or not self._is_here(resource, seen):
            return
        self.servers.note_own(connection.name)
        connection.let_go()

    def state_changed(self, connection: WorkerConnection) -> None:
        """Pass on that a connection changed."""
        self._note_progress()
        session = connection.session
        if session is not None:
            self._seen.add(connection.name)
        self._tell_connection(connection.name)
        if session is not None:
            # What was listed before counts from now on; foreign objects and remnants in it must go.
            for key in session.keys:
                self._tell_remote(key)

    def rotated(self, connection: WorkerConnection, keys: set[str]) -> None:
        """Reconcile the Workloads that look different in a new session."""
        self._tell_connection(connection.name)
        self.tell_room()
        for key in keys:
            self._tell_remote(key)

    def _on_workload(
        self,
        connection: WorkerConnection,
        session: WorkerSession,
        old: api.Workload | None,
        new: api.Workload | None,
    ) -> None:
        workload = new or old
        assert workload is not None
        if connection.session is not session:
            return
        self._tell_remote(workload.metadata.key)
        if (new is None or old is None) and session.owner.find_twin(workload):
            self._tell_connection(connection.name)

    def _on_watch(
        self,
        connection: WorkerConnection,
        session: WorkerSession,
        informer: Informer[api.Workload],
    ) -> None:
        error = informer.last_error
        if error is not None and not isinstance(error, EXPECTED) and connection.session is session:
            connection.health.note_watch_failure()

    def _on_job(
        self,
        connection: WorkerConnection,
        session: WorkerSession,
        adapter: MultiKueueAdapter,
        old: Json | None,
        new: Json | None,
    ) -> None:
        job = new or old
        assert job is not None
        name = adapter.workload_name(job)
        if name is None or connection.session is not session:
            return
        key = key_of(job["metadata"].get("namespace", ""), name)
        if new is not None and new.get("status"):
            session.note_change(key)
        self._tell_remote(key)

    def _tell_remote(self, key: str) -> None:
        for listener in self._listeners:
            listener.on_remote(key)

    def _tell_connection(self, name: str) -> None:
        for listener in self._listeners:
            listener.on_connection(name)

    def tell_room(self) -> None:
        """Report that the queues of a worker may have room."""
        for listener in self._listeners:
            listener.on_room()
