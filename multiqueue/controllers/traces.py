"""Sends the lives of Workloads as traces to a collector: OTLP over HTTP, in JSON.

Only the leader sends. What happens while nobody leads is in no trace. `views.otlp_spans` makes the
spans when their phases are over, with ids that follow from the Workload. The SDK of OpenTelemetry
makes spans while they happen, with random ids, and its exporter blocks; so it is not used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import aiohttp
import orjson
import structlog

from multiqueue.api.names import TRACE_PARENT
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.variants import parent_of
from multiqueue.api.workload_state import is_finished
from multiqueue.capacity.owners import find_job
from multiqueue.controllers.posting import post, read_secret
from multiqueue.jobs.context import ManagerContext
from multiqueue.views.otlp_spans import (
    build_hold_spans,
    build_request,
    build_root_span,
    build_wait_span,
    has_run,
    is_sampled,
)
from multiqueue.views.phase import find_phase
from multiqueue.views.usage import UsageOutcome, end_hold

MAX_WAITING = 2048
"""Spans that wait to be sent; then the oldest are dropped. Parity: S-132."""
MAX_AT_ONCE = 512
PAUSE_SECONDS = 5.0
"""Pause before a request, so that it has the spans of some seconds."""
MOST_SECONDS = 60.0
"""Longest pause before the same spans are sent again; it doubles each time."""

Json = Mapping[str, Any]
log = structlog.get_logger("multiqueue.traces")


class TraceExporter:
    """Sends spans while it runs.

    Args:
        context: The manager's context.
    """

    name = "traces"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._informer = context.informers.workloads
        self._config = context.config.traces
        self._count = context.metrics.trace_spans_total
        self._waiting: deque[Json] = deque()
        self._filled = asyncio.Event()
        self._told = ""

    async def run(self) -> None:
        """Follow Workloads and send until cancelled."""
        await self._informer.settled.wait()
        self._informer.add_handler(self.follow)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            while True:
                await self._filled.wait()
                await asyncio.sleep(PAUSE_SECONDS)
                while self._waiting:
                    await self._send(session)
                self._filled.clear()

    def follow(self, old: Workload | None, new: Workload | None) -> None:
        """Take over a change of a Workload; its first state ends nothing."""
        if old is None or parent_of(old) is not None:
            return
        if new is not None and new.metadata.uid != old.metadata.uid:
            new = None
        for span in self._list_spans(old, new):
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.popleft()
                self._count.child("dropped").inc()
            self._waiting.append(span)
            self._filled.set()

    def _list_spans(self, old: Workload, new: Workload | None) -> Iterator[Json]:
        """Yield the spans that ended between two states of a Workload."""
        now, last = self._context.clock.now(), new or old
        hold = end_hold(old, new, now)
        is_over = not is_finished(old.status) and (new is None or is_finished(new.status))
        if hold is None and not is_over and not has_run(old):
            return
        is_bad = hold is not None and hold.outcome in {UsageOutcome.LOST, UsageOutcome.FAILED}
        uid = old.metadata.uid
        if not (is_bad or has_run(last) or is_sampled(uid, self._config.sample)):
            return
        yield from build_wait_span(old, last)
        if hold is not None:
            yield from build_hold_spans(last if is_finished(last.status) else old, hold)
        if is_over:
            ended = find_phase(last).since if new is not None else None
            yield build_root_span(last, ended or now, self._find_trace_parent(last))

    def _find_trace_parent(self, workload: Workload) -> str:
        job = find_job(workload, self._context)
        declared = (job["metadata"].get("annotations") or {}) if job is not None else {}
        return str({**declared, **workload.metadata.annotations}.get(TRACE_PARENT, ""))

    async def _send(self, session: aiohttp.ClientSession) -> None:
        """Send some of the spans that wait; again and again while the collector is away."""
        batch = [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, len(self._waiting)))]
        body, pause = orjson.dumps(build_request(batch)), PAUSE_SECONDS
        while True:
            problem, again = await self._try_send(session, body)
            if problem != self._told:
                self._told = problem
                told = log.warning if problem else log.info
                told("traces not sent" if problem else "traces are sent again", problem=problem)
            if not again:
                self._count.child("refused" if problem else "sent").inc(len(batch))
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_SECONDS)

    async def _try_send(self, session: aiohttp.ClientSession, body: bytes) -> tuple[str, bool]:
        path = self._config.headers_file
        headers = {"Content-Type": "application/json"}
        try:
            for line in read_secret(path).splitlines() if path else ():
                name, _, value = line.partition(":")
                headers[name.strip()] = value.strip()
        except (OSError, ValueError) as error:
            return f"{path}: {error.strerror if isinstance(error, OSError) else error}", True
        return await post(session, self._config.endpoint, body, headers)
