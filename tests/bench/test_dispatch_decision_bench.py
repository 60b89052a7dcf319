"""What it costs to foresee a decision for a hundred workers, and what a crowded one costs."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from multiqueue.forecast.asked import build_asked
from multiqueue.forecast.estimates import Budget
from multiqueue.forecast.replica import Replica
from multiqueue.model.cluster_queue import LocalQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload
from multiqueue.plugins.forecast import Forecast, Prospect, Runtime
from tests.builders.engine import NAMESPACE, T0, flavor_quotas, make_queue, seconds
from tests.unit.forecast.test_replica import gang, running

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("no_garbage_collector")]

WORKERS = 100
DECISIONS = 200
SECONDS = 0.020
"""A decision for a hundred workers, 99th percentile (issue 6, Goals)."""
GPUS = 256
SIZES = (1, 1, 2, 2, 4, 8)


def make_worker(seed: int, *, waiting: int) -> Replica:
    """A full worker: 256 GPUs, about 85 Workloads that run, and some that wait."""
    draw, replica = random.Random(seed), Replica()
    replica.upsert_flavor(ResourceFlavor(name="a100"))
    replica.upsert_cluster_queue(make_queue("cq", flavor_quotas("a100", gpu=GPUS)))
    replica.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/cq", cluster_queue="cq"))
    used = 0
    while used < GPUS - 1:
        size = min(draw.choice(SIZES), GPUS - 1 - used)
        begun = T0 - timedelta(seconds=draw.expovariate(1 / 1800))
        workload = running(f"run-{seed}-{used}", size, at=begun)
        replica.upsert_workload(workload, T0, runtime=draw_runtime(draw))
        used += size
    for index in range(waiting):
        workload = gang(f"wait-{seed}-{index}", draw.choice(SIZES[2:]))
        replica.upsert_workload(workload, T0, runtime=draw_runtime(draw))
    return replica


def draw_runtime(draw: random.Random) -> Runtime:
    expected = timedelta(seconds=draw.lognormvariate(8, 1))
    return Runtime(expected=expected, low=expected / 3, high=expected * 3)


def soonest(found: dict[int, Forecast]) -> int:
    def start(index: int) -> datetime:
        estimate = found[index].start
        assert estimate is not None
        return estimate.at

    return min(found, key=start)


def decide(workers: list[Replica], workload: Workload, now: datetime) -> dict[int, Forecast]:
    found, budget = {}, Budget()
    asked = build_asked(workload, now)
    for index, replica in enumerate(workers):
        forecast = replica.forecast_built(asked, now, budget=budget)
        assert forecast is not None
        found[index] = forecast
    return found


def play(workers: list[Replica], between: Callable[[datetime], None]) -> list[float]:
    """Dispatch to the soonest each time, a fifth of a second apart; seconds of CPU of each."""
    draw, taken, now = random.Random(0), [], T0
    decide(workers, gang("first", 8), now)
    for index in range(DECISIONS):
        now += seconds(0.2)
        between(now)
        workload = gang(f"asked-{index}", draw.choice(SIZES[2:]))
        begun = time.process_time()
        found = decide(workers, workload, now)
        taken.append(time.process_time() - begun)
        assert all(forecast.prospect is Prospect.WAITS for forecast in found.values())
        workers[soonest(found)].assume(workload, now, runtime=draw_runtime(draw))
    return taken


@pytest.mark.parametrize("waiting", [0, 10, 100], ids=lambda n: f"{n} wait on each")
def test_a_hundred_full_workers_are_foreseen_in_time(waiting: int) -> None:
    workers = [make_worker(seed, waiting=waiting) for seed in range(WORKERS)]
    draw = random.Random(1)

    def churn(now: datetime) -> None:
        """Something changes on five workers."""
        for index in draw.sample(range(WORKERS), 5):
            name = f"short-{index}"
            workers[index].upsert_workload(gang(name, 64), now)
            workers[index].delete_workload(f"{NAMESPACE}/{name}", now)

    taken = sorted(play(workers, churn))
    median, p99 = taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
    sys.stdout.write(
        f"\n{waiting} waiting: {median * 1e3:.1f} ms median, {p99 * 1e3:.1f} ms p99, "
        f"{taken[-1] * 1e3:.1f} ms most\n"
    )
    assert p99 <= SECONDS
