"""With blockAdmission nobody is admitted before the pods of all others are ready (E-81)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Preempt
from multiqueue.model.cluster_queue import ClusterQueue, Preemption, PreemptionPolicy
from tests.builders.engine import NAMESPACE, make_queue, make_workload, pod_set, with_changes
from tests.engine_world import EngineWorld

BLOCKING = EngineOptions(block_admission=True)
WAITS = "WaitingForPodsReady: Waiting for the pods of all admitted workloads to be ready"


def make_world(*queues: ClusterQueue) -> EngineWorld:
    return EngineWorld(*(queues or (make_queue(),)), options=BLOCKING)


def become_ready(world: EngineWorld, name: str) -> None:
    known = world.workloads[f"{NAMESPACE}/{name}"]
    world.submit(with_changes(known, pods_ready=True))


def test_one_is_admitted_and_the_next_when_its_pods_are_ready() -> None:
    world = make_world()
    world.submit(make_workload("a"), make_workload("b"))
    plan = world.cycle()
    world.write_back(plan)
    assert [decision.workload for decision in plan.decisions] == ["team/a", "team/b"]
    assert world.reason("b") == WAITS
    assert world.admitted(after=60) == []
    become_ready(world, "a")
    assert world.admitted() == ["b"]


def test_all_queues_wait_for_the_pods_of_one() -> None:
    world = make_world(make_queue("one"), make_queue("other"))
    world.submit(make_workload("a", queue="one"), make_workload("b", queue="other"))
    world.write_back(world.cycle())
    assert world.reason("b") == WAITS
    become_ready(world, "a")
    assert world.admitted() == ["b"]


@pytest.mark.parametrize("end", [EngineWorld.finish, EngineWorld.delete])
def test_who_is_gone_is_not_waited_for(end: Callable[[EngineWorld, str], None]) -> None:
    world = make_world()
    world.submit(make_workload("a"), make_workload("b"))
    world.write_back(world.cycle())
    end(world, "a")
    assert world.admitted() == ["b"]


def test_an_admission_that_was_not_written_is_not_waited_for() -> None:
    world = make_world(make_queue("one"), make_queue("other"))
    world.submit(make_workload("a", queue="one"), make_workload("b", queue="other"))
    assert world.admitted() == ["a"]
    world.engine.set_aside("team/a", world.now)
    assert world.admitted() == ["b"]


def test_pods_that_are_lost_block_again() -> None:
    world = make_world()
    world.submit(make_workload("a"))
    world.write_back(world.cycle())
    become_ready(world, "a")
    world.submit(with_changes(world.workloads["team/a"], pods_ready=False), make_workload("b"))
    assert world.admitted() == []
    assert world.reason("b") == WAITS


def test_what_has_to_be_preempted_is_told_at_once() -> None:
    rules = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = make_world(make_queue(preemption=rules))
    world.submit(make_workload("a", pod_sets=[pod_set(cpu=10)]))
    world.write_back(world.cycle())
    world.submit(make_workload("b", priority=5))
    plan = world.cycle()
    assert [type(decision) for decision in plan.decisions] == [Preempt]


def test_without_the_option_nobody_waits() -> None:
    world = EngineWorld(make_queue())
    world.submit(make_workload("a"), make_workload("b"))
    assert world.admitted() == ["a", "b"]
