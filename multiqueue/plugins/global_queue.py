"""Waiting for room in one line for all clusters, rather than in the queue of one of them.

Who stands in line has no copy anywhere: the first one that it is enough for gets what becomes free,
wherever that is. So that large gangs get their turn, room is kept for those in front; what is over
by then, or needs no more than is left beside it, goes first all the same (EASY backfilling).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from multiqueue.plugins.offers import REFERENCE, SOME_TIME, devices_on, find_speed
from multiqueue.plugins.option import Option, Tier
from multiqueue.plugins.suitability import scarce_resource
from multiqueue.plugins.view import ClusterClaim, ClusterView, CopyState, DispatchView, WorkloadView

LONGEST = timedelta(days=30)
"""As long as others may pass at most."""
MOVE = 2
"""A claim moves to another cluster where the wait is so many times shorter: estimates vary, and
what was kept on the first one until then is lost."""


def find_turn(workload: WorkloadView, *, percent: int) -> datetime:
    """Return when it is a Workload's turn: shorter and smaller ones may pass it until then.

    Args:
        workload: It.
        percent: For how much of the time that it is expected to take, of all its devices together,
            others may pass: with 10 a job of 8 GPUs and an hour lets those of the next 48 minutes
            go first that take less. 0: they come up as they were submitted.
    """
    runtime = workload.runtime
    expected = runtime.expected if runtime is not None else SOME_TIME
    devices = max(1, workload.total(scarce_resource(workload)))
    seconds = expected.total_seconds() * devices * percent / 100
    return workload.created_at + timedelta(seconds=min(LONGEST.total_seconds(), seconds))


def make_way(option: Option, view: DispatchView, turn: datetime | None) -> Option:
    """Return the option as one where the Workload waits, if room is kept there for who comes first.

    Whoever has ended before the other is expected to start, nine times out of ten, or takes no more
    than what will be left beside it, takes nothing from it.
    """
    if option.tier >= Tier.PERHAPS or option.cluster.copy is not CopyState.ABSENT:
        return option
    claims = _claims_before(option.cluster, view, turn)
    if not claims:
        return option
    ends, size = _ends_by(view, option), devices_on(view.workload, option)
    for claim in claims:
        if (claim.start is None or ends > claim.start) and size > claim.spare:
            return replace(option, tier=Tier.WAIT, kept_for=_describe(claim, view.workload))
    return option


def _describe(claim: ClusterClaim, workload: WorkloadView) -> str:
    """Name who comes first to those of its namespace only: users read this."""
    if claim.key.partition("/")[0] == workload.namespace:
        return f'Workload "{claim.key}"'
    return "a Workload of another namespace"


def _ends_by(view: DispatchView, option: Option) -> datetime:
    runtime = view.workload.runtime
    longest = runtime.high if runtime is not None else SOME_TIME
    return view.now + longest * REFERENCE / max(1, find_speed(view.workload, option))


def waits_in_global_queue(best: Option) -> bool:
    """Whether the best option is to wait, and nothing is gained by waiting there.

    Where others wait, too, who do not stand in this line, only a copy has a place among them.
    """
    if best.tier is not Tier.WAIT or best.disappointed or best.holds:
        return False
    cluster, start = best.cluster, best.forecast.start
    waiting = cluster.queue.pending if cluster.queue is not None else 0
    ahead = start.ahead if start is not None else 0
    return max(waiting, ahead) <= cluster.waiting


def find_claim(view: DispatchView, turn: datetime | None, options: Sequence[Option]) -> str:
    """Return where room shall be kept: where it starts first, of what nobody before it claimed."""
    starts = [
        (
            (option.forecast.start.at - view.now) / (MOVE if option.name == view.claim else 1),
            option.name,
        )
        for option in options
        if option.tier is Tier.WAIT
        and not option.disappointed
        and option.forecast.start is not None
        and not _claims_before(option.cluster, view, turn)
    ]
    return min(starts)[1] if starts else ""


def _claims_before(
    cluster: ClusterView, view: DispatchView, turn: datetime | None
) -> list[ClusterClaim]:
    if not cluster.claims:
        return []
    workload = view.workload
    own = (-workload.priority, turn or workload.created_at, workload.key)
    return [c for c in cluster.claims if (-c.priority, c.turn, c.key) < own]
