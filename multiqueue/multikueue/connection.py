"""One worker over time: connected or not, since when, why not, and when it is tried again.

A connection outlives its sessions, and its MultiKueueCluster too, as long as a Workload of ours is
on the worker: what runs there is followed to its end.

Parity: M-40 to M-50. Deviates: a job kind that the worker lacks is missing for that kind only
(M-45); a new kubeconfig replaces the connection, jobs are not disturbed by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Protocol

import structlog

from multiqueue.api.conditions import ClusterReason
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.backoff import exponential
from multiqueue.kube.clock import Clock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import CredentialsError, KubeError
from multiqueue.kube.transport import OpenTransport, Transport
from multiqueue.multikueue.credentials import Refusal, SafeKubeconfig
from multiqueue.multikueue.session import WorkerLostError, WorkerSession, run_session
from multiqueue.observability.metrics import Metrics

RETRY_BASE_SECONDS = 5.0
RETRY_CAP_SECONDS = 320.0
"""Backoff between attempts to connect (M-44)."""
SYNC_SECONDS = 60.0
MAX_SYNC_SECONDS = 600.0
"""How long the first list may take: doubled with every attempt (M-46)."""
GOOD_SECONDS = 5.0
"""A connection that ends sooner counts as a failed attempt."""
FIRST_CHANCE = timedelta(minutes=1)
"""However long a worker was lost when the manager started: it gets this long to answer before what
runs there is given up."""

log = structlog.get_logger("multiqueue.multikueue")


class ConnectionState(Enum):
    """Where a connection is."""

    CONNECTING = "Connecting"
    CONNECTED = "Connected"
    DISCONNECTED = "Disconnected"
    REFUSED = "Refused"
    """There is no kubeconfig that may be used."""


class ConnectionListener(Protocol):
    """Who wants to know what becomes of a connection."""

    async def identify(self, connection: WorkerConnection, identity: str) -> bool:
        """Take note of what a server says that it is; whether the connection may be used."""
        ...

    def attach(self, connection: WorkerConnection, session: WorkerSession) -> None:
        """Add handlers to a session that is about to list."""
        ...

    def state_changed(self, connection: WorkerConnection) -> None:
        """Take note that the state, or the reason for it, changed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatus:
    """The Active condition of the MultiKueueCluster, but for its times."""

    active: bool
    reason: ClusterReason
    message: str


class WorkerConnection:
    """The connection to one worker.

    Args:
        name: Name of the MultiKueueCluster.
        adapters: Job kinds to look for on the worker.
        origin: Label value of what is ours.
        clock: Tells the time.
        listener: Told of changes.
        metrics: Count what is sent to the worker.
        open_transport: Makes what requests are sent with.
        lost_at: Since when it is lost, as far as an earlier manager knew; now by default.

    Attributes:
        session: While connected.
        lost_at: Since when it is not connected; None while it is.
        seen: Whether it was ever connected in this process.
        retired: Its MultiKueueCluster is gone.
    """

    def __init__(
        self,
        name: str,
        *,
        adapters: tuple[MultiKueueAdapter, ...],
        origin: str,
        clock: Clock,
        listener: ConnectionListener,
        metrics: Metrics,
        open_transport: OpenTransport = Transport,
        lost_at: datetime | None = None,
    ) -> None:
        self.name = name
        self.state = ConnectionState.CONNECTING
        self.session: WorkerSession | None = None
        self.lost_at: datetime | None = lost_at or clock.now()
        self.seen = False
        self.retired = False
        self._adapters = adapters
        self._origin = origin
        self._clock = clock
        self._listener = listener
        self._metrics = metrics
        self._open_transport = open_transport
        self._source: SafeKubeconfig | Refusal | None = None
        self._unusable: Refusal | None = None
        self._changed = asyncio.Event()
        self._attempts = 0
        self._next_at: datetime | None = None
        self._failure = ""

    # ------------------------------------------------------------ what others see and do

    @property
    def status(self) -> ConnectionStatus | None:
        """What the MultiKueueCluster shall say; None while nothing is known yet."""
        refusal = self._refusal
        if refusal is not None:
            return ConnectionStatus(active=False, reason=refusal.reason, message=refusal.message)
        if self.state is ConnectionState.CONNECTED:
            return ConnectionStatus(
                active=True, reason=ClusterReason.ACTIVE, message=self._connected_message()
            )
        if not self._failure:
            return None
        next_at = f", next at {self._next_at:%Y-%m-%dT%H:%M:%SZ}" if self._next_at else ""
        return ConnectionStatus(
            active=False,
            reason=ClusterReason.CLIENT_CONNECTION_FAILED,
            message=f"{self._failure}; connection attempts: {self._attempts}{next_at}",
        )

    def configure(self, source: SafeKubeconfig | Refusal) -> None:
        """Use this kubeconfig from now on, or none and say why; the same one changes nothing."""
        if source == self._source:
            return
        if isinstance(source, SafeKubeconfig) and isinstance(self._source, SafeKubeconfig):
            log.info("kubeconfig of worker changed", worker=self.name)
        self._source, self._unusable = source, None
        self._attempts, self._next_at = 0, None
        self._changed.set()

    def let_go(self) -> None:
        """Stop at once, until somebody says again what to use; the listener is asked to."""
        self._source, self._unusable = None, None
        self._attempts, self._next_at = 0, None
        self._changed.set()
        self._leave(ConnectionState.REFUSED, "")

    @property
    def _refusal(self) -> Refusal | None:
        return self._source if isinstance(self._source, Refusal) else self._unusable

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Keep connected until cancelled; whatever is logged meanwhile names the worker."""
        structlog.contextvars.bind_contextvars(worker=self.name)
        while True:
            self._changed.clear()
            source = self._source
            if source is None:
                await self._changed.wait()
            elif isinstance(source, Refusal) or self._unusable is not None:
                self._leave(ConnectionState.REFUSED, "")
                await self._changed.wait()
            else:
                await self._until_changed(self._connect(source))
                if not self._changed.is_set():
                    await self._pause()

    async def _connect(self, source: SafeKubeconfig) -> None:
        """One attempt, and the session that comes of it; returns when it is over."""
        connected_at: float | None = None
        loop = asyncio.get_running_loop()
        try:
            # Checked already; here once more by those who would run or read something.
            credentials = await Credentials.from_kubeconfig_dict(source.config)

            def on_ready(session: WorkerSession) -> None:
                nonlocal connected_at
                connected_at = loop.time()
                if self._source is source:
                    self._enter(session)

            async def identify(identity: str) -> None:
                if not await self._listener.identify(self, identity):
                    self.let_go()
                    await loop.create_future()  # cancelled by the change

            await run_session(
                credentials,
                self._adapters,
                name=self.name,
                origin=self._origin,
                metrics=self._metrics,
                open_transport=self._open_transport,
                sync_seconds=min(SYNC_SECONDS * 2**self._attempts, MAX_SYNC_SECONDS),
                identify=identify,
                attach=lambda session: self._listener.attach(self, session),
                on_ready=on_ready,
            )
        except CredentialsError as error:
            if self._source is source:
                # Kept beside the kubeconfig: whoever brings the same one again must change nothing.
                self._unusable = Refusal(reason=ClusterReason.BAD_KUBE_CONFIG, message=str(error))
                self._changed.set()
        except (WorkerLostError, KubeError) as error:
            self._fail(str(error), connected_at)
        except Exception as error:  # a bug must not take the other workers along
            log.exception("connection to worker failed", worker=self.name)
            self._fail(f"{type(error).__name__}: {error}", connected_at)

    def _fail(self, why: str, connected_at: float | None) -> None:
        # A connection that was good is tried again at once (M-44).
        now = asyncio.get_running_loop().time()
        was_good = connected_at is not None and now - connected_at >= GOOD_SECONDS
        self._attempts = 0 if was_good else self._attempts + 1
        seconds = 0.0
        if self._attempts:
            seconds = exponential(self._attempts, base=RETRY_BASE_SECONDS, cap=RETRY_CAP_SECONDS)
        self._next_at = self._clock.now() + timedelta(seconds=seconds) if seconds else None
        self._leave(ConnectionState.DISCONNECTED, why)

    def _enter(self, session: WorkerSession) -> None:
        self.session = session
        self.state, self.lost_at, self.seen = ConnectionState.CONNECTED, None, True
        self._attempts, self._next_at, self._failure = 0, None, ""
        log.info("worker connected", worker=self.name)
        self._listener.state_changed(self)

    def _leave(self, state: ConnectionState, why: str) -> None:
        if self.state is ConnectionState.CONNECTED:
            self.lost_at = self._clock.now()
        if why and why != self._failure:
            log.warning("worker lost", worker=self.name, error=why)
        self.session, self.state, self._failure = None, state, why
        self._listener.state_changed(self)

    async def _pause(self) -> None:
        if self._next_at is None:
            return
        seconds = (self._next_at - self._clock.now()).total_seconds()
        await self._until_changed(asyncio.sleep(max(0.0, seconds)))

    async def _until_changed(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something until it ends or the kubeconfig changes."""
        task = asyncio.ensure_future(work)
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({task, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in (task, changed):
                part.cancel()
            await asyncio.wait({task, changed})
            if self.session is not None:
                self._leave(ConnectionState.CONNECTING, "")

    def _connected_message(self) -> str:
        missing = [
            str(adapter.gvk)
            for adapter in self._adapters
            if self.session is not None and not self.session.serves(adapter.gvk)
        ]
        expires_at = self._source.expires_at if isinstance(self._source, SafeKubeconfig) else None
        message = "Connected"
        if missing:
            message += f"; not served: {', '.join(missing)}"
        if expires_at is not None:
            message += f"; the token expires at {expires_at:%Y-%m-%dT%H:%M:%SZ}"
        return message


def first_lost_at(
    condition_false_since: datetime | None, *, now: datetime, timeout: timedelta
) -> datetime:
    """Since when a worker counts as lost when the manager starts.

    The Active condition remembers it across restarts. Yet nobody is given up before this manager
    has had a chance to connect: it may have been the one that was cut off.
    """
    if condition_false_since is None:
        return now
    return min(now, max(condition_false_since, now - timeout + FIRST_CHANCE))
