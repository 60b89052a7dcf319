"""The engine's goals: decisions per second, and a flat cost per decision (issue 2, Speed).

CPU time of one core, without the garbage collector, as `make bench` measures everywhere. A decision
is a head that was judged anew or admitted; the cost has all of its events in it: workloads made,
admissions written back, jobs finished, wakes delivered.
"""

import sys

import pytest

from tests.bench.engine_fleet import Fleet

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("no_garbage_collector")]

QUEUES = 1_000
DECISIONS_PER_SECOND = 10_000
FLATNESS = 1.2
TRIES = 6
"""The quietest try counts: what the code costs, not what else runs on the machine."""


def loaded_fleet(pending: int, *, queues: int = QUEUES) -> Fleet:
    """Full ClusterQueues in cohorts of ten, with that many workloads waiting."""
    fleet = Fleet(queues)
    fleet.submit(12 * queues)
    fleet.drain()
    waiting = fleet.made - fleet.admitted
    fleet.submit(max(0, pending - waiting))
    fleet.drain()
    return fleet


def cost_of_churn(fleet: Fleet, *, rounds: int, finished: int) -> float:
    """Seconds per decision while jobs finish and others take their place."""
    fleet.reset()
    fleet.churn(rounds=rounds, finished=finished)
    return fleet.per_decision


def show(capsys: pytest.CaptureFixture[str], figures: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nengine, {figures}\n")


def test_decides_ten_thousand_heads_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = loaded_fleet(50_000)
    cost = min(cost_of_churn(fleet, rounds=3, finished=300) for _ in range(TRIES))

    show(
        capsys,
        f"{QUEUES} ClusterQueues, 50,000 pending, 2 flavors, 3 resources: "
        f"{1 / cost:,.0f} decisions/s, {cost * 1e6:.1f} us each",
    )
    assert 1 / cost >= DECISIONS_PER_SECOND


def test_does_not_cost_more_however_much_is_pending(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the depth of the queues differs: with few queues even 1,000 workloads have all shapes,
    so that admissions and refusals are mixed alike. Tries take turns, for the machine's moods.
    """
    fleets = {pending: loaded_fleet(pending, queues=20) for pending in (1_000, 10_000, 100_000)}
    costs = dict.fromkeys(fleets, float("inf"))
    for _ in range(TRIES):
        for pending, fleet in fleets.items():
            cost = cost_of_churn(fleet, rounds=12, finished=6)
            costs[pending] = min(costs[pending], cost)

    shown = ", ".join(f"{cost * 1e6:.1f} us at {pending:,}" for pending, cost in costs.items())
    show(capsys, f"cost per decision: {shown} pending")
    assert costs[100_000] <= FLATNESS * costs[1_000]


def test_an_idle_engine_costs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = loaded_fleet(50_000)
    fleet.now = fleet.now.replace(year=fleet.now.year + 1)
    fleet.drain()
    fleet.reset()
    for _ in range(1_000):
        fleet.drain()

    show(capsys, f"cycle with nothing to do: {fleet.spent * 1e3:.1f} us")
    assert fleet.spent / 1_000 < 100e-6
