"""State of queues and waiting workloads, as the engine reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from multiqueue.api.conditions import QueueReason
from multiqueue.engine.cache.drs import Share
from multiqueue.lib.amount import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedQuota:
    """How much of one resource in one flavor is used, and how much of that is borrowed."""

    total: Amount = 0
    borrowed: Amount = 0


Usage = Mapping[str, Mapping[str, UsedQuota]]
"""Flavor -> resource -> used, in the order of the spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueState:
    """Observed state of a ClusterQueue.

    Shape: ``reservation`` counts workloads that hold quota, ``usage`` only admitted ones. Of the
    ``pending``, those that wait for a wake or a backoff are ``inadmissible``; all of them if the
    queue is not active (E-194).
    ``nominal``, ``free`` and ``borrowable`` are by flavor and resource: quota of the queue itself,
    its unused part, and what the cohort could lend now in addition; the limits are None if there
    are none. ``pending_requests`` is what those that wait ask for in all; ``classes`` counts the
    different ones among them, ``active_classes`` those that are not inadmissible. ``root`` is the
    cohort at the top of its tree. ``weighted_share`` is None without fair sharing.
    """

    name: str
    active: bool
    reason: QueueReason
    message: str
    pending: int = 0
    inadmissible: int = 0
    reserving: int = 0
    admitted: int = 0
    reservation: Usage = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)
    nominal: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    free: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    borrowable: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    borrowing_limit: Mapping[str, Mapping[str, Amount | None]] = field(default_factory=dict)
    lending_limit: Mapping[str, Mapping[str, Amount | None]] = field(default_factory=dict)
    pending_requests: Mapping[str, Amount] = field(default_factory=dict)
    classes: int = 0
    active_classes: int = 0
    root: str = ""
    weighted_share: Share | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortState:
    """Observed state of a Cohort.

    Shape: ``parent`` is "" at the top of a tree. ``quota`` is what all below it may share,
    ``reservation`` what their workloads hold, by flavor and resource; ``admitted`` counts
    workloads. ``weighted_share`` is None without fair sharing.
    """

    name: str
    parent: str = ""
    root: str = ""
    admitted: int = 0
    quota: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    reservation: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    weighted_share: Share | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueState:
    """Observed state of a LocalQueue; ``inadmissible`` as in `ClusterQueueState`."""

    key: str
    active: bool
    reason: QueueReason
    message: str
    pending: int = 0
    inadmissible: int = 0
    reserving: int = 0
    admitted: int = 0
    reservation: Usage = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWorkload:
    """A waiting workload with its positions in the ClusterQueue and the LocalQueue, from 0."""

    workload: str
    local_queue: str
    priority: int
    position_in_cluster_queue: int
    position_in_local_queue: int
    parked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Queues, and cohorts above them, whose state may have changed since the last call.

    All sorted.
    """

    cluster_queues: tuple[str, ...] = ()
    local_queues: tuple[str, ...] = ()
    cohorts: tuple[str, ...] = ()
