"""Choose one cluster: which clusters are candidates, in which order, and when to move.

A dispatcher that offers a Workload to one cluster at a time states its preference among the
options. The rest is the same for all such dispatchers:

1. Tiers: first clusters where the Workload fits, then those where it borrows, then those where
   other Workloads would be stopped for it, then unknown ones, then those where it must wait. All
   clusters of a tier come before those of the next. A dispatcher may accept a limited wait for a
   cluster that it prefers, and says how long.
2. A cluster that did not start the Workload in the expected time comes last for a while. Within a
   tier, clusters to avoid (such as tainted ones) come last.
3. A Workload moves only to a cluster of a better tier, so it does not wander.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from multiqueue.plugins.capacity import judge
from multiqueue.plugins.forecast import Forecast, Prospect
from multiqueue.plugins.foresee import forecast_of_fit
from multiqueue.plugins.global_queue import find_claim, make_way, waits_in_global_queue, yields
from multiqueue.plugins.nomination import ClusterVerdict, Nomination, QueuePlacement
from multiqueue.plugins.option import Option, Tier
from multiqueue.plugins.suitability import scarce_resource
from multiqueue.plugins.view import ClusterView, DispatchView

PATIENCE = timedelta(seconds=30)
"""A worker with room admits within a second or two. If it takes more than ten times as long,
something that the numbers do not show holds up its queue."""
STOP_TIME = timedelta(minutes=5)
"""Time that stopped Workloads may need to save their state."""
LOOK_AGAIN = timedelta(minutes=1)
"""The core asks again when room changes; this interval is for changes that it cannot see."""
LINE_AGAIN = timedelta(minutes=5)
"""The same interval for Workloads in the global queue, of which there may be many."""
GRUDGE = timedelta(minutes=5)
"""How long a cluster that did not start the Workload comes last."""


TIERS = {
    Prospect.FITS: Tier.FIT,
    Prospect.BORROWS: Tier.BORROW,
    Prospect.PREEMPTS: Tier.PREEMPT,
    Prospect.UNKNOWN: Tier.PERHAPS,
    Prospect.WAITS: Tier.WAIT,
}
PATIENCES = {
    Tier.SOON: PATIENCE,
    Tier.FIT: PATIENCE,
    Tier.BORROW: PATIENCE,
    Tier.PREEMPT: PATIENCE + STOP_TIME,
    Tier.PERHAPS: PATIENCE,
}
"""The time within which a cluster should start the Workload, by tier; other tiers have none."""


Preference = Callable[[Option], Any]
"""A sort key for options: a number, or a tuple of numbers. The smallest value is best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The assessment of all clusters of one view.

    Attributes:
        view: The view that was assessed.
        options: Clusters that could take the Workload, in the order of the view.
        refusals: Why the other clusters cannot take it, by name.
        turn: The Workload's turn in the global queue; None: it does not use the global queue, and
            waits on the cluster that is likely to start it first.
        claim_after: How old others must be for room to be kept for them.
    """

    view: DispatchView
    options: tuple[Option, ...]
    refusals: dict[str, str]
    turn: datetime | None = None
    claim_after: timedelta = timedelta()


def survey(
    view: DispatchView,
    *,
    why_not: Callable[[Option], str] = lambda _: "",
    may_wait: Callable[[Option], timedelta] | None = None,
    turn: datetime | None = None,
    claim_after: timedelta = timedelta(),
) -> Survey:
    """Assess all clusters of a view.

    Args:
        view: The view to assess.
        why_not: Returns why an option shall be refused; empty if it may be used. It is not asked
            about a cluster where the Workload already holds quota: it is about to run there.
        may_wait: How late a start may be and still count as a start now. If no other Workload
            would be stopped and the estimated start is within that time, the option is in
            `Tier.SOON`. None: a start now always comes first, whatever the preference.
        turn: The Workload's turn in the global queue (`QueuePlacement`); None: it waits on the
            cluster that is likely to start it first.
        claim_after: How old others in the global queue must be for this Workload to
            leave them the room that they need.
    """
    had = _how_long_lately(view)
    scarce = scarce_resource(view.workload)
    options: list[Option] = []
    refusals: dict[str, str] = {}
    for cluster in view.clusters:
        fit = judge(view.workload, cluster)
        forecast = cluster.forecast or forecast_of_fit(view.workload, cluster, fit)
        if cluster.unusable or forecast is None or forecast.prospect is Prospect.NEVER:
            refusals[cluster.name] = (
                cluster.unusable or (forecast.reason if forecast else "") or fit.reason
            )
            continue
        option = Option(
            cluster=cluster,
            fit=fit,
            forecast=forecast,
            scarce=scarce,
            flavors=_list_flavors(cluster, forecast, scarce),
            tier=TIERS[forecast.prospect],
        )
        allowed = None if may_wait is None else may_wait(option)
        option = _put_in_tier(option, view.now, had.get(cluster.name, timedelta()), allowed)
        option = make_way(option, view, turn, claim_after)
        if not option.holds and (why := why_not(option)):
            refusals[cluster.name] = why
        else:
            options.append(option)
    return Survey(
        view=view, options=tuple(options), refusals=refusals, turn=turn, claim_after=claim_after
    )


def _put_in_tier(
    option: Option, now: datetime, had: timedelta, may_wait: timedelta | None
) -> Option:
    """Return the option in its tier, given how long the cluster had the Workload lately."""
    tier, patience = option.tier, PATIENCES.get(option.tier)
    if may_wait is not None and _starts_within(option, now, may_wait):
        # A start may stay ten minutes off forever: such an estimate is not believed for longer.
        patience = patience or max(PATIENCE, may_wait)
        tier = Tier.SOON
    disappointed = patience is not None and had >= patience
    if tier is option.tier and not disappointed:
        return option
    return replace(option, tier=Tier.WAIT if disappointed else tier, disappointed=disappointed)


def _starts_within(option: Option, now: datetime, time: timedelta) -> bool:
    if option.tier in {Tier.PREEMPT, Tier.PERHAPS}:
        return False
    start = option.forecast.start
    if start is None:
        return option.tier is not Tier.WAIT and time >= timedelta()
    return start.at - now <= time


def _list_flavors(cluster: ClusterView, forecast: Forecast, scarce: str) -> tuple[str, ...]:
    taken = tuple([flavor for flavor, name in forecast.taken if name == scarce])
    queue = cluster.queue
    if taken or queue is None:
        return taken
    return tuple([flavor for flavor, name in queue.quotas if name == scarce])


def rank(options: Sequence[Option], preference: Preference) -> list[Option]:
    """Return the options, the best first; ties are broken by name."""
    return sorted(
        options,
        key=lambda o: (o.tier, bool(o.cluster.avoid), o.disappointed, preference(o), o.name),
    )


def bind(
    found: Survey,
    preference: Preference,
    *,
    because: Callable[[Option], str] = lambda _: "",
    race: int = 1,
) -> Nomination:
    """Nominate the best option, or the present one unless another is in a better tier.

    Args:
        found: The assessed clusters.
        preference: Orders the options of a tier.
        because: Explains the preference to users: the text ends the reason of each option.
        race: How many clusters are nominated at once if workers have admission checks of their
            own, so that quota there is not yet a start (machines must be provisioned, say).
    """
    view = found.view
    ranked = rank(found.options, preference)
    if not ranked:
        return Nomination(
            verdicts=_verdicts(found, (), because), ask_again_at=view.now + LOOK_AGAIN
        )
    best = _find_present(view, ranked) or ranked[0]
    if found.turn is not None and waits_in_global_queue(best):
        return Nomination(
            verdicts=_verdicts(found, (), because),
            ask_again_at=view.now + LINE_AGAIN,
            global_queue=QueuePlacement(
                turn=found.turn,
                claim=find_claim(view, found.turn, ranked, found.claim_after),
                yields=all(yields(view, each.cluster, found.turn) for each in ranked),
            ),
        )
    chosen = (best.name, *_rivals(view, best, ranked, race))
    return Nomination(
        clusters=chosen,
        verdicts=_verdicts(found, chosen, because),
        ask_again_at=_ask_again_at(view, best),
    )


def _rivals(
    view: DispatchView, best: Option, ranked: Sequence[Option], race: int
) -> tuple[str, ...]:
    """Return clusters to nominate beside the best; those that hold quota already are kept."""
    if race < 2 or not _is_provisioned(best):
        return ()
    others = [o for o in ranked if o is not best and o.tier is best.tier and _is_provisioned(o)]
    ahead = [o.name for o in others if o.name in view.nominated and o.holds]
    return tuple(dict.fromkeys([*ahead, *(o.name for o in others)]))[: max(race - 1, len(ahead))]


def _is_provisioned(option: Option) -> bool:
    queue = option.cluster.queue
    return queue is not None and bool(queue.checks)


def _find_present(view: DispatchView, ranked: Sequence[Option]) -> Option | None:
    """Return the option that has the Workload (the first of several); None if it should move."""
    offered = sorted(
        (option for option in ranked if option.name in view.nominated),
        key=lambda option: (not option.holds, option.name != view.nominated[0]),
    )
    present = offered[0] if offered else None
    if present is None or present.holds:
        return present
    is_first = present.name == view.nominated[0]
    return present if is_first and present.tier is ranked[0].tier else None


def _how_long_lately(view: DispatchView) -> dict[str, timedelta]:
    """Return, by cluster, the longest recent time with the Workload but without a start."""
    longest: dict[str, timedelta] = {}
    ends = [*(later.at for later in view.history[1:]), view.now]
    for round_, end in zip(view.history, ends, strict=False):
        if view.now - end < GRUDGE:
            for name in round_.clusters:
                longest[name] = max(longest.get(name, timedelta()), end - round_.at)
    return longest


def _ask_again_at(view: DispatchView, best: Option) -> datetime:
    is_there = view.nominated[:1] == (best.name,) and view.history
    begun = view.history[-1].at if is_there else view.now
    patience = PATIENCES.get(best.tier)
    if patience is not None and view.now - begun < patience:
        return begun + patience
    return view.now + LOOK_AGAIN


def _verdicts(
    found: Survey, chosen: Sequence[str], because: Callable[[Option], str]
) -> tuple[ClusterVerdict, ...]:
    options = (
        ClusterVerdict(
            cluster=option.name,
            nominated=option.name in chosen,
            reason=", ".join(
                filter(None, (_describe(option), option.cluster.avoid, because(option)))
            ),
            tier=option.tier.name.capitalize(),
        )
        for option in found.options
    )
    refusals = (
        ClusterVerdict(cluster=name, nominated=False, reason=why)
        for name, why in found.refusals.items()
    )
    return tuple(sorted((*options, *refusals), key=lambda verdict: verdict.cluster))


def _describe(option: Option) -> str:
    reason = option.forecast.reason or option.fit.reason
    if option.kept_for:
        reason = f"room is kept for {option.kept_for}, which comes first"
    return f"{reason}; did not start it before" if option.disappointed else reason
