"""Waiting in the global queue of all clusters, rather than in the queue of one cluster.

A Workload in the global queue has no copy on any cluster. When room becomes free on a cluster, the
first waiting Workload that fits there gets it. So that large gangs get their turn, room is kept for
the first Workloads once they have waited for some time. Another Workload may still go first if it
ends before that room is needed, or takes only what is left beside it (EASY backfilling).

As in a cluster's own queue, a Workload that would borrow comes after those within their own quota.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from multiqueue.model.turn import SOME_TIME, find_head_start
from multiqueue.plugins.offers import REFERENCE, devices_on, find_speed
from multiqueue.plugins.option import Option, Tier
from multiqueue.plugins.suitability import scarce_resource
from multiqueue.plugins.view import ClusterClaim, ClusterView, CopyState, DispatchView, WorkloadView

PATIENCE = timedelta(days=1)
"""So long after its turn, a Workload no longer yields."""
MOVE = 2
"""A claim moves to another cluster only if the wait there is shorter by this factor. Estimates
vary, and a move gives up the room that was kept on the first cluster."""


def find_turn(workload: WorkloadView, *, percent: int) -> datetime:
    """Return when a Workload's turn is; shorter and smaller Workloads may pass it until then.

    The mean of its run time counts: its median would let an unknown job, which may take very long,
    pass one that is known to be short.

    Args:
        workload: The Workload that waits.
        percent: The time for which others may pass, as a percentage of the Workload's expected
            device time (all devices together). With 10, a job of 8 GPUs and one hour lets jobs of
            the next 48 minutes go first if they take less. With 0, the order is that of submission.
    """
    runtime = workload.runtime
    expected = runtime.mean if runtime is not None else SOME_TIME
    devices = max(1, workload.total(scarce_resource(workload)))
    return workload.created_at + find_head_start(devices, expected, percent)


def yields(view: DispatchView, cluster: ClusterView, turn: datetime | None) -> bool:
    """Return whether a Workload lets those within their own quota go first on a cluster.

    It does if it would have to borrow now. It does not if it is larger than its queue's own quota,
    because then it has to borrow whenever it starts, nor if its turn was a day ago.
    """
    workload, queue = view.workload, cluster.queue
    scarce = scarce_resource(workload)
    if queue is None or view.now >= (turn or workload.created_at) + PATIENCE:
        return False
    asked = workload.total(scarce)
    own = [quota for (_, resource), quota in queue.quotas.items() if resource == scarce]
    can_wait = any(asked <= quota.nominal for quota in own)
    return can_wait and all(asked > quota.nominal - quota.used - quota.in_flight for quota in own)


def make_way(
    option: Option, view: DispatchView, turn: datetime | None, claim_after: timedelta
) -> Option:
    """Return the option, moved to `Tier.WAIT` if room there is kept for an earlier Workload.

    Room is kept for Workloads that are at least ``claim_after`` old. A Workload takes nothing from
    a claim if, nine times out of ten, it has ended before the claim is expected to start, or if it
    takes no more than what the claim leaves free.
    """
    if option.tier >= Tier.PERHAPS or option.cluster.copy is not CopyState.ABSENT:
        return option
    claims = _claims_before(option.cluster, view, turn, claim_after)
    if not claims:
        return option
    ends, size = _ends_by(view, option), devices_on(view.workload, option)
    for claim in claims:
        if (claim.start is None or ends > claim.start) and size > claim.spare:
            return replace(
                option, tier=Tier.WAIT, kept_for=name_for(claim.key, view.workload.namespace)
            )
    return option


def name_for(key: str, namespace: str) -> str:
    """Name a Workload that comes first, but only to users of its own namespace."""
    if key.partition("/")[0] == namespace:
        return f'Workload "{key}"'
    return "a Workload of another namespace"


def _ends_by(view: DispatchView, option: Option) -> datetime:
    runtime = view.workload.runtime
    longest = runtime.high if runtime is not None else SOME_TIME
    return view.now + longest * REFERENCE / max(1, find_speed(view.workload, option))


def waits_in_global_queue(best: Option) -> bool:
    """Whether waiting is the best option, and a copy on the cluster would gain nothing.

    If Workloads that are not in the global queue wait on the cluster too, only a copy has a
    position among them.
    """
    if best.tier is not Tier.WAIT or best.disappointed or best.holds:
        return False
    cluster, start = best.cluster, best.forecast.start
    waiting = cluster.queue.pending if cluster.queue is not None else 0
    ahead = start.ahead if start is not None else 0
    return max(waiting, ahead) <= cluster.waiting


def find_claim(
    view: DispatchView, turn: datetime | None, options: Sequence[Option], claim_after: timedelta
) -> str:
    """Return where to keep room: the earliest start without an earlier claim; else empty.

    Nobody makes way for a Workload that is younger than ``claim_after``. So its claim says only
    where it is expected to start, which is not known as long as any other claim is earlier.
    """
    if view.now < view.workload.created_at + claim_after:
        claim_after = timedelta()
    starts = [
        (
            (option.forecast.start.at - view.now) / (MOVE if option.name == view.claim else 1),
            option.name,
        )
        for option in options
        if option.tier is Tier.WAIT
        and not option.disappointed
        and option.forecast.start is not None
        and not _claims_before(option.cluster, view, turn, claim_after)
    ]
    return min(starts)[1] if starts else ""


def _claims_before(
    cluster: ClusterView, view: DispatchView, turn: datetime | None, claim_after: timedelta
) -> list[ClusterClaim]:
    """Return the claims of those that come first, and are at least ``claim_after`` old."""
    if not cluster.claims:
        return []
    workload = view.workload
    queue = cluster.queue.name if cluster.queue is not None else ""
    turn, is_yielding = turn or workload.created_at, yields(view, cluster, turn)

    def is_before(claim: ClusterClaim) -> bool:
        if claim.created_at is not None and view.now < claim.created_at + claim_after:
            return False
        if claim.priority != workload.priority:
            return claim.priority > workload.priority
        # Nobody passes a Workload of the same queue, which has to have room on its own quota, too.
        if claim.yields != is_yielding and claim.queue != queue:
            return is_yielding
        return (claim.turn, claim.key) < (turn, workload.key)

    return [claim for claim in cluster.claims if is_before(claim)]
