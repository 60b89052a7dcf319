"""What a decision costs a manager with a hundred workers."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest
from multiqueue_dispatchers.all_at_once import AllAtOnce
from multiqueue_dispatchers.score import Score

from multiqueue.plugins.testing import make_cluster, make_queue, make_view
from tests.unit.multikueue.builders import (
    make_admitted,
    make_copy,
    make_local,
    make_plan,
)
from tests.unit.multikueue.builders import (
    make_cluster as make_state,
)

pytestmark = pytest.mark.bench

WORKERS = 100
DECISION_SECONDS = 0.020
"""A dispatcher's answer for a hundred workers, 99th percentile (issue 6, Goals)."""
RULES_SECONDS = 0.005
"""The rules' answer for the same, 99th percentile: they run on the event loop."""
ROUNDS = 300


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


def report(what: str, times: list[float]) -> None:
    median, p99 = (percentile(times, share) * 1e3 for share in (0.5, 0.99))
    sys.stdout.write(f"\n{what}, {WORKERS} workers: {median:.2f} ms median, {p99:.2f} ms p99\n")


@pytest.mark.parametrize("dispatcher", [Score(), AllAtOnce()], ids=lambda d: type(d).__name__)
def test_a_dispatcher_answers_for_a_hundred_workers_in_time(dispatcher):
    clusters = [
        replace(make_cluster(f"w{n:03}", used=n % 9), queue=make_queue(gpus=8, used=n % 9))
        for n in range(WORKERS)
    ]
    view = make_view(clusters=clusters, gpus=3)
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        dispatcher.nominate(view)
        times.append(time.perf_counter() - begun)
    report(type(dispatcher).__name__, times)
    assert percentile(times, 0.99) <= DECISION_SECONDS


def test_the_rules_decide_over_a_hundred_copies_in_time():
    names = [f"w{n:03}" for n in range(WORKERS)]
    copies = [make_state(name, workload=make_copy()) for name in names[1:]]
    winner = make_state(names[0], workload=make_admitted())
    local = make_local(nominated=tuple(names))
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        plan = make_plan(local, winner, *copies)
        times.append(time.perf_counter() - begun)
    assert len(plan.removals) == WORKERS - 1
    report("rules", times)
    assert percentile(times, 0.99) <= RULES_SECONDS
