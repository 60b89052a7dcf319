"""One worker over time: connected or not, since when, why not, and when it is tried again.

A connection outlives its sessions, and its MultiKueueCluster too, as long as a Workload of ours is
on the worker: what runs there is followed to its end. A new kubeconfig is tried beside the one in
use, which is let go once the new one is ready: no job, no dispatch and no status waits for it.

Parity: M-40 to M-50. Deviates: a job kind that the worker lacks is missing for that kind only
(M-45); a new kubeconfig disturbs nothing, and one that does not work is not used instead of one
that does.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import Enum
from typing import Protocol

import structlog

from multiqueue.api.conditions import ClusterReason
from multiqueue.api.v1beta2 import format_time
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.clock import Clock, Moment
from multiqueue.workers.connections.attempt import Attempt, Ended, SessionMaker
from multiqueue.workers.connections.retry_pause import retry_pause
from multiqueue.workers.connections.session import WorkerSession
from multiqueue.workers.connections.session_run import SessionHooks
from multiqueue.workers.connections.status import describe_connected
from multiqueue.workers.connections.worker_health import WorkerHealth
from multiqueue.workers.kubeconfigs.credentials import (
    ConnectionStatus,
    KubeconfigRefusal,
    SafeKubeconfig,
)

GRACE = timedelta(minutes=15)
"""Upstream's ``workerLostTimeout``."""
GOOD_SECONDS = 5.0
"""A connection that ends sooner counts as a failed attempt."""
NEVER_WAS_THERE = timedelta(seconds=-1)
WIND_DOWN_SECONDS = 10.0
"""How long what was begun with the kubeconfig before may take to end: as long as a request may."""

log = structlog.get_logger("multiqueue.dispatch")


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

    def rotated(self, connection: WorkerConnection, keys: set[str]) -> None:
        """Take note of a new session, which knows something else of these Workloads."""
        ...


class WorkerConnection:
    """The connection to one worker.

    Args:
        name: Name of the MultiKueueCluster.
        adapters: Job kinds to look for on the worker.
        maker: Makes sessions to this worker.
        health: How it does.
        clock: Tells the time.
        listener: Told of changes.
        grace: After how long out of reach the worker is given up.
        lost_for: How long it has been lost, as far as an earlier manager knew; None: it did not.

    Attributes:
        session: While connected.
        health: How it does.
        lost: Since when it is not connected; None while it is.
        seen: Whether it was ever connected in this process.
        retired: Its MultiKueueCluster is gone.
        moving: Its kubeconfig leads to another cluster, but something of ours is on the one before.
    """

    def __init__(
        self,
        name: str,
        *,
        adapters: tuple[MultiKueueAdapter, ...],
        maker: SessionMaker,
        health: WorkerHealth,
        clock: Clock,
        listener: ConnectionListener,
        grace: timedelta = GRACE,
        lost_for: timedelta | None = None,
    ) -> None:
        self.name = name
        self.state = ConnectionState.CONNECTING
        self.session: WorkerSession | None = None
        self.lost: Moment | None = Moment(ago=lost_for or timedelta())
        self._was_there = lost_for is not None
        self.seen = False
        self.retired = False
        self.moving = False
        self.health = health
        self._adapters = adapters
        self._maker = maker
        self._clock = clock
        self._listener = listener
        self._grace = grace
        self._source: SafeKubeconfig | KubeconfigRefusal | None = None
        self._unusable: KubeconfigRefusal | None = None
        self._changed = asyncio.Event()
        self._held: Attempt | None = None
        self._next: Attempt | None = None
        self._ending: set[asyncio.Task[object]] = set()
        self._attempts = 0
        self._failed = Moment()
        self._pause = 0.0
        self._next_at = ""
        self._failure = ""

    # ------------------------------------------------------------ what others see and do

    @property
    def status(self) -> ConnectionStatus | None:
        """What the MultiKueueCluster shall say; None while nothing is known yet."""
        if isinstance(self._source, KubeconfigRefusal):
            return self._source.status
        if self.state is ConnectionState.CONNECTED and self._held is not None:
            return describe_connected(
                self._held.source,
                missing=[a.gvk for a in self._adapters if not self._serves(a)],
                excesses=self.session.excesses if self.session is not None else (),
                trouble=self._trouble_of_new(),
                refusal=self.health.refusal,
            )
        if self._unusable is not None:
            return self._unusable.status
        if not self._failure:
            return None
        reason = ClusterReason.CLIENT_CONNECTION_FAILED
        return ConnectionStatus(active=False, reason=reason, message=self._describe_failure())

    @property
    def refusal(self) -> str:
        """Why nothing new is sent there, or little, in words that go after its name."""
        return self.move_refusal or self.health.refusal

    @property
    def move_refusal(self) -> str:
        """Why nothing new may be sent to a cluster that another one is to take the place of."""
        if not self.moving:
            return ""
        return "is about to be replaced: its kubeconfig leads to another cluster"

    @property
    def source(self) -> SafeKubeconfig | None:
        """The kubeconfig that it is connected with."""
        return self._held.source if self._held is not None else None

    def configure(self, source: SafeKubeconfig | KubeconfigRefusal) -> None:
        """Use this kubeconfig from now on, or none and say why; the same one changes nothing."""
        if source == self._source:
            return
        if isinstance(source, SafeKubeconfig) and isinstance(self._source, SafeKubeconfig):
            log.info("kubeconfig of worker changed", worker=self.name)
        self._source = source
        self._begin_anew()

    def let_go(self) -> None:
        """Stop at once, until somebody says again what to use; the listener is asked to."""
        self._source = None
        self._begin_anew()
        self._leave(ConnectionState.REFUSED, "")

    def _begin_anew(self) -> None:
        self._unusable, self.moving = None, False
        self._plan_attempt(after=0.0)
        self._attempts = 0
        if self.state is ConnectionState.CONNECTED:
            self._failure = ""
        self._changed.set()

    def _serves(self, adapter: MultiKueueAdapter) -> bool:
        return self.session is not None and self.session.serves(adapter.gvk)

    def _describe_failure(self) -> str:
        next_at = f", next at {self._next_at}" if self._next_at else ""
        return f"{self._failure}; connection attempts: {self._attempts}{next_at}"

    def _trouble_of_new(self) -> str:
        """Why the kubeconfig before is still in use."""
        if self._unusable is not None:
            return self._unusable.message
        return self._describe_failure() if self._failure else ""

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Keep connected until cancelled; whatever is logged meanwhile names the worker."""
        structlog.contextvars.bind_contextvars(worker=self.name)
        try:
            while True:
                self._changed.clear()
                self._steer()
                await self._wait()
                self._reap()
        finally:
            for attempt in (self._held, self._next):
                self._stop(attempt)
            self._held = self._next = None
            for task in self._ending:
                task.cancel()
            if self._ending:
                await asyncio.wait(set(self._ending))

    def note_crash(self, error: Exception) -> None:
        """Take note that `run` failed and will be called again; the condition says so."""
        self._plan_retry(self._attempts + 1)
        why = f"internal error, starting again: {type(error).__name__}: {error}"
        self._leave(ConnectionState.DISCONNECTED, why)

    def _steer(self) -> None:
        """Begin and stop attempts, so that they are about what is to be used."""
        source = self._source
        if not isinstance(source, SafeKubeconfig):
            self._stop(self._held)
            self._stop(self._next)
            self._held = self._next = None
            if source is not None:
                self._refuse()
            return
        if self._next is not None and self._next.source != source:
            self._stop(self._next)
            self._next = None
        if self._held is not None and self._held.source == source:
            return
        if self._unusable is not None:
            if self._held is None:
                self._refuse()
            return
        if self._next is None and self._pause_left() <= 0:
            self._next = self._try(source)

    def _try(self, source: SafeKubeconfig) -> Attempt:
        if self.state is ConnectionState.REFUSED:
            self.state = ConnectionState.CONNECTING
        attempt = Attempt(source)
        attempt.task = asyncio.ensure_future(
            self._maker.run(
                attempt,
                attempts=self._attempts,
                hooks=SessionHooks(
                    identify=lambda identity: self._identify(attempt, identity),
                    attach=lambda session: self._listener.attach(self, session),
                    on_ready=lambda session: self._take(attempt, session),
                ),
            )
        )
        return attempt

    async def _wait(self) -> None:
        """Wait until an attempt ends, there is something else to use, or the pause is over."""
        tasks = {attempt.task for attempt in (self._held, self._next) if attempt is not None}
        changed = asyncio.ensure_future(self._changed.wait())
        left = self._pause_left()
        try:
            await asyncio.wait(
                {changed, *tasks},
                timeout=left if left > 0 else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            changed.cancel()
            await asyncio.wait({changed})

    def _pause_left(self) -> float:
        """Seconds until the next attempt may begin."""
        return self._pause - self._failed.elapsed().total_seconds()

    def _reap(self) -> None:
        """Take in what ended."""
        if self._next is not None and self._next.task.done():
            ended, self._next = _result_of(self._next), None
            self._fail(ended)
        if self._held is not None and self._held.task.done():
            attempt, self._held = self._held, None
            self._lose(attempt, _result_of(attempt))

    def _stop(self, attempt: Attempt | None) -> None:
        if attempt is not None:
            attempt.task.cancel()
            self._see_off(attempt.task)

    def _see_off(self, task: asyncio.Task[object]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # ------------------------------------------------------------ what becomes of attempts

    async def _identify(self, attempt: Attempt, identity: str) -> None:
        """Let an attempt go on if this is a server that nobody else is connected to.

        Raises:
            OtherClusterError: it is not the one before, and something of ours is there.
        """
        attempt.identity = identity
        held = self._held
        if held is not None and held.is_other_than(attempt) and held.holds_something:
            self.moving = True
            self._listener.state_changed(self)
            raise held.build_move_error()
        self.moving = False
        if not await self._listener.identify(self, identity):
            self.let_go()
            await asyncio.get_running_loop().create_future()  # cancelled by the change

    def _take(self, attempt: Attempt, session: WorkerSession) -> None:
        """Use a session that is ready, and let the one before end what it has begun."""
        if attempt is not self._next or attempt.source != self._source:
            return
        attempt.begin(session)
        before, self._held, self._next = self._held, attempt, None
        self._plan_attempt(after=0.0)
        self._attempts, self._failure = 0, ""
        self._unusable = None
        if before is None or before.session is None or self.session is None:
            self._enter(session)
            return
        keys = session.take_over(before.session) if not before.is_other_than(attempt) else None
        self._see_off(asyncio.ensure_future(before.wind_down(WIND_DOWN_SECONDS)))
        log.info("worker is used with its new kubeconfig", worker=self.name)
        self.session = session
        if keys is None:
            self._listener.state_changed(self)
        else:
            self._listener.rotated(self, keys)

    def _fail(self, ended: Ended) -> None:
        """Note why the kubeconfig that is to be used cannot be used (yet)."""
        if ended.unusable:
            # Kept beside the kubeconfig: whoever brings the same one again must change nothing.
            self._unusable = KubeconfigRefusal(
                reason=ClusterReason.BAD_KUBE_CONFIG, message=ended.why
            )
            if self._held is not None:
                self._listener.state_changed(self)
            return
        self._plan_retry(self._attempts + 1)
        if self._held is None:
            self._leave(ConnectionState.DISCONNECTED, ended.why)
            return
        log.warning("new kubeconfig does not work", worker=self.name, error=ended.why)
        self._failure = ended.why
        self._listener.state_changed(self)

    def _lose(self, attempt: Attempt, ended: Ended) -> None:
        """Note that the session in use is over."""
        self.health.note_loss()
        if attempt.source == self._source:
            # A connection that was good is tried again at once (M-44).
            self._plan_retry(0 if attempt.seconds >= GOOD_SECONDS else self._attempts + 1)
        trying = self._next is not None
        state = ConnectionState.CONNECTING if trying else ConnectionState.DISCONNECTED
        self._leave(state, ended.why)

    def _plan_retry(self, attempts: int) -> None:
        self._attempts = attempts
        lost_for = self.lost.elapsed() if self.lost is not None else timedelta()
        # Nothing of ours runs where nobody ever was.
        left = self._grace - lost_for if self._was_there else NEVER_WAS_THERE
        self._plan_attempt(after=retry_pause(attempts, left=left, steady=self.moving))

    def _plan_attempt(self, *, after: float) -> None:
        self._failed, self._pause, self._next_at = Moment(), after, ""
        if after:
            self._next_at = format_time(self._clock.now() + timedelta(seconds=after))

    def _enter(self, session: WorkerSession) -> None:
        self.session = session
        self.state, self.lost, self.seen = ConnectionState.CONNECTED, None, True
        self._was_there = True
        log.info("worker connected", worker=self.name)
        self._listener.state_changed(self)

    def _refuse(self) -> None:
        if self.state is not ConnectionState.REFUSED:
            self._leave(ConnectionState.REFUSED, "")

    def _leave(self, state: ConnectionState, why: str) -> None:
        if self.state is ConnectionState.CONNECTED:
            self.lost = Moment()
        if why and why != self._failure:
            log.warning("worker lost", worker=self.name, error=why)
        self.session, self.state, self._failure = None, state, why
        self._listener.state_changed(self)


def _result_of(attempt: Attempt) -> Ended:
    """Return why an attempt ended; nobody here cancels one that is still in use."""
    if attempt.task.cancelled():
        return Ended(why="internal error: it awaited something that was cancelled")
    return attempt.task.result()
