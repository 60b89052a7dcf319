"""What a Configuration makes of the engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multiqueue.api.config import Configuration, FairSharing, build_configuration
from multiqueue.api.config.gates import find_gate_errors
from multiqueue.api.config.types import AdmissionFairSharing, Resources
from multiqueue.api.durations import Duration
from multiqueue.controllers.engine_setup import engine_options
from multiqueue.engine import options
from multiqueue.engine.options import FairStrategy, TurnRules


def test_queues_share_only_with_the_section() -> None:
    assert engine_options(Configuration()).fair_sharing is None


def test_strategies_and_gates_of_fair_sharing() -> None:
    section = FairSharing(preemption_strategies=("LessThanInitialShare",))
    sharing = engine_options(Configuration(fair_sharing=section)).fair_sharing

    assert sharing == options.FairSharing(strategies=(FairStrategy.LESS_THAN_INITIAL_SHARE,))


def test_the_gates_of_fair_sharing_turn_rules_off() -> None:
    section = FairSharing(preemption_strategies=("LessThanOrEqualToFinalShare",))
    off = {"FairSharingPreemptWithinNominal": False, "FairSharingPrioritizeNonBorrowing": False}
    config = Configuration(fair_sharing=section, feature_gates=off)

    assert engine_options(config).fair_sharing == options.FairSharing(
        strategies=(FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,),
        preempt_within_nominal=False,
        prioritize_non_borrowing=False,
    )


def test_each_gate_of_topologies_decides_one_thing() -> None:
    gates = {"TASProfileMixed": False, "TASBalancedPlacement": True}
    off = {"TASHandleOverlappingFlavors": False, "TASFailedNodeReplacementFailFast": False}
    config = Configuration(feature_gates={**gates, **off})

    assert engine_options(Configuration()).topology == options.TopologyScheduling()
    assert engine_options(config).topology == options.TopologyScheduling(
        mixed_profile=False, balanced_placement=True, overlapping_flavors=False, fail_fast=False
    )


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        ({"FlavorFungibility": False}, {"fungibility": False, "keep_scan_progress": False}),
        ({"FlavorFungibilityPreserveScanProgress": False}, {"keep_scan_progress": False}),
        ({"PrioritySortingWithinCohort": False}, {"turns": TurnRules(by_priority=False)}),
        ({"PrioritizePreemptorWorkloads": True}, {"turns": TurnRules(preemptors_first=True)}),
        ({"SchedulingEquivalenceHashing": False}, {"park_equals": False}),
        ({"RecomputeAssignmentUponPreemptionTargetsOverlap": False}, {"recompute_overlap": False}),
        ({"MultiKueueOrchestratedPreemption": True}, {"preemption_gates": True}),
    ],
)
def test_each_gate_decides_one_thing(gates: dict[str, bool], want: dict[str, Any]) -> None:
    assert list(find_gate_errors(gates)) == []
    assert engine_options(Configuration(feature_gates=gates)) == options.EngineOptions(**want)
    assert engine_options(Configuration()) == options.EngineOptions()


def test_undeclared_resources_are_ignored_only_with_the_gate() -> None:
    section = Resources(quota_check_strategy="IgnoreUndeclared")
    off = {"QuotaCheckStrategy": False}

    assert engine_options(Configuration(resources=section)).ignore_undeclared
    assert not engine_options(Configuration(resources=section, feature_gates=off)).ignore_undeclared


def test_past_usage_counts_only_with_the_gate() -> None:
    section = AdmissionFairSharing(
        usage_half_life_time=Duration(hours=1),
        usage_sampling_interval=Duration(minutes=2),
        resource_weights={"cpu": 0.5},
    )
    off = {"AdmissionFairSharing": False}

    sharing = engine_options(Configuration(admission_fair_sharing=section)).admission_fair_sharing
    assert sharing == options.AdmissionFairSharing(
        half_life=timedelta(hours=1),
        sampling_interval=timedelta(minutes=2),
        resource_weights={"cpu": 0.5},
    )
    shared = msgspec.structs.replace(section, by="Owner")
    owners = engine_options(Configuration(admission_fair_sharing=shared)).admission_fair_sharing
    assert sharing is not None
    assert owners == replace(sharing, by_owner=True)
    config = Configuration(admission_fair_sharing=section, feature_gates=off)
    assert engine_options(config).admission_fair_sharing is None


def test_nothing_is_placed_without_the_gate() -> None:
    config = build_configuration({"featureGates": {"TopologyAwareScheduling": False}})
    assert engine_options(config).topology is None
