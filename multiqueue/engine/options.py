"""Options of the Configuration that change the engine's decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum


class FairStrategy(StrEnum):
    """Which shares workloads may be preempted from (E-99)."""

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    LESS_THAN_INITIAL_SHARE = "LessThanInitialShare"


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    """Fair sharing between the ClusterQueues and Cohorts of a tree (E-64 to E-66, E-96 to E-101).

    Args:
        strategies: one or two; the second is tried when the first makes too little room.
        preempt_within_nominal: gate FairSharingPreemptWithinNominal.
        prioritize_non_borrowing: gate FairSharingPrioritizeNonBorrowing.
    """

    strategies: tuple[FairStrategy, ...] = (
        FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,
        FairStrategy.LESS_THAN_INITIAL_SHARE,
    )
    preempt_within_nominal: bool = True
    prioritize_non_borrowing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """Fair sharing between the LocalQueues of a ClusterQueue by past usage (E-120 to E-128).

    Args:
        half_life: time after which past usage counts half; zero drops it at once.
        sampling_interval: how often usage is sampled; positive.
        resource_weights: by resource; 1 for those that are absent.
        by_owner: whether the LocalQueues of one owner count as one (P-121).
    """

    half_life: timedelta = timedelta(0)
    sampling_interval: timedelta = timedelta(minutes=5)
    resource_weights: Mapping[str, float] = field(default_factory=dict)
    by_owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyScheduling:
    """How pods are placed in topologies (E-129 to E-152); each is a gate.

    Args:
        mixed_profile: TASProfileMixed: ``unconstrained`` takes the fullest nodes.
        balanced_placement: TASBalancedPlacement: ``preferred`` spreads evenly.
        preferred_affinity: TASRespectNodeAffinityPreferred.
        overlapping_flavors: TASHandleOverlappingFlavors: a node of two flavors counts once.
        recompute: TASRecomputeAssignmentWithinSchedulingCycle: a head whose nodes were taken in
            its cycle looks for others at once.
        replace_failed_nodes: TASFailedNodeReplacement.
        fail_fast: TASFailedNodeReplacementFailFast: evict if no other node is found at once.
    """

    mixed_profile: bool = True
    balanced_placement: bool = False
    preferred_affinity: bool = False
    overlapping_flavors: bool = True
    recompute: bool = True
    replace_failed_nodes: bool = True
    fail_fast: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRules:
    """What decides the order of heads of several queues (E-63, E-65); each is a gate.

    Args:
        by_priority: PrioritySortingWithinCohort: the higher priority goes before the earlier one.
        preemptors_first: PrioritizePreemptorWorkloads: a head for which others leave goes first,
            and keeps quota if it finds nobody more to preempt (E-73).
    """

    by_priority: bool = True
    preemptors_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Fixed when the engine is made.

    Args:
        wake_batch: time from the first notification until parked workloads are tried again. One
            second, as E-27 has it, so that changes that belong together can arrive.
        busy_wake_batch: the same in a tree that was woken less than a `wake_batch` ago. In
            upstream's benchmark full seconds leave 44 % of the quota unused while work waits.
        decision_budget: heads judged per `Engine.run_cycle`, so that one call stays below the
            20 ms in which the event loop wants control back. At about 40 us a decision, 400 fit.
        partial_admission: whether pod sets with a minimum count may be admitted smaller (E-60).
        ignore_undeclared: quotaCheckStrategy IgnoreUndeclared: resources that no resource group
            covers need no quota (E-61).
        block_admission: whether nobody is admitted while a holder of quota waits for its pods to
            be ready (E-81).
        fair_sharing: None for the classical order and preemption.
        admission_fair_sharing: None if past usage does not count.
        topology: None if pods are not placed: gate TopologyAwareScheduling.
        turns: the order in which a cycle decides on its heads.
        fungibility: gate FlavorFungibility: ClusterQueues say when the next flavor is tried, and
            the search resumes; without it the best mode wins and each search starts over (E-52).
        keep_scan_progress: gate FlavorFungibilityPreserveScanProgress: an update of a workload that
            changes no request does not restart its search for flavors (E-41).
        park_equals: gate SchedulingEquivalenceHashing: a verdict holds for all equivalent
            workloads, which park together (E-25).
        recompute_overlap: gate RecomputeAssignmentUponPreemptionTargetsOverlap: a head whose
            targets leave for another one searches for others at once (E-70), else in a later cycle.
        preemption_gates: gate MultiKueueOrchestratedPreemption: a workload with a closed gate
            preempts nobody (E-74).
    """

    wake_batch: timedelta = timedelta(seconds=1)
    busy_wake_batch: timedelta = timedelta(milliseconds=20)
    decision_budget: int = 400
    partial_admission: bool = True
    ignore_undeclared: bool = False
    block_admission: bool = False
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    topology: TopologyScheduling | None = TopologyScheduling()
    turns: TurnRules = TurnRules()
    fungibility: bool = True
    keep_scan_progress: bool = True
    park_equals: bool = True
    recompute_overlap: bool = True
    preemption_gates: bool = False
