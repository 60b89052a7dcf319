"""The engine's record of one LocalQueue."""

from __future__ import annotations

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.queues.entry import Entry
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import LocalQueue, StopPolicy


class LocalQueueRecord:
    """Counters of a LocalQueue, whether or not its object exists.

    Shape: ``entries`` are all its unfinished workloads by key; ``waiting`` of them are in a pending
    queue, ``reserving`` hold quota and ``admitted`` of those are admitted.
    """

    __slots__ = (
        "admitted",
        "admitted_usage",
        "entries",
        "reserved_usage",
        "reserving",
        "spec",
        "waiting",
    )

    def __init__(self) -> None:
        self.spec: LocalQueue | None = None
        self.entries: dict[str, Entry] = {}
        self.waiting = 0
        self.reserving = 0
        self.admitted = 0
        self.reserved_usage: dict[FlavorResource, Amount] = {}
        self.admitted_usage: dict[FlavorResource, Amount] = {}

    @property
    def is_open(self) -> bool:
        """Whether workloads may enter through this LocalQueue."""
        return (
            self.spec is not None
            and not self.spec.terminating
            and self.spec.stop_policy is StopPolicy.NONE
        )

    @property
    def cluster_queue(self) -> str:
        """The ClusterQueue that it names; "" if the object is missing."""
        return self.spec.cluster_queue if self.spec is not None else ""
