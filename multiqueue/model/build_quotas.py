"""Quotas and policies of ClusterQueues and Cohorts as the engine's values. Called by `build`."""

from __future__ import annotations

from multiqueue.api import v1beta2 as api
from multiqueue.lib.quantity import Quantity, parse_quantity
from multiqueue.model import cluster_queue as model
from multiqueue.model.resources import parse_quota


def build_resource_groups(groups: tuple[api.ResourceGroup, ...]) -> tuple[model.ResourceGroup, ...]:
    """Turn the quotas of a ClusterQueue or a Cohort into the engine's values."""
    return tuple(
        model.ResourceGroup(
            covered_resources=group.covered_resources,
            flavors=tuple(
                model.FlavorQuotas(
                    name=flavor.name,
                    quotas={quota.name: _quota(quota) for quota in flavor.resources},
                )
                for flavor in group.flavors
            ),
        )
        for group in groups
    )


def _quota(quota: api.ResourceQuota) -> model.Quota:
    def limit(raw: str | float | None) -> int | None:
        return None if raw is None else parse_quota(quota.name, raw)

    return model.Quota(
        nominal=parse_quota(quota.name, quota.nominal_quota),
        borrowing_limit=limit(quota.borrowing_limit),
        lending_limit=limit(quota.lending_limit),
    )


def build_fungibility(obj: api.FlavorFungibility | None) -> model.FlavorFungibility:
    """Return the policy, with defaults for unset fields."""
    if obj is None:
        return model.FlavorFungibility()
    return model.FlavorFungibility(
        when_can_borrow=model.FungibilityPolicy(obj.when_can_borrow),
        when_can_preempt=model.FungibilityPolicy(obj.when_can_preempt),
        preference=model.FungibilityPreference(obj.preference)
        if obj.preference
        else model.FungibilityPreference.BORROWING_OVER_PREEMPTION,
    )


def build_preemption(obj: api.ClusterQueuePreemption | None) -> model.Preemption:
    """Return the preemption policy of a ClusterQueue; unset fields preempt nobody."""
    if obj is None:
        return model.Preemption()
    borrow = obj.borrow_within_cohort
    return model.Preemption(
        within_cluster_queue=model.PreemptionPolicy(obj.within_cluster_queue),
        reclaim_within_cohort=model.PreemptionPolicy(obj.reclaim_within_cohort),
        borrow_within_cohort=model.PreemptionPolicy(borrow.policy)
        if borrow
        else model.PreemptionPolicy.NEVER,
        borrow_max_priority_threshold=borrow.max_priority_threshold if borrow else None,
    )


def build_weight(obj: api.FairSharing | None) -> Quantity:
    """Return the weight in fair sharing."""
    return model.DEFAULT_WEIGHT if obj is None or obj.weight is None else parse_quantity(obj.weight)
