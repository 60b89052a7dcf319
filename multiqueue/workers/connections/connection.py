"""One worker over time: whether it is connected, since when, why not, next attempt.

A connection outlives its sessions. It also outlives its MultiKueueCluster as long as a Workload of
ours is on the worker, to follow its jobs to their end. A new kubeconfig is tried beside the one in
use, which is released once the new one is ready: no job, dispatch or status is delayed.

Parity: M-40 to M-50. Deviates: a job kind that the worker lacks is missing for that kind only
(M-45); a new kubeconfig interrupts nothing, and one that does not work never replaces a working
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import Protocol

import structlog

from multiqueue.api.conditions import ClusterReason
from multiqueue.api.v1beta2 import format_time
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.clock import Clock, Moment
from multiqueue.workers.connections.attempt import (
    Attempt,
    Ended,
    SessionMaker,
    build_move_error,
)
from multiqueue.workers.connections.connection_state import ConnectionState
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
"""A connection that ends sooner than this counts as a failed attempt."""
NEVER_WAS_THERE = timedelta(seconds=-1)
WIND_DOWN_SECONDS = 10.0
"""How long requests of the previous kubeconfig may take to end: as long as one request may."""

SHORTEST_WAIT = 0.001
"""Seconds; the clock may not move at all in a shorter wait, whatever its length."""

log = structlog.get_logger("multiqueue.dispatch")


class ConnectionListener(Protocol):
    """Receives the changes of a connection."""

    async def identify(self, connection: WorkerConnection, identity: str) -> bool:
        """Note the identity that a server states; return whether the connection may be used."""
        ...

    def count_left(self, connection: WorkerConnection) -> int:
        """Return how many Workloads may have objects of ours on the worker."""
        ...

    def attach(self, connection: WorkerConnection, session: WorkerSession) -> None:
        """Add handlers to a session that is about to list."""
        ...

    def state_changed(self, connection: WorkerConnection) -> None:
        """React if the state, or the reason for it, changed."""
        ...

    def rotated(self, connection: WorkerConnection, keys: set[str]) -> None:
        """React to a new session, in which these Workloads look different."""
        ...


class WorkerConnection:
    """The connection to one worker.

    Args:
        name: Name of the MultiKueueCluster.
        adapters: Job kinds to look for on the worker.
        maker: Makes sessions to this worker.
        health: The worker's health.
        clock: Tells the time.
        listener: Receives the changes.
        grace: After how long out of reach the worker is given up.
        lost_for: How long it has been lost, as far as an earlier manager knew; None: it did not.
        known: The identity of the server that an earlier manager used; "" if it is not known.

    Attributes:
        session: While connected.
        known: The identity of the server that was used last; "" if it is not known.
        health: How it does.
        lost: Since when it is not connected; None while it is.
        seen: Whether it was ever connected in this process.
        moving: Whether its kubeconfig leads to another cluster, but objects of ours are on the
            previous one, or may be.
    """

    def __init__(
        self,
        name: str,
        *,
        adapters: Collection[MultiKueueAdapter],
        maker: SessionMaker,
        health: WorkerHealth,
        clock: Clock,
        listener: ConnectionListener,
        grace: timedelta = GRACE,
        lost_for: timedelta | None = None,
        known: str = "",
    ) -> None:
        self.name = name
        self.known = known
        self.state = ConnectionState.CONNECTING
        self.session: WorkerSession | None = None
        self.lost: Moment | None = Moment(ago=lost_for or timedelta())
        self._was_there = lost_for is not None
        self.seen = False
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

    # ------------------------------------------------------------ interface

    @property
    def status(self) -> ConnectionStatus | None:
        """The Active condition of the MultiKueueCluster; None while nothing is known yet."""
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
        """Why nothing new, or only little, is sent there, in words that go after its name."""
        return self.move_refusal or self.health.refusal

    @property
    def move_refusal(self) -> str:
        """Why nothing new may be sent to a cluster that is about to be replaced by another."""
        if not self.moving:
            return ""
        return "is about to be replaced: its kubeconfig leads to another cluster"

    @property
    def source(self) -> SafeKubeconfig | None:
        """The kubeconfig of the session in use."""
        return self._held.source if self._held is not None else None

    def configure(self, source: SafeKubeconfig | KubeconfigRefusal) -> None:
        """Use this kubeconfig, or none and say why; the same one again has no effect."""
        if source == self._source:
            return
        if isinstance(source, SafeKubeconfig) and isinstance(self._source, SafeKubeconfig):
            log.info("kubeconfig of worker changed", worker=self.name)
        self._source = source
        self._begin_anew()

    def let_go(self) -> None:
        """Stop at once until configured again; the listener is asked to do that."""
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
        """Why the previous kubeconfig is still in use."""
        if self._unusable is not None:
            return self._unusable.message
        return self._describe_failure() if self._failure else ""

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Keep connected until cancelled; log lines meanwhile name the worker."""
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
        """Record that `run` failed and will be called again; the condition says so."""
        self._plan_retry(self._attempts + 1)
        why = f"internal error, starting again: {type(error).__name__}: {error}"
        self._leave(ConnectionState.DISCONNECTED, why)

    def _steer(self) -> None:
        """Start and stop attempts, so that they use the configured kubeconfig."""
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
        """Wait until an attempt ends, the configuration changes, or the pause is over."""
        tasks = {attempt.task for attempt in (self._held, self._next) if attempt is not None}
        changed = asyncio.ensure_future(self._changed.wait())
        left = self._pause_left()
        try:
            await asyncio.wait(
                {changed, *tasks},
                timeout=max(left, SHORTEST_WAIT) if left > 0 else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            changed.cancel()
            await asyncio.wait({changed})

    def _pause_left(self) -> float:
        """Seconds until the next attempt may begin."""
        return self._pause - self._failed.elapsed().total_seconds()

    def _reap(self) -> None:
        """Handle the attempts that ended."""
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

    # ------------------------------------------------------------ outcome of attempts

    async def _identify(self, attempt: Attempt, identity: str) -> None:
        """Let an attempt go on if no other name is connected to its server.

        Raises:
            OtherClusterError: The server is not the previous one, and objects of ours are there, or
                may be: then the previous one counts as out of reach, and not as empty.
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
            await asyncio.get_running_loop().create_future()  # the new configuration cancels it
        was_lost = held is None and self._is_other(identity) and self._grace_left() > timedelta()
        if was_lost and (count := self._listener.count_left(self)):
            self.moving = True
            raise build_move_error(count)

    def _is_other(self, identity: str) -> bool:
        """Whether a server is known not to be the one that was used last."""
        return bool(self.known and identity and identity != self.known)

    def _grace_left(self) -> timedelta:
        """How long the worker may still come back before it is given up."""
        return self._grace - (self.lost.elapsed() if self.lost is not None else timedelta())

    def _take(self, attempt: Attempt, session: WorkerSession) -> None:
        """Use a session that is ready, and let requests of the previous one end."""
        if attempt is not self._next or attempt.source != self._source:
            return
        attempt.begin(session)
        before, self._held, self._next = self._held, attempt, None
        self._plan_attempt(after=0.0)
        self._attempts, self._failure = 0, ""
        self._unusable = None
        self.known = attempt.identity or self.known
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
        """Record why the configured kubeconfig cannot be used (yet)."""
        if ended.unusable:
            # Kept beside the kubeconfig: configuring the same one again must have no effect.
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
        """Record that the session in use ended."""
        self.health.note_loss()
        if attempt.source == self._source:
            # A connection that was good is tried again at once (M-44).
            self._plan_retry(0 if attempt.seconds >= GOOD_SECONDS else self._attempts + 1)
        trying = self._next is not None
        state = ConnectionState.CONNECTING if trying else ConnectionState.DISCONNECTED
        self._leave(state, ended.why, silent_for=ended.silent_for)

    def _plan_retry(self, attempts: int) -> None:
        self._attempts = attempts
        # Nothing of ours runs where nobody ever was.
        left = self._grace_left() if self._was_there else NEVER_WAS_THERE
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

    def _leave(
        self, state: ConnectionState, why: str, *, silent_for: timedelta = timedelta()
    ) -> None:
        if self.state is ConnectionState.CONNECTED:
            self.lost = Moment(ago=silent_for)
        if why and why != self._failure:
            log.warning("worker lost", worker=self.name, error=why)
        self.session, self.state, self._failure = None, state, why
        self._listener.state_changed(self)


def _result_of(attempt: Attempt) -> Ended:
    """Return why an attempt ended; an attempt in use is never cancelled here."""
    if attempt.task.cancelled():
        return Ended(why="internal error: it awaited something that was cancelled")
    return attempt.task.result()
