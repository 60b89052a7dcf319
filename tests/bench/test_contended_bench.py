"""The engine's goals where queues take from each other (issue 3, Speed).

A contended steady state: full ClusterQueues in cohorts of ten, 50,000 pending of three priorities;
each second some jobs finish and others arrive, and what a preemption drives out queues again.
Measured as in `test_engine_bench`.
"""

import gc
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.bench.contended_fleet import ContendedFleet

pytestmark = pytest.mark.bench

QUEUES = 1_000
PENDING = 50_000
TRIES = 4


@pytest.fixture(autouse=True)
def _no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


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
    fleet = make(QUEUES)
    fleet.submit(12 * QUEUES)
    fleet.drain()
    fleet.submit(max(0, PENDING - (fleet.made - len(fleet.running))))
    fleet.drain()
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
