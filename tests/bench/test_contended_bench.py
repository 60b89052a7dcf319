"""The engine's goals where queues take from each other (issue 3, Speed).

A contended steady state: full ClusterQueues in cohorts of ten, 50,000 pending of three priorities;
each second some jobs finish and others arrive, and what a preemption drives out queues again.
Measured as in `test_engine_bench`.
"""

import sys
from collections.abc import Callable

import pytest

from tests.bench.contended_fleet import ContendedFleet

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("no_garbage_collector")]

QUEUES = 1_000
PENDING = 50_000
TRIES = 4
FLATNESS = 1.2


def loaded(fleet: ContendedFleet, pending: int) -> ContendedFleet:
    """Fill the queues, and have so many workloads wait."""
    fleet.submit(12 * fleet.queues)
    fleet.drain()
    fleet.submit(max(0, pending - (fleet.made - len(fleet.running))))
    fleet.drain()
    return fleet


@pytest.mark.parametrize(
    ("name", "make", "goal"),
    [
        ("preemption", ContendedFleet, 2_000),
        ("fair sharing", ContendedFleet.with_fair_sharing, 1_000),
    ],
)
def test_decides_in_a_contended_steady_state(
    capsys: pytest.CaptureFixture[str], name: str, make: Callable[[int], ContendedFleet], goal: int
) -> None:
    fleet = loaded(make(QUEUES), PENDING)
    cost, preempted = float("inf"), 0
    for _ in range(TRIES):
        fleet.reset()
        fleet.churn(rounds=3, finished=300)
        cost, preempted = min(cost, fleet.per_decision), preempted + fleet.preempted

    with capsys.disabled():
        sys.stdout.write(
            f"\nengine with {name}: {1 / cost:,.0f} decisions/s, {cost * 1e6:.1f} us each, "
            f"{preempted} victims\n"
        )
    assert preempted
    assert 1 / cost >= goal


def test_does_not_cost_more_however_much_is_pending(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the depth of the queues differs; with fewer pending not all shapes would wait."""
    costs = dict.fromkeys((10_000, 100_000), float("inf"))
    fleets = {pending: loaded(ContendedFleet(20), pending) for pending in costs}
    for _ in range(TRIES):
        for pending, fleet in fleets.items():
            fleet.reset()
            fleet.churn(rounds=12, finished=6)
            costs[pending] = min(costs[pending], fleet.per_decision)

    shown = ", ".join(f"{cost * 1e6:.1f} us at {pending:,}" for pending, cost in costs.items())
    with capsys.disabled():
        sys.stdout.write(f"\ncost per decision with preemption: {shown} pending\n")
    assert costs[100_000] <= FLATNESS * costs[10_000]
