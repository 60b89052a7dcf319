"""What a DisruptionPolicy costs the engine (preemption.md, section 19; P-1): ratios in one run.

The contended steady state of `test_contended_bench`, with the three shipped policies and without.
"""

import dataclasses
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.model.cluster_queue import ClusterQueue
from multiqueue.model.disruption_policy import DisruptionRules, build_disruption_rules
from tests.bench.contended_fleet import ContendedFleet
from tests.bench.test_contended_bench import loaded

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("no_garbage_collector")]

QUEUES = 200
PENDING = 10_000
ROUNDS = 6
SAMPLES = Path(__file__).parents[2] / "config/samples-disruption"
EMPTY = DisruptionRules(name="gpu")


def shipped(stem: str) -> DisruptionRules:
    document = yaml.safe_load((SAMPLES / f"{stem}.yaml").read_text(encoding="utf-8"))
    return build_disruption_rules(decode(DisruptionPolicy, document))


class GovernedFleet(ContendedFleet):
    """All queues of it are under one policy, or none."""

    rules: ClassVar[DisruptionRules | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rules is not None:
            self.engine.upsert_disruption_policy(self.rules)

    def queue_spec(self, index: int) -> ClusterQueue:
        spec = super().queue_spec(index)
        return (
            spec
            if self.rules is None
            else dataclasses.replace(spec, disruption_policy=self.rules.name)
        )


def make_fleet(rules: DisruptionRules | None) -> ContendedFleet:
    kind = type("", (GovernedFleet,), {"rules": rules})
    return loaded(kind(QUEUES), PENDING)


@pytest.mark.parametrize(
    ("rules", "goal"),
    [
        (EMPTY, 1.05),  # the same code runs; two runs differ by so much
        (shipped("1-gentle"), 1.3),
        (shipped("2-production-serving"), 1.3),
        (shipped("3-research"), 1.3),
    ],
    ids=["empty", "gentle", "production-serving", "research"],
)
def test_decides_with_a_policy_nearly_as_fast(
    capsys: pytest.CaptureFixture[str], rules: DisruptionRules, goal: float
) -> None:
    fleets = {"without": make_fleet(None), "with": make_fleet(rules)}
    costs: dict[str, list[float]] = {name: [] for name in fleets}
    victims = dict.fromkeys(fleets, 0)
    for _ in range(ROUNDS):
        for name, fleet in fleets.items():
            fleet.reset()
            fleet.churn(rounds=3, finished=60)
            costs[name].append(fleet.per_decision)
            victims[name] += fleet.preempted
    ratio = min(costs["with"]) / min(costs["without"])
    with capsys.disabled():
        sys.stdout.write(
            f"\nDisruptionPolicy {rules.name}: {ratio:.2f} times the CPU of a decision without; "
            f"{min(costs['without']) * 1e6:.0f} us without, victims {victims}\n"
        )
    assert ratio <= goal
