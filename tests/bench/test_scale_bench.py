"""What a great many workloads cost: memory, a restart, one deep queue (issue 3, Speed)."""

import gc
import sys
import time
import tracemalloc

import msgspec
import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.engine.plan import Admit
from multiqueue.model.build_workload import build_workload
from tests.bench.engine_fleet import Fleet
from tests.builders.engine import flavor_quotas, make_queue, make_workload, seconds
from tests.engine_world import EngineWorld

pytestmark = pytest.mark.bench

MEMORY_BYTES = 2_048
RESTART_SECONDS = 10.0
DEEP = 10_000


def show(capsys: pytest.CaptureFixture[str], figures: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nscale, {figures}\n")


def workload_json(index: int, queues: int) -> bytes:
    """A Workload as the API server lists it: one pod set with a template of usual size."""
    container = {
        "name": "train",
        "image": "registry.example/team/train:1.2.3",
        "command": ["python", "-m", "train", "--config", f"/config/{index % 7}.yaml"],
        "env": [{"name": f"OPTION_{i}", "value": str(i)} for i in range(8)],
        "resources": {"requests": {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1"}},
    }
    return msgspec.json.encode(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": f"wl-{index}",
                "namespace": "team",
                "uid": f"uid-{index}",
                "resourceVersion": str(index + 1),
                "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "active": True,
                "queueName": f"lq-{index % queues}",
                "priority": 100 * (index % 3),
                "podSets": [
                    {
                        "name": "main",
                        "count": 1 + index % 8,
                        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
                    }
                ],
            },
        }
    )


def test_memory_of_the_engine_per_pending_workload(capsys: pytest.CaptureFixture[str]) -> None:
    """Beyond the stored object and its model: entries, heaps, classes, verdicts."""
    fleet = Fleet(100)
    fleet.submit(1_200)
    fleet.drain()
    count = 50_000
    waiting = [
        make_workload(f"deep-{i}", queue=f"lq-{i % 100}", at=fleet.now, priority=i % 64)
        for i in range(count)
    ]
    gc.collect()
    tracemalloc.start()
    fleet.tell(waiting)
    fleet.run_cycles()
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    show(capsys, f"{used / count:,.0f} bytes in the engine per pending workload of {count:,}")
    assert used / count <= MEMORY_BYTES


def test_a_restart_with_100_000_pending(capsys: pytest.CaptureFixture[str]) -> None:
    """From the bytes of the list to the first decision: decoded, built, queued, judged."""
    count, queues = 100_000, 100
    listed = [workload_json(i, queues) for i in range(count)]
    fleet = Fleet(queues)
    decoder = msgspec.json.Decoder(api.Workload)
    begun = time.process_time()
    for raw in listed:
        fleet.engine.upsert_workload(build_workload(decoder.decode(raw)), fleet.now)
    plan = fleet.engine.run_cycle(fleet.now)
    spent = time.process_time() - begun

    show(capsys, f"{spent:.1f} s from the list of {count:,} workloads to the first decisions")
    assert any(isinstance(decision, Admit) for decision in plan.decisions)
    assert spent <= RESTART_SECONDS


def test_one_deep_queue_drains_without_a_pause(capsys: pytest.CaptureFixture[str]) -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=DEEP)))
    world.submit(*(make_workload(f"wl-{i}", at=world.now + seconds(i)) for i in range(DEEP)))
    admitted, calls = 0, 0
    begun = time.process_time()
    while admitted < DEEP:
        plan = world.engine.run_cycle(world.now)  # never later than the moment they came
        calls += 1
        assert plan.decisions, "a pause while work waits and quota is free"
        admitted += sum(isinstance(decision, Admit) for decision in plan.decisions)
    spent = time.process_time() - begun

    show(capsys, f"one queue of {DEEP:,}: {DEEP / spent:,.0f} admissions/s in {calls} calls")
