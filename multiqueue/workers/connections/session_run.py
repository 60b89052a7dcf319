"""Connects to a worker, lists our objects there and keeps them live until it is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Moment
from multiqueue.kube.errors import (
    ApiError,
    Forbidden,
    NotFound,
    RequestTimeout,
    TransportError,
)
from multiqueue.kube.informer import Informer
from multiqueue.kube.informer_state import InformerState
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.connections.informers import (
    WorkerInformers,
    build_worker_informers,
)
from multiqueue.workers.connections.session import WorkerSession
from multiqueue.workers.owner import ManagerIdentity

PING_SECONDS = 5.0
"""How often a silent worker is asked whether it is there."""
PING_TIMEOUT = 5.0
SICK_SECONDS = 15.0
"""How long the watch of our Workloads may keep failing while the worker answers otherwise."""
KINDS_SECONDS = 10.0
"""How long a start waits for job kinds that are neither listed nor known to be missing."""

log = structlog.get_logger("multiqueue.dispatch")


class WorkerLostError(Exception):
    """The worker does not answer properly; the message is for its Active condition.

    Args:
        message: What happened.
        silent_for: How long the worker had been silent when this was noticed.
    """

    def __init__(self, message: str, *, silent_for: timedelta = timedelta()) -> None:
        super().__init__(message)
        self.silent_for = silent_for


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHooks:
    """Functions that take part in the beginning of a session.

    Attributes:
        identify: Gets the identity that the server states, "" if it does not tell; returns only if
            no other name is connected to this server.
        attach: Adds handlers, before anything is listed.
        on_ready: Called once all objects of ours there are known.
    """

    identify: Callable[[str], Awaitable[None]]
    attach: Callable[[WorkerSession], None]
    on_ready: Callable[[WorkerSession], None]


async def run_session(
    client: KubeClient,
    adapters: Collection[MultiKueueAdapter],
    *,
    name: str,
    owner: ManagerIdentity,
    metrics: ManagerMetrics,
    sync_seconds: float,
    hooks: SessionHooks,
) -> NoReturn:
    """Connect, list our objects, and keep them live until the worker is lost.

    Args:
        client: The worker's client; it is closed in the end.
        adapters: The job kinds to look for.
        name: Name of the worker.
        owner: The identity by which our objects are known.
        metrics: Count the requests to workers.
        sync_seconds: How long the first list may take.
        hooks: Functions that take part in the beginning.

    Raises:
        WorkerLostError: The worker cannot be used, or not any more.
        KubeError: The worker cannot be reached.
    """
    async with client:
        await _check_served(client)
        await hooks.identify(await _read_identity(client))
        informers = build_worker_informers(client, adapters, owner.origin, metrics, name)
        try:
            async with asyncio.TaskGroup() as tasks:
                session = WorkerSession(client, informers, adapters, tasks, owner)
                session.watch_sight()
                hooks.attach(session)
                for informer in informers.all:
                    tasks.create_task(informer.run(), name=f"worker {informer.resource.plural}")
                try:
                    await _wait_synced(informers, sync_seconds)
                    hooks.on_ready(session)
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
    """Check that the server answers, accepts our credentials and serves our API."""
    workloads = resources.WORKLOADS
    try:
        await client.request("GET", f"/apis/{workloads.api_version}")
    except NotFound:
        raise WorkerLostError(
            f"the worker does not serve {workloads.api_version}; install multiqueue's CRDs, or a "
            "Kueue that has this version"
        ) from None


async def _read_identity(client: KubeClient) -> str:
    """Return the identity of the cluster, whatever its address: the uid of a namespace.

    Every cluster has that namespace; it cannot be deleted, and lives as long as the cluster's data.
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
        # If reading queues is forbidden, nothing is listed; otherwise the list comes at once.
        async with asyncio.timeout(KINDS_SECONDS):
            for queue_informer in informers.queues:
                await _first_answer(queue_informer)
    except TimeoutError:
        log.info("queues of a worker cannot be read yet")


async def _first_list(informer: Informer[Any]) -> None:
    """Wait for the first list; an error that retries do not cure ends the wait."""
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

    A failing watch is a reason to check at once. If the worker answers, its watch gets some time to
    recover, because servers do restart.
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
    """Ask for the version: open to every authenticated user, and cheap.

    A worker that does not answer counts as silent since it was asked. If this program itself was
    stopped meanwhile, no more than `PING_TIMEOUT` counts.
    """
    asked_at = Moment()
    try:
        await client.request("GET", "/version", timeout=PING_TIMEOUT)
    except (RequestTimeout, TransportError) as error:
        silent_for = min(asked_at.elapsed(), timedelta(seconds=PING_TIMEOUT))
        raise WorkerLostError(
            f"the worker does not answer: {error}", silent_for=silent_for
        ) from error
    except ApiError as error:
        # Any answer but 401 and 5xx shows that the worker is there and knows us.
        if error.status == 401 or error.status >= 500:
            raise WorkerLostError(f"the worker refuses us: {error}") from error
