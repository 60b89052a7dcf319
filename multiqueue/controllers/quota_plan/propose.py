"""What the nominal quotas of a plan should be, from demand that was measured. Pure.

Parity: P-103, P-105 and P-113 to P-115. Deviates: the hash is that of what somebody agrees to, the
plan, its number of changes and all moves. A hash of the histograms too would change with every
sample, and an approval would come too late each time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from multiqueue.controllers.quota_plan.histogram import DemandHistogram, full_weight
from multiqueue.lib.amount import UNLIMITED, Amount
from multiqueue.model.resources import format_amount

SAMPLE_EVERY = timedelta(minutes=5)
LEAST_SAMPLED = 0.8
"""The part of the least history that must have been sampled."""
MONTH = timedelta(days=30)


class QuotaKey(NamedTuple):
    """One nominal quota."""

    cluster_queue: str
    flavor: str
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaBounds:
    """Limits of a nominal quota; ``most`` is None if there is none."""

    least: Amount = 0
    most: Amount | None = None


NO_BOUNDS = QuotaBounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """The spec of a plan as values.

    Attributes:
        name: The plan's name.
        changes: How many changes the plan has made; it makes the hashes of proposals different.
        steps: The step of each (flavor, resource) that the plan is about.
        bounds: Those of the spec.
    """

    name: str
    steps: Mapping[tuple[str, str], Amount]
    changes: int = 0
    every: timedelta = timedelta(hours=24)
    half_life: timedelta = timedelta(hours=168)
    least: timedelta = timedelta(hours=168)
    percentile: int = 80
    bounds: Mapping[QuotaKey, QuotaBounds] = field(default_factory=dict)
    percent: int = 10
    month_percent: int = 30
    deadband_percent: int = 5
    watch: timedelta = timedelta(hours=24)
    wait_percent: int = 50
    wait_at_least: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDemand:
    """The demand for one quota, and since when it is measured."""

    since: datetime
    histogram: DemandHistogram


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNow:
    """A nominal quota, and what it was 30 days ago or when the plan first changed it since."""

    nominal: Amount
    month_ago: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMove:
    """A change of one nominal quota."""

    key: QuotaKey
    before: Amount
    after: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Changes that leave the sums as they are."""

    moves: tuple[QuotaMove, ...]
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProposal:
    """Why there is none; ``state`` is one of `PLAN_STATES` of the API."""

    state: str
    message: str


def propose(
    history: Mapping[QuotaKey, MeasuredDemand],
    quotas: Mapping[QuotaKey, QuotaNow],
    rules: PlanRules,
    now: datetime,
) -> Proposal | NoProposal:
    """Return the next change of the quotas, or why there is none.

    Args:
        history: The demand; each quota without one counts as measured since now.
        quotas: All quotas of the plan's ClusterQueues for its resources.
        rules: The spec.
        now: The current time.
    """
    refusal = _find_impossible(quotas, rules) or _find_unknown(history, quotas, rules, now)
    if refusal is not None:
        return refusal
    moves: list[QuotaMove] = []
    for place, step in sorted(rules.steps.items()):
        keys = sorted(key for key in quotas if key[1:] == place)
        targets = _find_targets(keys, history, quotas, rules)
        moves.extend(_limit(keys, targets, quotas, rules, step))
    if not moves:
        return NoProposal(
            state="Unchanged",
            message=f"no quota has to change by {rules.deadband_percent} % or more",
        )
    return Proposal(moves=tuple(moves), hash=hash_moves(rules.name, rules.changes, moves))


def hash_moves(plan: str, changes: int, moves: Sequence[QuotaMove]) -> str:
    """Return what stands for some moves in ``spec.approved``."""
    content = [plan, changes, [[*move.key, move.before, move.after] for move in moves]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


# ---------------------------------------------------------------- refusals


def _find_impossible(quotas: Mapping[QuotaKey, QuotaNow], rules: PlanRules) -> NoProposal | None:
    for (flavor, resource), _ in sorted(rules.steps.items()):
        keys = sorted(key for key in quotas if key[1:] == (flavor, resource))
        unlimited = next((key for key in keys if quotas[key].nominal >= UNLIMITED), None)
        if unlimited is not None:
            return NoProposal(
                state="Impossible",
                message=f'ClusterQueue "{unlimited.cluster_queue}" has no limit of {resource} in '
                f"flavor {flavor}; give it a number, or take the resource out of spec.resources",
            )
        total = sum(quotas[key].nominal for key in keys)
        floors = {key: rules.bounds.get(key, NO_BOUNDS).least for key in keys}
        if sum(floors.values()) > total:
            named = " + ".join(
                f"{key.cluster_queue} {format_amount(resource, floor)}"
                for key, floor in floors.items()
                if floor
            )
            return NoProposal(
                state="Impossible",
                message=f"spec.bounds, and jobs that nobody may stop, need at least {named} = "
                f"{format_amount(resource, sum(floors.values()))} {resource} in flavor {flavor}, "
                f"and all queues together have {format_amount(resource, total)}; lower min",
            )
    return None


def _find_unknown(
    history: Mapping[QuotaKey, MeasuredDemand],
    quotas: Mapping[QuotaKey, QuotaNow],
    rules: PlanRules,
    now: datetime,
) -> NoProposal | None:
    wanted = full_weight(rules.least, SAMPLE_EVERY, rules.half_life)
    for key in sorted(quotas):
        measured = history.get(key)
        since = measured.since if measured is not None else now
        ready = since + rules.least
        weight = measured.histogram.weight if measured is not None else 0.0
        if ready > now:
            why = f"until {ready:%Y-%m-%d %H:%M} UTC at least"
        elif weight < LEAST_SAMPLED * wanted:
            why = f"{weight / wanted:.0%} of the time was sampled, {LEAST_SAMPLED:.0%} is needed"
        else:
            continue
        return NoProposal(
            state="Learning",
            message=f'demand of ClusterQueue "{key.cluster_queue}" is measured since '
            f"{since:%Y-%m-%d %H:%M} UTC: {why}",
        )
    return None


# ---------------------------------------------------------------- targets


def _find_targets(
    keys: Sequence[QuotaKey],
    history: Mapping[QuotaKey, MeasuredDemand],
    quotas: Mapping[QuotaKey, QuotaNow],
    rules: PlanRules,
) -> dict[QuotaKey, Fraction]:
    """Return where each quota should be, however far off that is."""
    total = sum(quotas[key].nominal for key in keys)
    bounds = {key: rules.bounds.get(key, NO_BOUNDS) for key in keys}
    floors = {key: Fraction(bounds[key].least) for key in keys}
    wants = {}
    for key in keys:
        want = Fraction(history[key].histogram.percentile(rules.percentile))
        most = bounds[key].most
        wants[key] = max(floors[key], want if most is None else min(want, Fraction(most)))
    rest = total - sum(wants.values(), Fraction(0))
    if rest < 0:
        over = {key: wants[key] - floors[key] for key in keys}
        room = total - sum(floors.values())
        whole = sum(over.values())
        return {key: floors[key] + room * over[key] / whole for key in keys}
    return _share_rest(wants, rest, {key: quotas[key].nominal for key in keys}, bounds)


def _share_rest(
    wants: dict[QuotaKey, Fraction],
    rest: Fraction,
    weights: Mapping[QuotaKey, Amount],
    bounds: Mapping[QuotaKey, QuotaBounds],
) -> dict[QuotaKey, Fraction]:
    """Share what is left in proportion to nominal quota; nobody gets more than its most."""
    targets = dict(wants)
    open_ = [key for key in targets if weights[key]]
    while rest > 0 and open_:
        whole = sum(weights[key] for key in open_)
        shares = {key: rest * weights[key] / whole for key in open_}
        full = []
        for key in open_:
            most = bounds[key].most
            if most is not None and targets[key] + shares[key] >= most:
                full.append((key, max(Fraction(0), most - targets[key])))
        if not full:
            return {key: targets[key] + shares.get(key, 0) for key in targets}
        for key, share in full:
            targets[key] += share
            rest -= share
            open_.remove(key)
    return targets


# ---------------------------------------------------------------- limits


def _limit(
    keys: Sequence[QuotaKey],
    targets: Mapping[QuotaKey, Fraction],
    quotas: Mapping[QuotaKey, QuotaNow],
    rules: PlanRules,
    step: Amount,
) -> list[QuotaMove]:
    """Return moves of whole steps that add up to nothing and stay within maxChange."""
    ups: dict[QuotaKey, int] = {}
    downs: dict[QuotaKey, int] = {}
    for key in keys:
        distance = targets[key] - quotas[key].nominal
        side = ups if distance > 0 else downs
        side[key] = int(
            min(abs(distance), _most_change(quotas[key], rules, step, distance)) // step
        )
    moved = min(sum(ups.values()), sum(downs.values()))
    changes = {
        **_scale(ups, moved),
        **{key: -steps for key, steps in _scale(downs, moved).items()},
    }
    moves = [
        QuotaMove(
            key=key,
            before=quotas[key].nominal,
            after=quotas[key].nominal + changes[key] * step,
        )
        for key in keys
        if changes[key]
    ]
    if any(
        abs(move.after - move.before) * 100 >= rules.deadband_percent * move.before
        for move in moves
    ):
        return moves
    return []


def _most_change(quota: QuotaNow, rules: PlanRules, step: Amount, distance: Fraction) -> Fraction:
    """Return how far a quota may move now."""
    most = max(Fraction(step), Fraction(quota.nominal * rules.percent, 100))
    if quota.month_ago is None:
        return most
    moved = quota.nominal - quota.month_ago
    done = moved if distance > 0 else -moved
    month = max(Fraction(step), Fraction(quota.month_ago * rules.month_percent, 100))
    return max(Fraction(0), min(most, month - done))


def _scale(sides: Mapping[QuotaKey, int], moved: int) -> dict[QuotaKey, int]:
    """Share a number of steps in proportion, by largest remainders; ties go by name."""
    whole = sum(sides.values())
    if not whole:
        return dict(sides)
    exact = {key: Fraction(steps * moved, whole) for key, steps in sides.items()}
    shares = {key: int(share) for key, share in exact.items()}
    left = moved - sum(shares.values())
    for key in sorted(exact, key=lambda key: (shares[key] - exact[key], key))[:left]:
        shares[key] += 1
    return shares
