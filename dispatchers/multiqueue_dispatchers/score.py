"""Send each gang to the one worker that suits it best, judged from the workers' live queues.

1. Filter: connected, kind served, LocalQueue present, asked hardware present, gang not too large.
2. Tiers: where it fits now, then where nothing is known, then where it has to wait.
3. Within a tier: those that nothing speaks against, then the hardware that was asked for, then the
   least left over (so that large gangs find large gaps; the argument ``placement: Spread`` takes
   the most, so that many small jobs are dealt out evenly), or for waiting the least demand; at
   last the name.

There is one remote copy at a time. A Workload stays where it is unless another cluster is in a
better tier, so it does not wander; a cluster that was expected to start it and did not within
`PATIENCE` counts as one where it has to wait, for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import IntEnum

from multiqueue.plugins import (
    ClusterVerdict,
    ClusterView,
    CopyState,
    DispatchView,
    Fit,
    Nomination,
    Outlook,
    judge,
    read_choice,
)

PATIENCE = timedelta(seconds=30)
"""A worker with room admits within a second or two; ten times that means that its queue is held up
by something that the figures do not show."""
LOOK_AGAIN = timedelta(minutes=1)
"""The core asks again when room changes; this is for what it cannot see."""
GRUDGE = timedelta(minutes=5)
"""How long a cluster that did not start the Workload is put last."""


class Tier(IntEnum):
    """How soon a cluster could start the Workload; smaller is better."""

    NOW = 0
    PERHAPS = 1
    LATER = 2


_TIERS = {Outlook.FITS: Tier.NOW, Outlook.UNKNOWN: Tier.PERHAPS, Outlook.WAITS: Tier.LATER}

Rank = tuple[int, ...]


class Score:
    """Nominates one cluster: the best of the best tier."""

    name = "score"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the one cluster that suits best."""
        fits = {cluster.name: judge(view.workload, cluster) for cluster in view.clusters}
        failed = frozenset(_failed_lately(view))
        spreads = read_choice(view.arguments, "placement", ("Pack", "Spread"), "Pack") == "Spread"
        ranked = sorted(
            (_rank(cluster, fit, failed, spreads=spreads), cluster.name)
            for cluster in view.clusters
            if (fit := fits[cluster.name]).outlook in _TIERS
        )
        if not ranked:
            return Nomination(
                verdicts=_verdicts(view, fits, ""), ask_again_at=view.now + LOOK_AGAIN
            )
        chosen = _stay(view, ranked) or ranked[0][1]
        return Nomination(
            clusters=(chosen,),
            verdicts=_verdicts(view, fits, chosen),
            ask_again_at=_ask_again_at(view, chosen, fits[chosen]),
        )


def _rank(cluster: ClusterView, fit: Fit, failed: frozenset[str], *, spreads: bool) -> Rank:
    tier = _TIERS[fit.outlook]
    disappointing = cluster.name in failed and tier is not Tier.LATER
    avoided = bool(cluster.avoid)
    if fit.outlook is Outlook.FITS:
        order: Rank = (-fit.grade, -fit.preference, -fit.spare if spreads else fit.spare)
    elif fit.outlook is Outlook.UNKNOWN:
        order = (cluster.waiting, cluster.running, 0)
    else:
        order = (-fit.grade, -fit.preference, fit.load_permille)
    return (Tier.LATER if disappointing else tier, avoided, disappointing, *order)


def _stay(view: DispatchView, ranked: list[tuple[Rank, str]]) -> str | None:
    """Return the present cluster, unless another one is in a better tier."""
    if len(view.nominated) != 1:
        return None
    present = view.nominated[0]
    cluster = view.find_cluster(present)
    rank = next((rank for rank, name in ranked if name == present), None)
    if cluster is None or rank is None:
        return None
    if cluster.copy is CopyState.RESERVED or rank[0] == ranked[0][0][0]:
        return present
    return None


def _failed_lately(view: DispatchView) -> Iterator[str]:
    """Yield clusters that had the Workload for `PATIENCE` and did not start it."""
    ends = [*(later.at for later in view.history[1:]), view.now]
    for round_, end in zip(view.history, ends, strict=False):
        if end - round_.at >= PATIENCE and view.now - end < GRUDGE:
            yield from round_.clusters


def _ask_again_at(view: DispatchView, chosen: str, fit: Fit) -> datetime:
    begun = view.history[-1].at if view.nominated == (chosen,) and view.history else view.now
    if fit.outlook is Outlook.FITS and view.now - begun < PATIENCE:
        return begun + PATIENCE
    return view.now + LOOK_AGAIN


def _verdicts(view: DispatchView, fits: dict[str, Fit], chosen: str) -> tuple[ClusterVerdict, ...]:
    avoid = {cluster.name: cluster.avoid for cluster in view.clusters}
    return tuple(
        ClusterVerdict(
            cluster=name,
            nominated=name == chosen,
            reason=", ".join(filter(None, (fit.reason, avoid[name]))),
        )
        for name, fit in sorted(fits.items())
    )
