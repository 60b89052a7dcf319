"""Leader election: one of several managers is active and renews a Lease.

Parity: the protocol of client-go's leaderelection, so that both kinds of holders understand each
other. Clocks need not be synchronised: a Lease counts as expired after *we* have seen it unchanged
for `lease`. The holder gives up earlier, `renew` after its last renewal began. The deadline of each
request leaves time for another try.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import Enum
from typing import Any

import structlog

from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock, SystemClock, format_micro_time
from multiqueue.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from multiqueue.kube.resources import LEASES
from multiqueue.kube.write_fence import WriteFence

STOP_SECONDS = 20.0
"""How long the work of a manager that lost its Lease may take to end, as in client-go."""

log = structlog.get_logger(component="leader")


class LeadershipEnd(Enum):
    """Why leadership ended."""

    FINISHED = "Finished"
    LOST = "Lost"


class LeaderElector:
    """Competes for one Lease.

    Args:
        client: The client of the cluster that holds the Lease.
        namespace: Namespace of the Lease.
        name: Name of the Lease; competitors share it.
        identity: Our name in the Lease, unique per process.
        lease: How long others wait for a silent holder before they take over.
        renew: How long the holder works on without a successful renewal; below `lease`.
        retry: The pause between renewals, or between attempts to take the Lease.
        clock: The clock for the times in the Lease, which only people read.
        fence: Told how long the Lease is held; by default nobody is told.
        jitter: Returns a number from 0 to 1.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        *,
        identity: str,
        lease: timedelta = timedelta(seconds=15),
        renew: timedelta = timedelta(seconds=10),
        retry: timedelta = timedelta(seconds=2),
        clock: Clock | None = None,
        fence: WriteFence | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not retry < renew < lease:
            raise ValueError("leader election needs retry < renew < lease")
        self.identity = identity
        self.holder = ""
        self.is_leader = False
        self._client = client
        self._namespace = namespace
        self._name = name
        self._lease_seconds = lease.total_seconds()
        self._renew_seconds = renew.total_seconds()
        self._retry_seconds = retry.total_seconds()
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._lease: dict[str, Any] | None = None
        self._record: tuple[Any, ...] | None = None
        self._record_seen_at = float("-inf")
        self._fence = fence or WriteFence()
        self._is_working = False

    def check(self) -> str | None:
        """Return a problem of the process: it lost the Lease and should have stopped, but runs.

        A holder that cannot renew ends its work before another holder begins, and then exits. A
        problem is returned only if that takes too long.
        """
        now, held_until = asyncio.get_running_loop().time(), self._fence.held_until
        if not self._is_working or held_until is None or now <= held_until + STOP_SECONDS:
            return None
        return (
            f'Lease "{self._title}" was not renewed in time, and the work did not end within '
            f"{STOP_SECONDS:g} s"
        )

    async def run(self, on_started: Callable[[], Awaitable[None]]) -> LeadershipEnd:
        """Wait for leadership, then do the work until it ends or leadership is lost.

        The work is cancelled and awaited before this returns, and the Lease is released unless it
        was lost. Cancelling this cancels the work.

        Returns:
            FINISHED if the work ended by itself; LOST if the Lease could not be kept: the fence
            refuses writes from then on, and the process must end. Errors of the work are raised.
        """
        renewed_at = await self._acquire()
        self._fence.held_until = renewed_at + self._renew_seconds
        self.is_leader = self._is_working = True
        log.info("became leader", lease=self._title, identity=self.identity)
        work = asyncio.ensure_future(on_started())
        keeper = asyncio.create_task(self._keep(renewed_at), name="leader-renewal")
        lost = False
        try:
            await asyncio.wait({work, keeper}, return_when=asyncio.FIRST_COMPLETED)
            lost = not work.done()
            if lost:
                # Another may hold it already. No write is sent any more while the process ends.
                self._fence.held_until = asyncio.get_running_loop().time()
        finally:
            self.is_leader = False
            # The work ends first: an earlier release would let two managers work at once.
            await _cancel(work)
            self._is_working = False
            await _cancel(keeper)
            if not lost:
                self._fence.held_until = None
                await self._release()
        if lost:
            keeper.result()
            log.error("lost leadership", lease=self._title, identity=self.identity)
            return LeadershipEnd.LOST
        work.result()
        return LeadershipEnd.FINISHED

    @property
    def _title(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def _acquire(self) -> float:
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                is_ours = await self._try(self._renew_seconds)
                if is_ours and loop.time() < begun + self._renew_seconds:
                    return begun
            except KubeError as error:
                log.warning("leader election failed", lease=self._title, error=str(error))
            await asyncio.sleep(self._retry_seconds * (1.0 + self._jitter()))

    async def _keep(self, renewed_at: float) -> None:
        """Renew until renewals fail for too long, or another process holds the Lease."""
        loop = asyncio.get_running_loop()
        while True:
            # The process may have been stopped for long since the last renewal was asked for.
            left = renewed_at + self._renew_seconds - loop.time()
            await asyncio.sleep(max(0.0, min(self._retry_seconds, left)))
            begun = loop.time()
            left = renewed_at + self._renew_seconds - begun
            if left <= 0:
                return
            try:
                if await self._try(min(left, self._renew_seconds / 2)):
                    renewed_at = begun
                    self._fence.held_until = begun + self._renew_seconds
                elif self.holder != self.identity:
                    return
            except KubeError as error:
                log.warning("lease not renewed", lease=self._title, error=str(error))

    async def _try(self, seconds: float) -> bool:
        """Take or renew the Lease; tell whether it is ours.

        Raises:
            KubeError: the outcome is not known.
        """
        try:
            async with asyncio.timeout(seconds):
                if self._lease is not None and self.holder == self.identity:
                    # Usually nobody touched it since our last renewal.
                    with contextlib.suppress(Conflict, NotFound):
                        return await self._write(self._lease)
                return await self._take()
        except TimeoutError as error:
            raise KubeError(f'Lease "{self._title}": no answer within {seconds:g} s') from error

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        if self.holder not in {"", self.identity} and not self._is_expired():
            return False
        try:
            return await self._write(lease)
        except Conflict:
            self._lease = None
            return False

    async def _create(self) -> bool:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(acquired=True, transitions=0),
        }
        try:
            self._observe(await self._client.create(LEASES, body))
        except AlreadyExists:
            return False
        return True

    async def _write(self, lease: dict[str, Any]) -> bool:
        """Write our name and time into the Lease, if nobody changed it since we read it."""
        spec = lease.get("spec") or {}
        acquired = spec.get("holderIdentity") != self.identity
        transitions = int(spec.get("leaseTransitions") or 0) + int(acquired)
        patch = {
            "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
            "spec": self._spec(acquired=acquired, transitions=transitions),
        }
        self._observe(
            await self._client.patch(LEASES, self._name, patch, namespace=self._namespace)
        )
        return True

    async def _release(self) -> None:
        """Release the Lease so that another can take over at once; best effort, it expires
        anyway.
        """
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._retry_seconds):
                # Read again: a renewal that was cancelled on its way may have arrived.
                self._observe(await self._client.get(LEASES, self._name, namespace=self._namespace))
                if self.holder == self.identity and self._lease is not None:
                    await self._hand_back(self._lease)
        self._lease, self.holder = None, ""

    async def _hand_back(self, lease: dict[str, Any]) -> None:
        patch = {
            "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
        }
        await self._client.patch(LEASES, self._name, patch, namespace=self._namespace)
        log.info("released leadership", lease=self._title, identity=self.identity)

    def _spec(self, *, acquired: bool, transitions: int) -> dict[str, Any]:
        now = format_micro_time(self._clock.now())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._lease_seconds)),
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        if acquired:
            spec["acquireTime"] = now
        return spec

    def _observe(self, lease: dict[str, Any]) -> None:
        spec = lease.get("spec") or {}
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("acquireTime"))
        if record != self._record:
            self._record = record
            self._record_seen_at = asyncio.get_running_loop().time()
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self.holder, self.identity}:
            log.info("another manager leads", lease=self._title, holder=holder)
        self._lease, self.holder = lease, holder

    def _is_expired(self) -> bool:
        """Tell whether the holder has not renewed within the duration in its Lease."""
        spec = (self._lease or {}).get("spec") or {}
        promised = float(spec.get("leaseDurationSeconds") or self._lease_seconds)
        return asyncio.get_running_loop().time() - self._record_seen_at >= promised


async def _cancel(task: asyncio.Future[None]) -> None:
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("leader's work failed", exc_info=error)
