"""Writes the node assignments of workloads that already hold quota (E-150, E-151).

Called synchronously after each cycle; a few writers write. Only the node assignment changes; the
rest of the admission stays. If a write fails, the engine learns of it and decides again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec
import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import (
    find,
    has_quota,
    is_evicted,
    is_finished,
    sync_admitted,
)
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import CyclePlan, PlaceFailed, PlacePods
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.model.topology_encoding import encode_topology

WRITERS = 4
"""Assignments written at the same time; they are rare: a node failed or was just provisioned."""

log = structlog.get_logger("multiqueue.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """A node assignment that waits to be written, and the reservation that it belongs to."""

    decision: PlacePods
    uid: str
    reserved_at: str

    @classmethod
    def of(cls, decision: PlacePods, workload: Workload) -> Placing:
        """Return the node assignment for a Workload in its present state."""
        return cls(
            decision=decision,
            uid=workload.metadata.uid,
            reserved_at=_reserved_at(workload.status),
        )


class PlaceWriter:
    """Writes the node assignments that the engine decided.

    Args:
        context: The manager's context.
        engine: Makes the decisions; receives the outcome of each write.
        on_failed: Called when the engine has to decide again.
    """

    name = "place-writer"

    def __init__(
        self, context: ManagerContext, engine: Engine, *, on_failed: Callable[[], None]
    ) -> None:
        self._context = context
        self._engine = engine
        self._on_failed = on_failed
        # Needs no bound: each holder of quota waits here at most once.
        self._waiting: asyncio.Queue[Placing] = asyncio.Queue()

    def apply(self, plan: CyclePlan) -> None:
        """Start to write the node assignments of a plan; never blocks."""
        for decision in plan.decisions:
            if isinstance(decision, PlacePods):
                workload = self._context.informers.workloads.store.get(decision.workload)
                if workload is not None:
                    self._waiting.put_nowait(Placing.of(decision, workload))
            elif isinstance(decision, PlaceFailed):
                self._tell(decision)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as writers:
            for number in range(WRITERS):
                writers.create_task(self._write_all(), name=f"{self.name}-{number}")

    async def _write_all(self) -> None:
        while True:
            await self._write(await self._waiting.get())

    async def _write(self, placing: Placing) -> None:
        key, now = placing.decision.workload, self._context.clock.now()
        try:
            await self._context.writer.update_status(
                key, lambda newest: placed_status(newest, placing, now)
            )
        except NotFound:
            self._engine.places_written(key, placing.decision.admission)
        except KubeError as error:
            log.warning("places not written, trying again", workload=key, error=str(error))
            self._fail(key)
        except Exception:
            # An unexpected error for one Workload must not stop the writes of the others.
            log.exception("places not written, trying again", workload=key)
            self._fail(key)
        else:
            self._engine.places_written(key, placing.decision.admission)

    def _fail(self, key: str) -> None:
        self._engine.places_failed(key, self._context.clock.now())
        self._on_failed()

    def _tell(self, decision: PlaceFailed) -> None:
        workload = self._context.informers.workloads.store.get(decision.workload)
        if workload is not None:
            reference = workload_reference(workload)
            self._context.recorder.event(reference, "Warning", "SecondPassFailed", decision.message)


def placed_status(newest: Workload, placing: Placing, now: datetime) -> WorkloadStatus:
    """Return the status with the assignment; the unchanged status if the workload changed."""
    metadata, status = newest.metadata, newest.status
    admission = status.admission
    is_other = metadata.uid != placing.uid or _reserved_at(status) != placing.reserved_at
    if (
        admission is None
        or not has_quota(status)
        or is_other
        or is_finished(status)
        or is_evicted(status)
    ):
        return status
    by_name = {pod_set.name: pod_set for pod_set in placing.decision.admission.pod_sets}
    used = {
        node
        for pod_set in by_name.values()
        if pod_set.topology is not None
        for node in pod_set.topology.nodes()
    }

    def place(assignment: api.PodSetAssignment) -> api.PodSetAssignment:
        found = by_name.get(assignment.name)
        if found is None or found.topology is None:
            return assignment
        return msgspec.structs.replace(
            assignment,
            topology_assignment=encode_topology(found.topology),
            delayed_topology_request=found.delayed_topology or None,
        )

    assignments = tuple(place(assignment) for assignment in admission.pod_set_assignments)
    status = msgspec.structs.replace(
        status,
        admission=msgspec.structs.replace(admission, pod_set_assignments=assignments),
        unhealthy_nodes=tuple(node for node in status.unhealthy_nodes if node.name in used),
    )
    return sync_admitted(status, now=now, generation=metadata.generation)


def _reserved_at(status: WorkloadStatus) -> str:
    reserved = find(status, WorkloadCondition.QUOTA_RESERVED)
    return reserved.last_transition_time if reserved is not None else ""
