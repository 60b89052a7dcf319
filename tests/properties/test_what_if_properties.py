"""Asking an engine what it would do changes nothing, and is what it then does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.engine.queues.entry import QueuePlace
from tests.builders.engine import NAMESPACE, make_workload, pod_set
from tests.properties.engine_history import History
from tests.properties.engine_specs import LOCAL_QUEUES

SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 12)


def ask_all(history: History, size: int) -> None:
    for name in LOCAL_QUEUES:
        target = history.engine.local_queue_target(f"{NAMESPACE}/{name}")
        if target is not None:
            workload = make_workload("asked", queue=name, pod_sets=[pod_set(count=size, cpu=1)])
            history.engine.try_workload(workload, target)


@given(SEEDS, SIZES)
@settings(max_examples=40, deadline=None)
def test_an_engine_that_is_asked_decides_as_one_that_is_not(seed: int, size: int) -> None:
    def plans(*, asked: bool) -> list[CyclePlan]:
        history = History(seed)
        found = []
        for _ in range(25):
            found.append(history.step())
            if asked:
                ask_all(history, size)
        return found

    assert plans(asked=True) == plans(asked=False)


@given(SEEDS, SIZES, st.sampled_from(LOCAL_QUEUES))
@settings(max_examples=150, deadline=None)
def test_what_would_be_admitted_now_is_what_a_cycle_then_admits(
    seed: int, size: int, queue: str
) -> None:
    history = History(seed, options=EngineOptions())
    for _ in range(20):
        history.step()
    engine = history.engine
    for entry in list(engine.parts.entries.values()):
        if entry.place is not QueuePlace.HOLDING:
            engine.delete_workload(entry.key, history.now)
    history.wait(60)
    history.decide()
    workload = make_workload(
        "asked", queue=queue, at=history.now, pod_sets=[pod_set(count=size, cpu=1)]
    )
    record = engine.parts.quota_usage.local_queues.get(workload.queue)
    if record is None or not record.is_open:
        return
    trial = engine.try_workload(workload, record.cluster_queue)
    fits = (
        trial is not None
        and isinstance(trial.verdict, Nominated)
        and trial.verdict.assignment.mode is Mode.FIT
    )
    engine.upsert_workload(workload, history.now)
    admitted = [d for d in history.decide().decisions if isinstance(d, Admit)]
    assert fits == (len(admitted) == 1)
    if fits:
        assert trial is not None
        assert isinstance(trial.verdict, Nominated)
        assert trial.verdict.assignment.admission(record.cluster_queue) == admitted[0].admission
