"""Upstream's scheduler benchmark without an API server (issue 3, Speed).

While work waits, quota must not: that depends on how long a wake is batched (E-27). With a second
each time, five times what a small job of this benchmark takes, half of the quota lies idle, so that
run is shown for comparison only.
"""

import statistics
import sys
from datetime import timedelta

import pytest

from multiqueue.engine.options import EngineOptions
from tests.bench.upstream_generators import (
    BASELINE,
    LARGE_SCALE,
    TAS,
    Generator,
    fluid_makespan,
    fluid_waits,
    scaled,
)
from tests.bench.upstream_world import Simulation

pytestmark = pytest.mark.bench

DEFAULTS = EngineOptions()
ROUND_TRIP = 0.33
"""Seconds of a write to a real API server that has no more CPU time."""


def table(name: str, run: Simulation) -> str:
    generator, fluid = run.generator, fluid_waits(run.generator)
    heading = (
        f"\n{name}: {generator.total:,} workloads, makespan {run.makespan:.1f} s "
        f"(fluid bound {fluid_makespan(generator):.1f} s), usage {run.usage:.1%}, "
        f"while work waits {run.usage_while_work_waits:.1%}, {run.preempted:,} preempted, "
        f"{run.spent:.1f} s CPU in the engine"
    )
    lines = [
        f"  {each.name:16} first admission after {statistics.mean(run.waits[each.name]):6.2f} s "
        f"(fluid by priority {fluid[each.name]:6.2f} s)"
        for each in reversed(generator.sets)
    ]
    return "\n".join([heading, *lines]) + "\n"


@pytest.mark.parametrize(
    ("name", "generator", "busy_wake_batch", "goal"),
    [
        ("baseline", BASELINE, DEFAULTS.busy_wake_batch, 0.95),
        ("baseline, wakes always batched for 1 s", BASELINE, DEFAULTS.wake_batch, 0.5),
        ("tas", TAS, DEFAULTS.busy_wake_batch, 0.95),
        ("large-scale", LARGE_SCALE, DEFAULTS.busy_wake_batch, 0.95),
    ],
)
def test_upstreams_benchmark_in_virtual_time(
    capsys: pytest.CaptureFixture[str],
    name: str,
    generator: Generator,
    busy_wake_batch: timedelta,
    goal: float,
) -> None:
    run = Simulation(generator, options=EngineOptions(busy_wake_batch=busy_wake_batch))
    run.run()

    with capsys.disabled():
        sys.stdout.write(table(name, run))
    assert run.finished == generator.total
    assert run.makespan >= fluid_makespan(generator) * 0.999
    assert run.usage_while_work_waits >= goal


def test_upstreams_benchmark_beside_a_slow_server(capsys: pytest.CaptureFixture[str]) -> None:
    run = Simulation(scaled(BASELINE, 5), round_trip=ROUND_TRIP)
    run.run()

    with capsys.disabled():
        sys.stdout.write(table(f"baseline / 5, {ROUND_TRIP} s per write", run))
    assert run.preempted <= 300, "the first large ones preempt 359, some of which end before"
