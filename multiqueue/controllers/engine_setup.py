"""Builds the engine from a Configuration. Pure."""

from __future__ import annotations

from multiqueue.api.config import Configuration, Gate
from multiqueue.api.config.types import BY_OWNER
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import (
    AdmissionFairSharing,
    EngineOptions,
    FairSharing,
    FairStrategy,
    TopologyScheduling,
    TurnRules,
)

IGNORE_UNDECLARED = "IgnoreUndeclared"


def build_engine(config: Configuration) -> Engine:
    """Return an empty engine with the options of a Configuration."""
    return Engine(engine_options(config))


def engine_options(config: Configuration) -> EngineOptions:
    """Return the engine options that the Configuration sets."""
    waiting, enabled = config.wait_for_pods_ready, config.gates.enabled
    strategy = config.resources.quota_check_strategy
    return EngineOptions(
        partial_admission=enabled(Gate.PARTIAL_ADMISSION),
        ignore_undeclared=enabled(Gate.QUOTA_CHECK_STRATEGY) and strategy == IGNORE_UNDECLARED,
        block_admission=waiting is not None and waiting.block_admission,
        fair_sharing=fair_sharing(config),
        admission_fair_sharing=admission_fair_sharing(config),
        topology=topology_scheduling(config),
        turns=TurnRules(
            by_priority=enabled(Gate.PRIORITY_SORTING_WITHIN_COHORT),
            preemptors_first=enabled(Gate.PRIORITIZE_PREEMPTOR_WORKLOADS),
        ),
        fungibility=enabled(Gate.FLAVOR_FUNGIBILITY),
        keep_scan_progress=enabled(Gate.FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS),
        park_equals=enabled(Gate.SCHEDULING_EQUIVALENCE_HASHING),
        recompute_overlap=enabled(Gate.RECOMPUTE_ASSIGNMENT_UPON_PREEMPTION_TARGETS_OVERLAP),
        preemption_gates=enabled(Gate.MULTIKUEUE_ORCHESTRATED_PREEMPTION)
        or enabled(Gate.CONCURRENT_ADMISSION),
    )


def fair_sharing(config: Configuration) -> FairSharing | None:
    """Return how ClusterQueues and Cohorts share quota; None without the section (E-64)."""
    if config.fair_sharing is None:
        return None
    enabled = config.gates.enabled
    return FairSharing(
        strategies=tuple(FairStrategy(name) for name in config.fair_sharing.preemption_strategies),
        preempt_within_nominal=enabled(Gate.FAIR_SHARING_PREEMPT_WITHIN_NOMINAL),
        prioritize_non_borrowing=enabled(Gate.FAIR_SHARING_PRIORITIZE_NON_BORROWING),
    )


def topology_scheduling(config: Configuration) -> TopologyScheduling | None:
    """Return how pods are placed (E-129 to E-152); None if the gate is off."""
    enabled = config.gates.enabled
    if not enabled(Gate.TOPOLOGY_AWARE_SCHEDULING):
        return None
    return TopologyScheduling(
        mixed_profile=enabled(Gate.TAS_PROFILE_MIXED),
        balanced_placement=enabled(Gate.TAS_BALANCED_PLACEMENT),
        preferred_affinity=enabled(Gate.TAS_RESPECT_NODE_AFFINITY_PREFERRED),
        overlapping_flavors=enabled(Gate.TAS_HANDLE_OVERLAPPING_FLAVORS),
        recompute=enabled(Gate.TAS_RECOMPUTE_ASSIGNMENT_WITHIN_SCHEDULING_CYCLE),
        replace_failed_nodes=enabled(Gate.TAS_FAILED_NODE_REPLACEMENT),
        fail_fast=enabled(Gate.TAS_FAILED_NODE_REPLACEMENT_FAIL_FAST),
    )


def admission_fair_sharing(config: Configuration) -> AdmissionFairSharing | None:
    """Return how past usage counts; None if it does not (E-20)."""
    section = config.admission_fair_sharing
    if section is None or not config.gates.enabled(Gate.ADMISSION_FAIR_SHARING):
        return None
    return AdmissionFairSharing(
        half_life=section.usage_half_life_time,
        sampling_interval=section.usage_sampling_interval,
        resource_weights=section.resource_weights,
        by_owner=section.by == BY_OWNER,
    )
