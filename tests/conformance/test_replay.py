"""The engine decides, step for step, what a reference control plane was recorded to decide."""

import json
from pathlib import Path

import pytest

from multiqueue.model.disruption_policy import CostRule, DisruptionRules
from tests.conformance.governed import POLICY, govern
from tests.conformance.replay import DATA, first_difference, replay

SCENARIOS = sorted((DATA / "scenarios").glob("*.json"))
DEPENDS_ON_TIMING = {"fair-8": 11, "fairhier-2": 12, "fairhier-4": 8, "hierarchy-9": 21}
"""Recordings that end otherwise when two requests of one instant are acted on in the other order;
the recorder lists them in timing.json. Compared up to this step."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_decides_as_recorded(scenario: Path) -> None:
    want = json.loads((DATA / "expected" / scenario.name).read_text())
    steps = DEPENDS_ON_TIMING.get(scenario.stem, len(want))

    got = replay(json.loads(scenario.read_text()))

    assert first_difference(want[:steps], got[:steps]) is None


EMPTY = DisruptionRules(name=POLICY)
UNREACHED = DisruptionRules(name=POLICY, max_preempted_workloads=1_000_000)

NOTICE = DisruptionRules(name=POLICY, cost=CostRule(longest_notice=300))
PATIENCE = DisruptionRules(name=POLICY, patience=600)
ASKS_FOR_NOTHING = {
    "empty on queues": ("ClusterQueue", EMPTY),
    "empty on cohorts": ("Cohort", EMPTY),
    "a limit that nobody reaches": ("ClusterQueue", UNREACHED),
    "a notice that nobody asks for": ("ClusterQueue", NOTICE),
    "patience where nobody says when it ends": ("ClusterQueue", PATIENCE),
}


@pytest.mark.parametrize(("kind", "policy"), ASKS_FOR_NOTHING.values(), ids=ASKS_FOR_NOTHING.keys())
@pytest.mark.parametrize("scenario", SCENARIOS[4::16], ids=lambda path: path.stem)
def test_a_policy_that_asks_for_nothing_changes_nothing(
    scenario: Path, kind: str, policy: DisruptionRules
) -> None:
    recorded = json.loads(scenario.read_text())

    got = replay(govern(recorded, kind), policy)

    assert first_difference(replay(recorded), got) is None


def test_the_recordings_are_complete() -> None:
    timing = set(json.loads((DATA / "timing.json").read_text()))
    profiles = {path.stem.rpartition("-")[0] for path in SCENARIOS}

    assert len(SCENARIOS) == 171
    assert len(profiles) == 14
    assert timing >= DEPENDS_ON_TIMING.keys()
