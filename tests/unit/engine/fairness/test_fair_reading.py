"""What the engine tells about shares."""

from multiqueue.engine.fairness.drs import NO_SHARE, Share
from multiqueue.engine.options import EngineOptions, FairSharing
from tests.engine_world import World, make_workload, pod_set
from tests.preemption_world import make_cpu_queue


def make_world(options: EngineOptions) -> World:
    world = World(
        make_cpu_queue("a", 1, cohort="team"),
        make_cpu_queue("b", 3, cohort="team"),
        options=options,
    )
    world.engine.changed_since_last_call()
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=2)]))
    assert world.admitted() == ["w"]
    return world


def test_shares_of_queues_and_cohorts_and_who_to_ask_about() -> None:
    world = make_world(EngineOptions(fair_sharing=FairSharing()))
    queue, cohort = world.engine.cluster_queue_state("a"), world.engine.cohort_state("team")
    changed = world.engine.changed_since_last_call()

    assert queue is not None
    assert queue.weighted_share == Share(is_endless=False, value=250.0)
    assert cohort is not None
    assert cohort.weighted_share == NO_SHARE
    assert changed.cohorts == ("team",)
    assert world.engine.cohort_state("unknown") is None


def test_nobody_has_a_share_without_fair_sharing() -> None:
    world = make_world(EngineOptions())
    queue, cohort = world.engine.cluster_queue_state("a"), world.engine.cohort_state("team")

    assert queue is not None
    assert queue.weighted_share is None
    assert cohort is not None
    assert cohort.weighted_share is None
    assert world.engine.changed_since_last_call().cohorts == ()
