"""The outcome of a replay. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from multiqueue.engine.engine import Engine
from multiqueue.model.resources import is_accelerator


class ReplayFate(StrEnum):
    """What a replay does to a Workload."""

    KEEPS = "keeps"
    """It has quota in the snapshot and keeps it."""
    STARTS = "starts"
    """It waits in the snapshot and gets quota."""
    RESTARTS = "restarts"
    """It loses its quota and gets other quota."""
    STOPS = "stops"
    """It loses its quota and waits."""
    WAITS = "waits"

    @property
    def has_quota(self) -> bool:
        """Whether it has quota in the end."""
        return self in {ReplayFate.KEEPS, ReplayFate.STARTS, ReplayFate.RESTARTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A preemption or eviction of a replay.

    Attributes:
        by: Key of the Workload that needs the room; empty if there is none.
        reason: The reason of the Preempted condition, or of the eviction.
        message: The message of that condition.
        lost_seconds: How long it has run since its last start; a checkpoint may save some of it.
        released: The quota that it gave back, by (flavor, resource).
        notice_seconds: For how long a DisruptionPolicy lets it save its work before; 0: not at all.
    """

    by: str
    reason: str
    message: str
    lost_seconds: float
    released: dict[tuple[str, str], int]
    notice_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedWorkload:
    """A Workload at the end of a replay.

    Attributes:
        job: ``Kind/name`` of its job, or its own name.
        gpus: The accelerators that it asks for.
        order: Its place among the admissions of the replay, from 1; None if it has none.
        position: Its place in the ClusterQueue, from 1; None if it does not wait there.
        flavors: The flavors of its quota, sorted.
        borrows: Whether its admission borrowed; only of those that start.
        reason: Why it waits, for programs; empty if it has quota.
        why: Why it waits, in the words of `multiqueue why`.
        refusal: Why nobody is preempted for it, if it waits for quota.
        stop: How it lost the quota that it had; None if it did not.
    """

    key: str
    job: str
    queue: str
    cluster_queue: str
    priority: int
    gpus: int
    created_at: datetime
    fate: ReplayFate
    order: int | None = None
    position: int | None = None
    flavors: tuple[str, ...] = ()
    borrows: bool = False
    worker: str = ""
    reason: str = ""
    why: str = ""
    refusal: str = ""
    stop: Stop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSum:
    """The accelerators of one ClusterQueue."""

    nominal: int
    used: int
    borrowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """The result of a replay.

    Attributes:
        workloads: All unfinished Workloads, by key.
        queues: The accelerators of each ClusterQueue at the end.
        worker_gpus: The accelerators of all workers' ClusterQueues; None if some are unknown, or
            if there are no workers.
        problem: Objects that were left out, and why the replay ended early; empty if all is well.
    """

    workloads: dict[str, ReplayedWorkload]
    queues: dict[str, QueueSum]
    worker_gpus: int | None = None
    problem: str = ""

    @property
    def gpus_beyond_workers(self) -> int:
        """By how much the jobs with quota ask for more than the workers have: they wait there."""
        used = sum(queue.used for queue in self.queues.values())
        return max(0, used - self.worker_gpus) if self.worker_gpus is not None else 0


def sum_queues(engine: Engine, names: Iterable[str]) -> dict[str, QueueSum]:
    """Return the accelerators of ClusterQueues, as the engine counts them now."""
    states = ((name, engine.cluster_queue_state(name)) for name in sorted(names))
    return {
        name: QueueSum(
            nominal=_total(state.nominal),
            used=sum(
                used.total
                for resources in state.reservation.values()
                for resource, used in resources.items()
                if is_accelerator(resource)
            ),
            borrowed=sum(
                used.borrowed
                for resources in state.reservation.values()
                for resource, used in resources.items()
                if is_accelerator(resource)
            ),
        )
        for name, state in states
        if state is not None
    }


def _total(amounts: Mapping[str, Mapping[str, int]]) -> int:
    return sum(
        amount
        for resources in amounts.values()
        for resource, amount in resources.items()
        if is_accelerator(resource)
    )
