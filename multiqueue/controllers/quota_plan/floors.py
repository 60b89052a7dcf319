"""Quotas that no plan lowers, because jobs that nobody may stop hold a part of them. Pure.

Parity: P-105. If such a quota shrank, the newest of those jobs could be stopped after all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from multiqueue.controllers.quota_plan.demand import QuotaStay
from multiqueue.controllers.quota_plan.propose import NO_BOUNDS, PlanRules, QuotaKey
from multiqueue.lib.amount import Amount
from multiqueue.model.disruption_policy import NonPreemptibleRule
from multiqueue.model.resources import accelerators_of


def raise_bounds(
    rules: PlanRules,
    quotas: Mapping[QuotaKey, Amount],
    stays: Iterable[QuotaStay],
    parts: Mapping[str, NonPreemptibleRule],
    now: datetime,
) -> PlanRules:
    """Return the rules with bounds under which what such jobs hold stays within their part.

    Args:
        rules: Those of the spec.
        quotas: The nominal quotas now; no floor is above them.
        stays: What Workloads hold.
        parts: By ClusterQueue, how much of its quota such jobs may hold.
        now: The current time.
    """
    held: dict[QuotaKey, Amount] = {}
    for stay in stays:
        part = parts.get(stay.queue)
        if part is None or not part.allows(stay.non_preemptible_for) or stay.is_over(now):
            continue
        for place, amount in accelerators_of(stay.amounts).items():
            key = QuotaKey(stay.queue, *place)
            if key in quotas:
                held[key] = held.get(key, 0) + amount
    bounds = dict(rules.bounds)
    for key, amount in held.items():
        needed = -(-amount * 100 // parts[key.cluster_queue].percent)
        own = bounds.get(key, NO_BOUNDS)
        least = max(own.least, min(quotas[key], needed))
        most = None if own.most is None else max(own.most, least)
        bounds[key] = replace(own, least=least, most=most)
    return replace(rules, bounds=bounds)
