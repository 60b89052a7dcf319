"""The Workloads that wait for room, and their claims (see `plugins.global_queue`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.dispatch.wake.waiting import Rank
from multiqueue.plugins import (
    ClusterClaim,
    DispatchView,
    Nomination,
    QueuePlacement,
    WorkloadView,
    scarce_resource,
)
from multiqueue.plugins.global_queue import yields


class GlobalQueue:
    """The turns and claims of waiting Workloads.

    Args:
        is_waiting: Whether a Workload waits for a cluster; a Workload that does not wait has no
            claim. It may have been deleted while its dispatcher was asked.
    """

    def __init__(self, is_waiting: Callable[[str], bool]) -> None:
        self._is_waiting = is_waiting
        self._turns: dict[str, tuple[bool, str]] = {}
        self._places: dict[str, str] = {}
        self._claims: dict[str, dict[str, ClusterClaim]] = {}
        self._promised: dict[tuple[str, str], datetime] = {}

    def note(self, view: DispatchView, nomination: Nomination) -> None:
        """Record a nomination: the Workload joins the global queue, or is sent to a worker."""
        self.leave(view.workload.key)
        if nomination.global_queue is not None and not nomination.clusters:
            self._stand(view, nomination.global_queue)
            return
        for name in nomination.clusters:
            if name not in view.nominated:
                self._pass_by(name, view.workload)

    def _stand(self, view: DispatchView, place: QueuePlacement) -> None:
        workload = view.workload
        self._turns[workload.key] = place.yields, format_time(place.turn)
        cluster = view.find_cluster(place.claim)
        if cluster is None:
            return
        start = cluster.forecast.start if cluster.forecast is not None else None
        self._places[workload.key] = cluster.name
        self._claims.setdefault(cluster.name, {})[workload.key] = ClusterClaim(
            key=workload.key,
            priority=workload.priority,
            queue=cluster.queue.name if cluster.queue is not None else "",
            yields=yields(view, cluster, place.turn),
            turn=place.turn,
            created_at=workload.created_at,
            start=start.at if start is not None else None,
            spare=start.spare if start is not None else 0,
        )

    def _pass_by(self, cluster: str, workload: WorkloadView) -> None:
        """Count how much room a Workload sent to a cluster takes from Workloads that wait there."""
        size = workload.total(scarce_resource(workload))
        claims = self._claims.get(cluster, {})
        for key, claim in claims.items():
            claims[key] = replace(claim, spare=max(0, claim.spare - size))

    def leave(self, key: str) -> bool:
        """Remove a Workload that no longer waits; return whether room was kept for it."""
        self._turns.pop(key, None)
        cluster = self._places.pop(key, None)
        return cluster is not None and self._claims[cluster].pop(key, None) is not None

    def promise(self, cluster: str, key: str, start: datetime | None) -> None:
        """Keep all that becomes free on a cluster for a Workload's start at this time (P-54).

        None: no more.
        """
        self._promised.pop((cluster, key), None)
        if start is not None:
            self._promised[cluster, key] = start

    def give_turn(self, rank: Rank) -> Rank:
        """Return a Workload's rank with its turn in the global queue."""
        known = self._turns.get(rank.key)
        return rank if known is None else replace(rank, yields=known[0], turn=known[1])

    def find_own(self, key: str) -> str:
        """Return the cluster on which room is kept for a Workload; empty: none."""
        return self._places.get(key, "")

    def list_claims(self, cluster: str, *, without: str) -> tuple[ClusterClaim, ...]:
        """Return the claims on a cluster in order, except that of the Workload ``without``."""
        claims = self._claims.get(cluster)
        if not claims:
            return ()
        others = (c for key, c in claims.items() if key != without and self._is_waiting(key))
        return tuple(sorted((self._with_promise(cluster, c) for c in others), key=_order))

    def _with_promise(self, cluster: str, claim: ClusterClaim) -> ClusterClaim:
        start = self._promised.get((cluster, claim.key))
        return claim if start is None else replace(claim, created_at=None, start=start, spare=0)


def _order(claim: ClusterClaim) -> tuple[int, bool, datetime, str]:
    return -claim.priority, claim.yields, claim.turn, claim.key
