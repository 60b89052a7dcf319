"""An attempt to connect with one kubeconfig, and the session that results."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from multiqueue.api.names import FIELD_MANAGER
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import CredentialsError, KubeError
from multiqueue.kube.exec_credentials import open_exec_credentials
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.sender import SendOutcome
from multiqueue.kube.transport import HttpTransport, OpenTransport
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.connections.session import WorkerSession
from multiqueue.workers.connections.session_run import SessionHooks, WorkerLostError, run_session
from multiqueue.workers.connections.worker_health import WorkerHealth
from multiqueue.workers.kubeconfigs.cluster_profiles import build_endpoint
from multiqueue.workers.kubeconfigs.credentials import SafeKubeconfig
from multiqueue.workers.owner import ManagerIdentity

REQUEST_SECONDS = 10.0
"""How long a request to a worker may take."""
SYNC_SECONDS = 60.0
MAX_SYNC_SECONDS = 600.0
"""Longest time for the first list: doubled with every attempt (M-46)."""

log = structlog.get_logger("multiqueue.dispatch")


class OtherClusterError(Exception):
    """The new kubeconfig leads to another cluster, but objects of ours are on the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended.

    Attributes:
        why: The reason, for the Active condition.
        unusable: Whether trying again with the same kubeconfig cannot help.
        silent_for: How long the worker had been silent by then.
    """

    why: str
    unusable: bool = False
    silent_for: timedelta = timedelta()


@dataclass(slots=True, eq=False)
class Attempt:
    """A kubeconfig in use, or about to be.

    Attributes:
        source: The kubeconfig.
        task: Runs the session; returns why it ended.
        session: The session, once it is ready.
        identity: The identity that the server states; None before it was asked, "" if the server
            does not tell.
    """

    source: SafeKubeconfig
    task: asyncio.Task[Ended] = field(init=False)
    session: WorkerSession | None = None
    identity: str | None = None
    _begun_at: float = 0.0

    def begin(self, session: WorkerSession) -> None:
        """Note that the session is ready."""
        self.session = session
        self._begun_at = asyncio.get_running_loop().time()

    @property
    def seconds(self) -> float:
        """How long the session has been ready; 0 before it is."""
        if self.session is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._begun_at

    @property
    def holds_something(self) -> bool:
        """Whether objects of ours are on its server."""
        return self.session is not None and not self.session.is_empty

    def is_other_than(self, attempt: Attempt) -> bool:
        """Whether this attempt and another are known to lead to different clusters."""
        return bool(self.identity and attempt.identity and self.identity != attempt.identity)

    def build_move_error(self) -> OtherClusterError:
        """Return the error that says what is still on this attempt's server."""
        count = len(self.session.keys) if self.session is not None else 0
        return OtherClusterError(
            "the kubeconfig leads to another cluster than before, where workloads of ours still "
            f"are ({count}); those are followed to their end first, and nothing new is sent"
        )

    async def wind_down(self, seconds: float) -> None:
        """Let requests in progress end, but wait no longer than this."""
        if self.session is not None:
            await self.session.finish(seconds)
        self.task.cancel()
        await asyncio.wait({self.task})


def build_move_error(count: int) -> OtherClusterError:
    """Return the error that says what may be left on a cluster that cannot be reached any more."""
    return OtherClusterError(
        "the kubeconfig leads to another cluster than before, where workloads of ours may still "
        f"be ({count}); it is used once they are given up (multiKueue.workerLostTimeout); if this "
        "is a mistake, put the kubeconfig of the first cluster back"
    )


class SessionMaker:
    """Makes the sessions to one worker: one after the other, or side by side.

    Args:
        name: The name of the worker.
        adapters: Job kinds to look for.
        owner: The identity by which our objects are known.
        metrics: Count the requests to workers.
        health: Receives the outcome of requests, once the worker is connected.
        clock: Tells when credentials are about to end.
        open_transport: Makes the transport that sends requests.

    Attributes:
        limiter: The request budget of this worker, shared by all its sessions.
    """

    def __init__(
        self,
        name: str,
        *,
        adapters: Collection[MultiKueueAdapter],
        owner: ManagerIdentity,
        metrics: ManagerMetrics,
        health: WorkerHealth,
        clock: Clock,
        open_transport: OpenTransport = HttpTransport,
    ) -> None:
        self.limiter = RateLimiter()  # one for each worker (M-53)
        self._name = name
        self._adapters = adapters
        self._owner = owner
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._open_transport = open_transport
        metrics.watch_limiter(self.limiter, name)

    async def run(
        self,
        attempt: Attempt,
        *,
        attempts: int,
        hooks: SessionHooks,
    ) -> Ended:
        """Connect and stay connected; return why the session ended."""
        try:
            credentials = await open_credentials(attempt.source, self._clock)
            await run_session(
                self._build_client(credentials, attempt),
                self._adapters,
                name=self._name,
                owner=self._owner,
                metrics=self._metrics,
                sync_seconds=min(SYNC_SECONDS * 2**attempts, MAX_SYNC_SECONDS),
                hooks=hooks,
            )
        except CredentialsError as error:
            # A program may return better credentials the next time.
            return Ended(why=str(error), unusable=attempt.source.plugin is None)
        except WorkerLostError as error:
            return Ended(why=str(error), silent_for=error.silent_for)
        except (KubeError, OtherClusterError) as error:
            return Ended(why=str(error))
        except Exception:  # a bug must not take the other workers along
            log.exception("connection to worker failed", worker=self._name)
            return Ended(why="the connection failed for a reason that only the manager's log has")

    def _build_client(self, credentials: Credentials, attempt: Attempt) -> KubeClient:
        count = self._metrics.request_observer(self._name)

        def observe(outcome: SendOutcome) -> None:
            count(outcome)
            # Before the session is ready, failures are reported by the connection.
            if attempt.session is not None:
                self._health.observe(outcome)

        return KubeClient(
            credentials,
            limiter=self.limiter,
            user_agent="multiqueue-manager",
            default_timeout=REQUEST_SECONDS,
            field_manager=FIELD_MANAGER,
            on_outcome=observe,
            open_transport=self._open_transport,
        )


async def open_credentials(source: SafeKubeconfig, clock: Clock) -> Credentials:
    """Return the credentials for a worker: the source's own, or those its program returns.

    Raises:
        CredentialsError: The credentials cannot be used.
    """
    if source.plugin is not None:
        return await open_exec_credentials(source.plugin, build_endpoint(source), clock)
    # Already checked; this check refuses again any entry that runs a program or reads a file.
    return await Credentials.from_kubeconfig_dict(source.config)
