"""One kubeconfig that is tried, and the session that comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

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
"""How long the first list may take: doubled with every attempt (M-46)."""

log = structlog.get_logger("multiqueue.dispatch")


class OtherClusterError(Exception):
    """A kubeconfig leads to another cluster than the one in use, where something of ours is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended.

    Attributes:
        why: For the Active condition.
        unusable: Trying again with the same kubeconfig cannot help.
    """

    why: str
    unusable: bool = False


@dataclass(slots=True, eq=False)
class Attempt:
    """A kubeconfig in use, or about to be.

    Attributes:
        source: The kubeconfig.
        task: Runs it; returns why it ended.
        session: Once it is ready.
        identity: What the server says that it is; None before it was asked, "" where it does not
            tell.
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
        """Whether something of ours is on its server."""
        return self.session is not None and not self.session.is_empty

    def is_other_than(self, attempt: Attempt) -> bool:
        """Whether it is known to be about another cluster."""
        return bool(self.identity and attempt.identity and self.identity != attempt.identity)

    def build_move_error(self) -> OtherClusterError:
        """Say what is still on this one's server."""
        count = len(self.session.keys) if self.session is not None else 0
        return OtherClusterError(
            "the kubeconfig leads to another cluster than before, where workloads of ours still "
            f"are ({count}); those are followed to their end first, and nothing new is sent"
        )

    async def wind_down(self, seconds: float) -> None:
        """Let what was begun come to its end, but not for longer than this."""
        if self.session is not None:
            await self.session.finish(seconds)
        self.task.cancel()
        await asyncio.wait({self.task})


class SessionMaker:
    """Makes the sessions to one worker: one after the other, or one beside the other.

    Args:
        name: Of the worker.
        adapters: Job kinds to look for.
        owner: By what our objects are known.
        metrics: Count the requests to workers.
        health: Hears what becomes of requests, once the worker is connected.
        clock: Tells when credentials are about to end.
        open_transport: Makes what requests are sent with.

    Attributes:
        limiter: The budget of this worker, whatever session spends it.
    """

    def __init__(
        self,
        name: str,
        *,
        adapters: tuple[MultiKueueAdapter, ...],
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
        """Connect, and return why that came to its end."""
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
            # A program may do better the next time.
            return Ended(why=str(error), unusable=attempt.source.plugin is None)
        except (WorkerLostError, KubeError, OtherClusterError) as error:
            return Ended(why=str(error))
        except Exception:  # a bug must not take the other workers along
            log.exception("connection to worker failed", worker=self._name)
            return Ended(why="the connection failed for a reason that only the manager's log has")

    def _build_client(self, credentials: Credentials, attempt: Attempt) -> KubeClient:
        count = self._metrics.request_observer(self._name)

        def observe(outcome: SendOutcome) -> None:
            count(outcome)
            # Whether it can be connected is told otherwise.
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
    """Return what leads to a worker: what the source has, or what its program gives.

    Raises:
        CredentialsError: they cannot be used.
    """
    if source.plugin is not None:
        return await open_exec_credentials(source.plugin, build_endpoint(source), clock)
    # Checked already; here once more by those who would run or read something.
    return await Credentials.from_kubeconfig_dict(source.config)
