"""What the user is told about a drain: of one that runs, and of one that is only thought about.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiqueue.api.conditions import (
    CORDONED,
    DRAINED,
    DrainReason,
    WorkloadCondition,
    find_condition,
)
from multiqueue.api.v1beta2 import MultiKueueCluster, Workload
from multiqueue.api.workload_state import find, has_quota, is_finished
from multiqueue.cli.views.ages import format_seconds
from multiqueue.cli.views.workloads import view_workload
from multiqueue.multikueue.drains.conditions import describe_cordon
from multiqueue.multikueue.drains.orders import Pace, read_orders
from multiqueue.multikueue.drains.pace import Bucket, Resident, estimate_end, sort_residents
from multiqueue.multikueue.drains.report import parse_report
from multiqueue.multikueue.drains.stop_time import find_cut_off, find_stop_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Whether a worker is in use.

    Attributes:
        state: ``InUse``, ``Cordoned``, ``Draining``, ``Waiting``, ``Stuck``, ``Drained``, ...
        message: How far it is, or why; empty for a worker in use.
        is_seen: Whether a manager has acted on what is asked for.
    """

    state: str = "InUse"
    message: str = ""
    is_seen: bool = True

    @property
    def words(self) -> str:
        """The state for people."""
        return "In use" if self.state == "InUse" else self.state

    @property
    def is_drained(self) -> bool:
        """Whether nothing of ours is there any more."""
        return self.state == DrainReason.DRAINED

    @property
    def needs_help(self) -> bool:
        """Whether nothing more will happen before somebody acts."""
        return self.state in {DrainReason.STUCK, DrainReason.UNCLEAR}

    def to_dict(self) -> dict[str, Any]:
        """Return the form for ``-o json``."""
        report = parse_report(self.message)
        return {
            "state": self.state,
            "message": self.message or None,
            "moved": report.moved,
            "moving": report.moving,
            "left": report.left,
            "lostGpuHours": report.lost_gpu_hours,
            "estimatedEnd": report.ends_at.isoformat() if report.ends_at else None,
        }


IN_USE = Use()


def view_use(cluster: MultiKueueCluster) -> Use:
    """Read whether a worker is in use: what is asked for, and what the manager made of it."""
    orders = read_orders(cluster.metadata.annotations)
    conditions = cluster.status.conditions
    cordoned, drained = find_condition(conditions, CORDONED), find_condition(conditions, DRAINED)
    if not orders.cordoned:
        return IN_USE
    if orders.problem:
        return Use(state=DrainReason.UNCLEAR, message=orders.problem)
    name = cluster.metadata.name
    is_seen = cordoned is not None and cordoned.message == describe_cordon(name, orders)
    if orders.drain is None:
        return Use(state=DrainReason.CORDONED, message=orders.reason, is_seen=is_seen)
    if drained is None or not is_seen:
        return Use(state=DrainReason.DRAINING, is_seen=False)
    return Use(state=drained.reason, message=drained.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A Workload that a drain would move."""

    resident: Resident
    lost_gpu_hours: float
    cut_off: str

    def to_dict(self) -> dict[str, Any]:
        """Return the form for ``-o json``."""
        resident = self.resident
        return {
            "workload": resident.key,
            "priority": resident.priority,
            "gpus": resident.gpus,
            "admitted": resident.admitted_at.isoformat(),
            "lostGpuHours": round(self.lost_gpu_hours, 2),
            "graceSeconds": resident.stop.total_seconds(),
            "checkpointProblem": self.cut_off or None,
        }

    def row(self, now: datetime) -> list[str | int]:
        """Return the cells of the table."""
        resident = self.resident
        return [
            resident.key,
            resident.priority,
            resident.gpus,
            format_seconds((now - resident.admitted_at).total_seconds()),
            f"{self.lost_gpu_hours:.2f}",
            format_seconds(resident.stop.total_seconds()),
            self.cut_off,
        ]


MOVE_HEADERS = ("WORKLOAD", "PRIORITY", "GPUS", "RAN", "GPU-HOURS LOST", "GRACE", "CHECKPOINT")


def plan_moves(
    workloads: Iterable[Workload],
    worker: str,
    jobs: Mapping[str, Mapping[str, Any]],
    now: datetime,
) -> list[Move]:
    """Return what runs on a worker, in the order in which a drain would move it.

    Args:
        workloads: Of the manager.
        worker: Name of the MultiKueueCluster.
        jobs: By uid, where they are known: they may say how long a checkpoint takes.
        now: The time.
    """
    there = {
        workload.metadata.key: workload
        for workload in workloads
        if workload.status.cluster_name == worker
        and has_quota(workload.status)
        and not is_finished(workload.status)
    }
    moves = []
    for resident in sort_residents(_resident(workload, now) for workload in there.values()):
        owners = there[resident.key].metadata.owner_references
        job = next((jobs[owner.uid] for owner in owners if owner.uid in jobs), None)
        moves.append(
            Move(
                resident=resident,
                lost_gpu_hours=resident.lost_gpu_seconds(now) / 3600,
                cut_off=find_cut_off(there[resident.key], job),
            )
        )
    return moves


def estimate_moves(moves: list[Move], pace: Pace, now: datetime) -> datetime:
    """When all of them would have stopped, if there is room for each elsewhere."""
    stops = [move.resident.stop for move in moves]
    return estimate_end([], stops, bucket=Bucket.full(now), pace=pace, now=now)


def _resident(workload: Workload, now: datetime) -> Resident:
    view = view_workload(workload)
    admitted = find(workload.status, WorkloadCondition.ADMITTED)
    return Resident(
        key=view.key,
        priority=view.priority,
        gpus=view.gpus,
        admitted_at=admitted.transitioned_at if admitted is not None else now,
        stop=find_stop_time(workload),
    )
