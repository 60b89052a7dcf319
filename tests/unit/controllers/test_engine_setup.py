"""What a Configuration makes of the engine."""

from __future__ import annotations

from multiqueue.api.config import Configuration, FairSharing
from multiqueue.controllers.engine_setup import engine_options
from multiqueue.engine import options
from multiqueue.engine.options import FairStrategy


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
