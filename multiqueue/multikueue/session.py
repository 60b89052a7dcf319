"""One connected period with one worker: a client, live copies of what is ours, and our writes.

`run_session` ends when the worker stops answering; nothing of it survives into the next one, which
lists everything anew. Everything here runs in tasks of its own, with timeouts and a
limiter of its own: a worker that hangs holds up nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn, TypeVar

import msgspec
import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import FIELD_MANAGER
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import (
    ApiError,
    Forbidden,
    KubeError,
    NotFound,
    RequestTimeout,
    TransportError,
)
from multiqueue.kube.informer import Informer, InformerState
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.transport import OpenTransport
from multiqueue.multikueue.remote_watch import (
    BY_WORKLOAD,
    WorkerInformers,
    build_worker_informers,
    list_workload_keys,
)
from multiqueue.observability.metrics import Metrics

T = TypeVar("T")
K = TypeVar("K", bound=msgspec.Struct)
Json = dict[str, Any]

REQUEST_SECONDS = 10.0
"""How long a request to a worker may take."""
PING_SECONDS = 10.0
"""How often a worker that says nothing is asked whether it is there."""
PING_TIMEOUT = 5.0
SICK_SECONDS = 15.0
"""How long the watch of our Workloads may keep failing on a worker that answers otherwise."""
KINDS_SECONDS = 10.0
"""How long a start waits for job kinds that neither come nor are missing."""

log = structlog.get_logger("multiqueue.multikueue")


class WorkerLostError(Exception):
    """The worker does not answer, or not as it should; the message is for its Active condition."""


class WorkerSession:
    """What can be done with a connected worker.

    Attributes:
        client: Of the worker.
        informers: What is known of it.
    """

    def __init__(
        self,
        client: KubeClient,
        informers: WorkerInformers,
        adapters: tuple[MultiKueueAdapter, ...],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.client = client
        self.informers = informers
        self._adapters = adapters
        self._tasks = tasks
        self._changed_at: dict[str, float] = {}
        self._in_flight: dict[tuple[str, str], asyncio.Future[Any]] = {}
        self._closing = False

    def serves(self, kind: GroupVersionKind) -> bool:
        """Whether the worker serves a job kind, as far as is known."""
        informer = self.informers.jobs.get(kind)
        return informer is not None and informer.available

    def knows_jobs(self, kind: GroupVersionKind) -> bool:
        """Whether what is known of jobs of a kind can be believed."""
        informer = self.informers.jobs.get(kind)
        return informer is not None and informer.available and informer.synced.is_set()

    def find_jobs(self, key: str) -> Iterator[tuple[GroupVersionKind, Json]]:
        """Yield our jobs there that belong to a Workload."""
        for kind, informer in self.informers.jobs.items():
            for job in informer.store.by_index(BY_WORKLOAD, key):
                yield kind, job

    def note_change(self, key: str) -> None:
        """Remember that the job of a Workload changed there."""
        self._changed_at.setdefault(key, asyncio.get_running_loop().time())

    def take_lag(self, key: str) -> float | None:
        """Return the seconds since its job changed there, once it was looked at."""
        changed_at = self._changed_at.pop(key, None)
        return None if changed_at is None else asyncio.get_running_loop().time() - changed_at

    @property
    def keys(self) -> set[str]:
        """Keys of all Workloads that something of ours there belongs to."""
        found = set(self.informers.workloads.store.keys())
        for adapter in self._adapters:
            for job in self.informers.jobs[adapter.gvk].store.list():
                found.update(list_workload_keys(adapter, job))
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing of ours is there."""
        return not len(self.informers.workloads.store) and not any(
            len(informer.store) for informer in self.informers.jobs.values()
        )

    def submit(
        self, what: str, key: str, work: Callable[[], Awaitable[T]]
    ) -> asyncio.Future[T | KubeError]:
        """Do something on the worker in a task of its own; the same thing only once at a time.

        The future gives what the work returns, or the `KubeError` that it raised; it is cancelled
        when the session ends, at once where it is about to.
        """
        slot = (what, key)
        known = self._in_flight.get(slot)
        if known is not None:
            return known
        future: asyncio.Future[T | KubeError] = asyncio.get_running_loop().create_future()
        if self._closing:
            future.cancel()
            return future
        task = self._tasks.create_task(self._work(slot, work, future), name=f"{what} {key}")
        self._in_flight[slot] = future
        # Not in the task itself: one that is cancelled before it begins never gets there.
        task.add_done_callback(lambda _: self._release(slot, future))
        return future

    def close(self) -> None:
        """Take no more work: what is under way is about to be cancelled."""
        self._closing = True

    async def _work(
        self,
        slot: tuple[str, str],
        work: Callable[[], Awaitable[T]],
        future: asyncio.Future[T | KubeError],
    ) -> None:
        try:
            result: T | KubeError = await work()
        except KubeError as error:
            result = error
        except Exception:  # a bug; the future is cancelled, as there is no result
            log.exception("work on a worker failed", what=slot[0], workload=slot[1])
            return
        # First: who waits for the result may want the same thing done again.
        del self._in_flight[slot]
        if not future.done():
            future.set_result(result)

    def _release(self, slot: tuple[str, str], future: asyncio.Future[Any]) -> None:
        """End what ended without a result."""
        if self._in_flight.get(slot) is future:
            del self._in_flight[slot]
        future.cancel()


async def run_session(
    credentials: Credentials,
    adapters: tuple[MultiKueueAdapter, ...],
    *,
    name: str,
    origin: str,
    metrics: Metrics,
    open_transport: OpenTransport,
    sync_seconds: float,
    identify: Callable[[str], Awaitable[None]],
    attach: Callable[[WorkerSession], None],
    on_ready: Callable[[WorkerSession], None],
) -> NoReturn:
    """Connect, list what is ours, and keep it live until the worker is lost.

    Args:
        credentials: Of the worker.
        adapters: The job kinds to look for.
        name: Name of the worker.
        origin: Label value of what is ours.
        metrics: Count what is sent there.
        open_transport: Makes what requests are sent with.
        sync_seconds: How long the first list may take.
        identify: Told what the server says that it is, "" where it does not tell; goes on only
            where this is a server that nobody else is connected to.
        attach: Adds handlers, before anything is listed.
        on_ready: Called once everything of ours there is known.

    Raises:
        WorkerLostError: it cannot be used, or not any more.
        KubeError: it cannot be reached.
    """
    limiter = RateLimiter()
    metrics.watch_limiter(limiter, name)
    client = KubeClient(
        credentials,
        limiter=limiter,
        user_agent="multiqueue-manager",
        default_timeout=REQUEST_SECONDS,
        field_manager=FIELD_MANAGER,
        on_outcome=metrics.request_observer(name),
        open_transport=open_transport,
    )
    async with client:
        await _check_served(client)
        await identify(await _read_identity(client))
        informers = build_worker_informers(client, adapters, origin, metrics, name)
        try:
            async with asyncio.TaskGroup() as tasks:
                session = WorkerSession(client, informers, adapters, tasks)
                attach(session)
                for informer in informers.all:
                    tasks.create_task(informer.run(), name=f"worker {informer.resource.plural}")
                try:
                    await _wait_synced(informers, sync_seconds)
                    on_ready(session)
                    await _guard(client, informers.workloads)
                finally:
                    session.close()
        except BaseExceptionGroup as errors:
            raise _first_leaf(errors) from None


def _first_leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _check_served(client: KubeClient) -> None:
    """Find out whether somebody answers, takes our credentials and speaks our API."""
    workloads = resources.WORKLOADS
    try:
        await client.request("GET", f"/apis/{workloads.api_version}")
    except NotFound:
        raise WorkerLostError(
            f"the worker does not serve {workloads.api_version}; install multiqueue's CRDs, or a "
            "Kueue that has this version"
        ) from None


async def _read_identity(client: KubeClient) -> str:
    """Return what tells this cluster from all others, whatever the address: a namespace's uid.

    It is there in every cluster, cannot be deleted, and lives as long as the cluster's data.
    """
    try:
        namespace = await client.get(resources.NAMESPACES, "kube-system")
    except (Forbidden, NotFound):
        return ""
    return str(namespace["metadata"].get("uid") or "")


async def _wait_synced(informers: WorkerInformers, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await _first_list(informers.workloads)
    except TimeoutError:
        raise WorkerLostError(f"listing our Workloads took longer than {seconds:g} s") from None
    try:
        async with asyncio.timeout(KINDS_SECONDS):
            for informer in informers.jobs.values():
                await informer.settled.wait()
    except TimeoutError:
        log.info("some job kinds of a worker cannot be listed yet")
    try:
        # Where reading queues is not allowed nothing comes; where it is, it comes at once.
        async with asyncio.timeout(KINDS_SECONDS):
            for queue_informer in informers.queues:
                await _first_answer(queue_informer)
    except TimeoutError:
        log.info("queues of a worker cannot be read yet")


async def _first_list(informer: Informer[Any]) -> None:
    """Wait for the first list; an error that trying again does not cure ends the wait."""
    failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def listen(informer: Informer[Any]) -> None:
        error = informer.last_error
        if error is not None and not error.retryable and not failed.done():
            failed.set_result(error)

    informer.add_listener(listen)
    synced: asyncio.Future[Any] = asyncio.ensure_future(informer.synced.wait())
    try:
        await asyncio.wait({synced, failed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        synced.cancel()
    if failed.done() and not informer.synced.is_set():
        raise failed.result()


async def _first_answer(informer: Informer[Any]) -> None:
    """Wait until a kind was listed, or first refused."""
    answered = asyncio.Event()
    informer.add_listener(lambda _: answered.set())
    if informer.last_error is not None or informer.settled.is_set():
        return
    await answered.wait()


async def _guard(client: KubeClient, workloads: Informer[api.Workload]) -> NoReturn:
    """Raise once the worker is lost.

    A failing watch is a hint to look at once. Where the worker answers, its watch gets some time to
    recover, for servers do restart.
    """
    failing = asyncio.Event()
    workloads.add_listener(lambda informer: failing.set() if informer.last_error else None)
    loop = asyncio.get_running_loop()
    sick_since: float | None = None
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PING_SECONDS if sick_since is None else 1.0):
                await failing.wait()
        failing.clear()
        await _ping(client)
        if workloads.state is InformerState.WATCHING or workloads.last_error is None:
            sick_since = None
            continue
        sick_since = sick_since if sick_since is not None else loop.time()
        if loop.time() - sick_since > SICK_SECONDS:
            raise WorkerLostError(f"our Workloads cannot be watched: {workloads.last_error}")


async def _ping(client: KubeClient) -> None:
    """Ask for the version: open to every authenticated user, and cheap."""
    try:
        await client.request("GET", "/version", timeout=PING_TIMEOUT)
    except (RequestTimeout, TransportError) as error:
        raise WorkerLostError(f"the worker does not answer: {error}") from error
    except ApiError as error:
        # Any answer but 401 and 5xx shows that it is there and knows us.
        if error.status == 401 or error.status >= 500:
            raise WorkerLostError(f"the worker refuses us: {error}") from error
