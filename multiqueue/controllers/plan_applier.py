"""Writes the plan of a cycle to the API server.

Called synchronously after each cycle. A bounded number of writers write the admissions, each in one
patch: quota, check list, the clusters of the first offer (`FleetGate.offer`) and, if all checks are
ready, Admitted. If a write fails, the engine forgets the admission, and the Workload queues again
in the state that the API server has, later after each failure. If the answer to a write got lost,
its outcome is looked up first. Workloads that wait for another reason than before go to the
workload controller, which writes it. `evictions` handles the Workloads that they preempt; an
admission that no writer has begun to write is taken back instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from multiqueue.api import v1beta2 as api
from multiqueue.api.config import Gate
from multiqueue.api.serde import decode
from multiqueue.api.unadmitted import tell_unadmitted
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_checks import sync_checks
from multiqueue.api.workload_readiness import begin_waiting
from multiqueue.api.workload_state import (
    has_quota,
    is_active,
    is_finished,
    is_on_hold,
    reserve_quota,
    sync_admitted,
)
from multiqueue.controllers.backlog import Backlog
from multiqueue.controllers.place_writer import PlaceWriter
from multiqueue.controllers.slice_handover import taken_over
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.jobs.context import ManagerContext, UnrecoverableError
from multiqueue.jobs.fleet_gate import FleetGate
from multiqueue.kube.backoff import Backoff, exponential
from multiqueue.kube.errors import Conflict, KubeError, NotFound
from multiqueue.model.build_workload import admission_to_wire

WRITERS = 64
"""Admissions written at the same time, for those with an offer and for the others each: at 5 ms a
request they use one API server fully."""
RETRY_SECONDS = 0.05
MAX_RETRY_SECONDS = 30.0
"""When a Workload whose admission was not written is tried again; the delay doubles from the first
failure in a row up to the cap. Others may be admitted meanwhile."""
READ_SECONDS = 0.2
MAX_READ_SECONDS = 10.0
"""How often a server that gives no answer is asked whether a write succeeded."""

log = structlog.get_logger("multiqueue.scheduler")


class OutdatedDecisionError(Exception):
    """The Workload changed since the decision."""


@dataclass(slots=True, kw_only=True, eq=False)
class PendingAdmission:
    """An admission that waits to be written, with the Workload that it was decided for.

    Shape: ``since``, when something made its cycle begin, and ``decided_at`` are times of the
    event loop. ``written`` is None until it is known.
    """

    decision: Admit
    since: float
    decided_at: float
    uid: str
    generation: int
    resource_version: str
    written: bool | None = None


class PlanApplier:
    """Writes the engine's decisions.

    Args:
        context: The manager's context.
        engine: Makes the decisions; receives the outcome of each write.
        gate: Names the clusters to which a Workload with quota is offered first.
        on_pending: Called with the key of each Workload that waits for another reason than before.
        on_forgotten: Called when the engine forgot an admission and has to decide again.
    """

    name = "admission-writer"

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        gate: FleetGate,
        *,
        on_pending: Callable[[str], None],
        on_forgotten: Callable[[], None],
    ) -> None:
        self._context = context
        self._engine = engine
        self._gate = gate
        self._on_pending = on_pending
        self._on_forgotten = on_forgotten
        self._places = PlaceWriter(context, engine, on_failed=on_forgotten)
        # They need no bound: quota limits how many there are. Those with an offer have their own
        # writers.
        self._waiting: Backlog[PendingAdmission] = Backlog()
        self._offered: Backlog[PendingAdmission] = Backlog()
        self._writing: dict[str, PendingAdmission] = {}  # the newest one of each workload
        self._failures: dict[str, int] = {}

    def find_unwritten(self, key: str) -> PendingAdmission | None:
        """Return the admission of this Workload that is decided but not yet written."""
        return self._writing.get(key)

    def take_back(self, admission: PendingAdmission) -> bool:
        """Take an admission back if no writer has begun to write it; return whether it was one.

        The engine forgets it, so its quota is free at once and the Workload waits as before.
        """
        key = admission.decision.workload
        if self._writing.get(key) is not admission or not self._drop(key):
            return False
        del self._writing[key]
        self._engine.forget(key, self._context.clock.now())
        self._on_pending(key)
        self._on_forgotten()
        return True

    def _drop(self, key: str) -> bool:
        """Remove what waits for a writer; return whether there was something."""
        return self._waiting.remove(key) or self._offered.remove(key)

    def apply(self, plan: CyclePlan, *, since: float | None = None) -> None:
        """Start to write a plan; never blocks.

        Args:
            plan: The plan of a cycle.
            since: When something made the cycle begin, in time of the event loop; None: now.
        """
        now = asyncio.get_running_loop().time()
        self._places.apply(plan)
        for decision in plan.decisions:
            if isinstance(decision, Admit):
                try:
                    self._enqueue(decision, now if since is None else since)
                except Exception:  # the other decisions must be written
                    log.exception("admission not written", workload=decision.workload)
                    self._writing.pop(decision.workload, None)
                    self._forget(decision.workload)
        for key in plan.explained:
            self._on_pending(key)

    async def run(self) -> None:
        """Write until cancelled.

        Raises:
            UnrecoverableError: the engine failed to record the outcome of a write; its usage may
                be too high or too low. Writers that are cancelled for that do not know whether
                their writes succeeded.
        """
        self._context.informers.workloads.add_handler(self._on_workload)
        try:
            async with asyncio.TaskGroup() as writers:
                writers.create_task(self._places.run(), name=self._places.name)
                for backlog in (self._waiting, self._offered):
                    for number in range(WRITERS):
                        writers.create_task(self._write_all(backlog), name=f"{self.name}-{number}")
        except Exception as error:
            raise UnrecoverableError(
                "it is not known any more which admissions are written; the process ends, and a "
                "new one reads all state from the API"
            ) from error

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None and old is not None:
            self._failures.pop(old.metadata.key, None)

    def _enqueue(self, decision: Admit, since: float) -> None:
        key = decision.workload
        workload = self._context.informers.workloads.store.get(key)
        if workload is None:
            self._forget(key)
            return
        if (older := self._writing.get(key)) is not None and self._drop(key):
            older.written = False
        admission = self._writing[key] = PendingAdmission(
            decision=decision,
            since=since,
            decided_at=asyncio.get_running_loop().time(),
            uid=workload.metadata.uid,
            generation=workload.metadata.generation,
            resource_version=workload.metadata.resource_version,
        )
        is_offered = decision.checks and self._gate.may_offer(decision.checks)
        backlog = self._offered if is_offered else self._waiting
        backlog.put(key, admission, priority=workload.spec.priority or 0)

    async def _write_all(self, backlog: Backlog[PendingAdmission]) -> None:
        while True:
            admission = await backlog.get()
            await self._write(admission)
            del admission  # an idle writer keeps nothing

    async def _write(self, admission: PendingAdmission) -> None:
        key, loop = admission.decision.workload, asyncio.get_running_loop()
        stages, begun = self._context.metrics.admission_stage_seconds, loop.time()
        stages.child("queue").observe(begun - admission.decided_at)
        written = forbidden = False
        try:
            written = await self._try(admission)
            stages.child("write").observe(loop.time() - begun)
            if written:
                reserve = self._context.metrics.stage_seconds.child("reserve", "")
                reserve.observe(loop.time() - admission.since)
        except OutdatedDecisionError as error:
            log.debug("admission outdated", workload=key, error=str(error))
            # The decision was made for this very state: deciding again would end here again.
            forbidden = self._version(key) == admission.resource_version
        finally:
            admission.written = written
            # Also if cancelled: the engine must not keep usage that was not written. A Workload
            # that was decided again meanwhile is charged for its newer admission.
            if self._writing.get(key) is admission:
                del self._writing[key]
                self._end(key, written=written, forbidden=forbidden)

    def _end(self, key: str, *, written: bool, forbidden: bool) -> None:
        if written:
            self._failures.pop(key, None)
            self._engine.confirm(key)
        elif forbidden:
            self._engine.set_aside(key, self._context.clock.now())
            self._on_forgotten()
        else:
            self._forget(key)

    async def _try(self, admission: PendingAdmission) -> bool:
        """Write an admission; return whether it is written."""
        key, now = admission.decision.workload, self._context.clock.now()
        try:
            await self._reserve(key, admission, now)
        except OutdatedDecisionError:
            raise
        except (NotFound, Conflict) as error:
            log.debug("admission outdated", workload=key, error=str(error))
        except KubeError as error:
            log.warning("admission not written, trying again", workload=key, error=str(error))
            return error.retryable and await self._is_written(key)
        except Exception:
            # An unexpected error for one Workload must not stop the writes of the others.
            log.exception("admission not written, trying again", workload=key)
        else:
            return True
        return False

    async def _reserve(self, key: str, admission: PendingAdmission, now: datetime) -> None:
        def change(newest: Workload) -> WorkloadStatus:
            return self._admitted(newest, admission, now)

        writer = self._context.writer
        if not admission.decision.checks:
            await writer.update_status(key, change)
            return
        newest = self._context.informers.workloads.store.get(key) or await writer.read(key)
        reserved = replace(newest, status=change(newest))
        async with self._gate.offer(reserved) as amend:
            await writer.update_status(key, lambda newest: amend(change(newest)))

    def _admitted(
        self, newest: Workload, admission: PendingAdmission, now: datetime
    ) -> WorkloadStatus:
        status = admitted_status(newest, admission, now)
        if admission.decision.replaces:
            old = self._context.informers.workloads.store.get(admission.decision.replaces)
            status = taken_over(status, old, now)
        config = self._context.config
        if config.gates.enabled(Gate.UNADMITTED_WORKLOADS_OBSERVABILITY):
            status = tell_unadmitted(status, now=now, generation=newest.metadata.generation)
        if config.wait_for_pods_ready is None:
            return status
        return begin_waiting(replace(newest, status=status), now=now)

    async def _is_written(self, key: str) -> bool:
        """Ask whether a write without an answer succeeded; keep its quota until then."""
        backoff = Backoff(base=READ_SECONDS, cap=MAX_READ_SECONDS)
        while True:
            try:
                return has_quota((await self._context.writer.read(key)).status)
            except KubeError as error:
                log.debug("workload not read", workload=key, error=str(error))
                if not error.retryable:
                    return False
            await asyncio.sleep(backoff.next())

    def _forget(self, key: str) -> None:
        now = self._context.clock.now()
        failures = self._failures.pop(key, 0) + 1
        if self._version(key):
            self._failures[key] = failures
        wait = exponential(failures, base=RETRY_SECONDS, cap=MAX_RETRY_SECONDS)
        self._engine.forget(key, now, retry_at=now + timedelta(seconds=wait))
        self._on_forgotten()

    def _version(self, key: str) -> str:
        workload = self._context.informers.workloads.store.get(key)
        return workload.metadata.resource_version if workload is not None else ""


def admitted_status(newest: Workload, admission: PendingAdmission, now: datetime) -> WorkloadStatus:
    """Return the status of a Workload with its admission, for a single write (E-83).

    Raises:
        OutdatedDecisionError: the Workload changed since the decision.
    """
    metadata, status = newest.metadata, newest.status
    if metadata.uid != admission.uid or metadata.deletion_timestamp:
        raise OutdatedDecisionError("the Workload was deleted")
    if metadata.generation != admission.generation:
        raise OutdatedDecisionError("the spec changed")
    waits = is_active(newest.spec) and not is_on_hold(status)
    if has_quota(status) or is_finished(status) or not waits:
        raise OutdatedDecisionError("the Workload is no longer pending")
    decision = admission.decision
    wire = admission_to_wire(decision.admission)
    reserved = reserve_quota(
        status,
        decode(api.Admission, wire),
        now=now,
        generation=metadata.generation,
        message=decision.message,
    )
    listed = sync_checks(reserved, decision.checks, now)
    return sync_admitted(listed, now=now, generation=metadata.generation)
