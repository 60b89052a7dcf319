"""Runs a reconcile function for every key that changed, and again after a failure.

A key names an object, not an event. An error is logged with its cause, and the key is retried with
growing delays; other keys are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sized
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import structlog

from multiqueue.kube.errors import Conflict, KubeError
from multiqueue.kube.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)

log = structlog.get_logger(component="reconciler")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one reconcile.

    Attributes:
        requeue_after: Seconds until the next reconcile; None to wait for the next change.
    """

    requeue_after: float | None = None


DONE = Result()


class ReconcileOutcome(StrEnum):
    """How one reconcile ended."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    ERROR = "error"


class ReconcileMetrics(Protocol):
    """What counts reconciles; `multiqueue.observability` has it."""

    def observe_reconcile(self, reconciler: str, outcome: str, seconds: float) -> None:
        """Count one reconcile."""
        ...

    def watch_queue(self, reconciler: str, queue: Sized) -> None:
        """Show how many keys wait."""
        ...


class Reconciler(Generic[K]):
    """A queue of keys and the workers that empty it.

    Args:
        name: Names this reconciler in logs and metrics.
        reconcile: Brings the object of a key to its desired state; must be idempotent.
        concurrency: Number of keys that are reconciled at a time.
        turn: Entered before each reconcile, to wait for its turn, and left after it.
        metrics: Gets the outcome of every reconcile, and the queue, whose length it shows.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        concurrency: int = 1,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        metrics: ReconcileMetrics | None = None,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue()
        self._reconcile = reconcile
        self._concurrency = concurrency
        self._turn = turn
        self._metrics = metrics
        if metrics is not None:
            metrics.watch_queue(name, self.queue)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for number in range(self._concurrency):
                workers.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self.queue.get()
            begun = loop.time()
            try:
                outcome = await self._reconcile_one(key)
            except BaseException:
                # Cancelled during a reconcile: the next run, if there is one, begins with this key.
                self.queue.add(key)
                raise
            finally:
                self.queue.done(key)
            if self._metrics is not None:
                self._metrics.observe_reconcile(self.name, outcome, loop.time() - begun)

    async def _reconcile_one(self, key: K) -> ReconcileOutcome:
        try:
            async with self._turn():
                result = await self._reconcile(key)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The reconcile awaited something that was cancelled; this worker was not.
            stray = RuntimeError("it awaited something that was cancelled")
            stray.__cause__ = error
            return self._fail(key, stray)
        except Exception as error:  # noqa: BLE001 - one key must not stop the others
            return self._fail(key, error)
        self.queue.forget(key)
        if result.requeue_after is None:
            return ReconcileOutcome.SUCCESS
        self.queue.add_after(key, result.requeue_after)
        return ReconcileOutcome.REQUEUE_AFTER

    def _fail(self, key: K, error: Exception) -> ReconcileOutcome:
        self._log(key, error)
        self.queue.add_rate_limited(key)
        return ReconcileOutcome.ERROR

    def _log(self, key: K, error: Exception) -> None:
        about = {"reconciler": self.name, "object": str(key), "error": str(error)}
        failures = self.queue.failures(key) + 1
        if isinstance(error, Conflict):
            log.debug("object changed meanwhile, trying again", **about)
        elif isinstance(error, KubeError):
            log.warning("reconcile failed, trying again", failures=failures, **about)
        else:
            log.error("reconcile failed, trying again", failures=failures, exc_info=error, **about)
