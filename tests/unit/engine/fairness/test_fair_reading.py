"""What the engine tells about shares."""

from multiqueue.engine.cache.drs import NO_SHARE, Share
from multiqueue.engine.options import EngineOptions, FairSharing
from multiqueue.engine.pending_reasons import ShareLoss
from tests.builders.engine import make_workload, pod_set
from tests.engine_world import EngineWorld
from tests.preemption_world import ANY, make_cpu_queue


def make_world(options: EngineOptions) -> EngineWorld:
    world = EngineWorld(
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


def test_who_waits_because_of_its_share_is_told_the_numbers() -> None:
    world = EngineWorld(
        make_cpu_queue("a", 0, cohort="team", reclaim=ANY),
        make_cpu_queue("b", 0, cohort="team"),
        make_cpu_queue("lender", 6, cohort="team"),
        options=EngineOptions(fair_sharing=FairSharing()),
    )
    world.submit(make_workload("large", queue="b", pod_sets=[pod_set(cpu=3)]))
    world.submit(make_workload("other", queue="a", pod_sets=[pod_set(cpu=3)]))
    world.write_back(world.cycle())
    world.submit(make_workload("more", queue="a"))
    world.cycle()
    explanation = world.engine.workload_reason("team/more")

    assert explanation is not None
    assert explanation.share_loss == ShareLoss("a", 667, "b", 500)
    assert explanation.message.endswith(
        ". fair sharing: a would have a share of 667, and b, the largest that may give, has 500"
    )
