"""Who is admitted: gangs, quotas, strategies, priorities."""

import pytest

from multiqueue.api.v1beta2.meta import Taint
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, Requeue, RequeueReason, Skip
from multiqueue.model.cluster_queue import (
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
    ResourceGroup,
)
from multiqueue.model.placement import Placement
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSetAssignment
from tests.builders.engine import (
    PENDING,
    READY,
    REJECTED,
    T0,
    check_rule,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    quota,
    seconds,
)
from tests.engine_world import EngineWorld

STRICT = QueueingStrategy.STRICT_FIFO
GANG = [pod_set("driver", cpu=1), pod_set("workers", count=3, cpu=2)]


def test_admits_a_gang_with_flavors_and_usage_per_pod_set() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=7)))
    world.submit(make_workload("w", pod_sets=GANG))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert decision.message == "Quota reserved in ClusterQueue cq"
    assert decision.reason == "QuotaReserved"
    assert decision.admission.pod_sets == (
        PodSetAssignment(name="driver", flavors={"cpu": "f"}, usage={"cpu": 1000}, count=1),
        PodSetAssignment(name="workers", flavors={"cpu": "f"}, usage={"cpu": 6000}, count=3),
    )
    assert decision.admission.pod_sets[1].resource_usage == {"cpu": "6"}


def test_admits_all_pod_sets_or_none() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=6)))
    world.submit(make_workload("w", pod_sets=GANG))

    assert world.admitted() == []
    assert world.engine.cluster_queue_state("cq").reserving == 0


def test_a_gang_larger_than_everything_is_refused_with_the_numbers() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("h100", gpu=8)))
    world.submit(make_workload("w", pod_sets=[pod_set(count=2, gpu=8)]))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Requeue)
    assert (decision.reason, decision.requeue_reason) == ("ExceedsMaxQuota", RequeueReason.NO_FIT)
    assert decision.message == (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
        "h100, previously considered podsets requests (0) + current podset request (16) > "
        "maximum capacity (8)"
    )


def test_earlier_pod_sets_of_a_workload_count() -> None:
    """E-45."""
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=5)))
    world.submit(make_workload("w", pod_sets=[pod_set("a", cpu=3), pod_set("b", cpu=3)]))
    world.cycle()

    assert "podsets requests (3) + current podset request (3) > maximum capacity (5)" in (
        world.reason("w")
    )


@pytest.mark.parametrize(
    ("strategy", "want"),
    [
        pytest.param(STRICT, ["first"], id="StrictFIFO waits for the head"),
        pytest.param(
            QueueingStrategy.BEST_EFFORT_FIFO, ["first", "last"], id="BestEffortFIFO goes on"
        ),
    ],
)
def test_a_head_that_does_not_fit(strategy: QueueingStrategy, want: list[str]) -> None:
    """E-72, E-23."""
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=5), strategy=strategy))
    world.submit(
        make_workload("first", at=T0, pod_sets=[pod_set(cpu=2)]),
        make_workload("large", at=T0 + seconds(1), pod_sets=[pod_set(cpu=4)]),
        make_workload("last", at=T0 + seconds(2), pod_sets=[pod_set(cpu=3)]),
    )

    assert world.admitted() == want


def test_order_is_priority_then_time_then_uid() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=10)))
    world.submit(
        make_workload("d", at=T0 + seconds(1), uid="1"),
        make_workload("c", at=T0, uid="3"),
        make_workload("b", at=T0, uid="2"),
        make_workload("a", at=T0 + seconds(9), priority=1),
    )

    assert world.admitted() == ["a", "b", "c", "d"]


def test_a_deep_queue_is_drained_by_one_call() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=30)))
    world.submit(*(make_workload(f"w{i:02}", at=T0 + seconds(i)) for i in range(40)))

    assert world.admitted() == [f"w{i:02}" for i in range(30)]
    assert world.engine.next_cycle_at(world.now) is None


def test_the_budget_ends_a_call_and_the_next_one_goes_on() -> None:
    options = EngineOptions(decision_budget=3)
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=5)), options=options)
    world.submit(*(make_workload(f"w{i}", at=T0 + seconds(i)) for i in range(5)))
    plan = world.cycle()

    assert plan.exhausted
    assert len(plan.decisions) == plan.cycles == 3
    assert world.engine.next_cycle_at(world.now) == world.now
    assert world.admitted() == ["w3", "w4"]


def test_every_tree_has_its_turn_under_a_small_budget() -> None:
    queues = [make_queue(name, flavor_quotas("f", cpu=9)) for name in ("a", "b", "c")]
    world = EngineWorld(*queues, options=EngineOptions(decision_budget=1))
    world.submit(*(make_workload(f"{q}{i}", queue=q) for q in "abc" for i in range(2)))

    assert [world.admitted() for _ in range(6)] == [["a0"], ["b0"], ["c0"], ["a1"], ["b1"], ["c1"]]


def test_queues_of_a_cohort_share_and_the_one_that_borrows_less_goes_first() -> None:
    """E-63, E-84."""
    world = EngineWorld(
        make_queue("a", flavor_quotas("f", cpu=1), cohort="co"),
        make_queue("b", flavor_quotas("f", cpu=3), cohort="co"),
    )
    world.submit(
        make_workload("borrows", queue="a", at=T0, pod_sets=[pod_set(cpu=4)]),
        make_workload("owns", queue="b", at=T0 + seconds(1), pod_sets=[pod_set(cpu=3)]),
    )
    plan = world.cycle()

    assert [type(d) for d in plan.decisions] == [Admit, Skip, Requeue]
    assert plan.decisions[1].reason == "WaitingForQuota"
    assert "no longer fits after processing another workload" in plan.decisions[1].message


def test_borrowing_is_named_by_the_height_that_lends() -> None:
    """E-56."""
    world = EngineWorld(
        make_queue("a", flavor_quotas("f", cpu=1), cohort="co"),
        make_queue("b", flavor_quotas("f", cpu=3), cohort="co"),
    )
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=4)]))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert decision.borrowing == 1


def blocked_cohort(policy: PreemptionPolicy = PreemptionPolicy.NEVER) -> EngineWorld:
    """Queue "a" has 4 cpu of which "b" could borrow 2; the head of "a" waits for all 4.

    The other 2 are used in "a" itself, where nobody is preempted.
    """
    world = EngineWorld(
        make_queue(
            "a",
            flavor_quotas("f", cpu=4),
            cohort="co",
            strategy=STRICT,
            preemption=Preemption(reclaim_within_cohort=policy),
        ),
        make_queue("b", flavor_quotas("f", cpu=0), cohort="co"),
    )
    world.submit(make_workload("early", queue="a", pod_sets=[pod_set(cpu=2)]))
    world.cycle()
    world.submit(
        make_workload("owner", queue="a", pod_sets=[pod_set(cpu=4)], priority=1),
        make_workload("borrower", queue="b", pod_sets=[pod_set(cpu=2)]),
    )
    return world


def test_a_blocked_head_keeps_its_nominal_quota_from_borrowers() -> None:
    """E-73."""
    world = blocked_cohort()

    assert world.admitted() == []
    assert world.reason("owner").startswith("WaitingForQuota")
    assert world.engine.next_cycle_at(world.now) is None


def test_a_head_that_may_reclaim_anything_keeps_nothing() -> None:
    """E-73."""
    assert blocked_cohort(PreemptionPolicy.ANY).admitted() == ["borrower"]


@pytest.mark.parametrize(
    ("limit", "asked", "want"),
    [
        pytest.param(None, 6, [], id="all it asks for, without a limit"),
        pytest.param(0, 4, ["other"], id="no more than its limit lets it have"),
    ],
)
def test_a_blocked_borrower_keeps(limit: int | None, asked: int, want: list[str]) -> None:
    borrows = Preemption(borrow_within_cohort=PreemptionPolicy.LOWER_PRIORITY)
    quotas = flavor_quotas("f", cpu=quota("cpu", 4, borrow=limit))
    world = EngineWorld(
        make_queue("a", quotas, cohort="co", strategy=STRICT, preemption=borrows),
        make_queue("b", flavor_quotas("f", cpu=0), cohort="co"),
        make_queue("lender", flavor_quotas("f", cpu=5), cohort="co"),
    )
    world.submit(make_workload("early", queue="a", pod_sets=[pod_set(cpu=4)]))
    world.cycle()
    world.submit(
        make_workload("blocked", queue="a", pod_sets=[pod_set(cpu=asked)], priority=9),
        make_workload("other", queue="b", pod_sets=[pod_set(cpu=5)]),
    )

    assert world.admitted() == want


def test_a_reservation_counts_once_for_all_heads_behind_it() -> None:
    """Of 10 cpu 2 are used and 2 kept for the head of "a": 3 and 3 more fit."""
    quotas = flavor_quotas("f", cpu=quota("cpu", 4, borrow=0))
    world = EngineWorld(
        make_queue("a", quotas, cohort="co", strategy=STRICT),
        make_queue("b", flavor_quotas("f", cpu=0), cohort="co"),
        make_queue("c", flavor_quotas("f", cpu=0), cohort="co"),
        make_queue("lender", flavor_quotas("f", cpu=6), cohort="co"),
    )
    world.submit(make_workload("early", queue="a", pod_sets=[pod_set(cpu=2)]))
    world.cycle()
    world.submit(
        make_workload("blocked", queue="a", pod_sets=[pod_set(cpu=4)], priority=9),
        make_workload("b", queue="b", pod_sets=[pod_set(cpu=3)]),
        make_workload("c", queue="c", pod_sets=[pod_set(cpu=3)]),
    )

    assert [type(decision) for decision in world.cycle().decisions[:3]] == [Requeue, Admit, Admit]


def test_resource_groups_take_flavors_of_their_own() -> None:
    queue = make_queue("cq", flavor_quotas("cpus", cpu=4), flavor_quotas("gpus", gpu=2))
    world = EngineWorld(queue)
    world.submit(make_workload("w", pod_sets=[pod_set(cpu=1, gpu=1)]))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert decision.admission.pod_sets[0].flavors == {"cpu": "cpus", "nvidia.com/gpu": "gpus"}


def test_a_resource_that_no_group_covers_is_refused_unless_nothing_is_asked() -> None:
    """E-46."""
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=4)))
    world.submit(
        make_workload("asks", pod_sets=[pod_set(cpu=1, gpu=1)]),
        make_workload("names", pod_sets=[pod_set(cpu=1, gpu=0)]),
    )

    assert world.admitted() == ["names"]
    assert world.reason("asks") == (
        "NoMatchingFlavor: couldn't assign flavors to pod set main: "
        "resource nvidia.com/gpu unavailable in ClusterQueue"
    )


def test_undeclared_resources_may_be_ignored() -> None:
    """E-61."""
    options = EngineOptions(ignore_undeclared=True)
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=4)), options=options)
    world.submit(make_workload("asks", pod_sets=[pod_set(cpu=1, gpu=1)]))

    assert world.admitted() == ["asks"]


def test_pods_are_charged_where_a_group_covers_them() -> None:
    """E-8."""
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=9, pods=2)))
    world.submit(
        make_workload("two", pod_sets=[pod_set(count=2, cpu=1)]),
        make_workload("three", pod_sets=[pod_set(count=3, cpu=1)]),
    )

    assert world.admitted() == ["two"]
    assert "pods in flavor f" in world.reason("three")


def test_the_first_flavor_that_the_pods_can_run_on_is_taken() -> None:
    spot = Taint(key="spot", effect="NoSchedule")
    flavors = [
        ResourceFlavor(name="spot", node_taints=(spot,)),
        ResourceFlavor(name="a100", node_labels={"gpu": "a100"}),
        ResourceFlavor(name="h100", node_labels={"gpu": "h100"}),
    ]
    quotas = [flavor_quotas(name, gpu=8) for name in ("spot", "a100", "h100")]
    world = EngineWorld(make_queue("cq", group(*quotas)), flavors=flavors)
    wanted = Placement(node_selector=(("gpu", "h100"),))
    world.submit(make_workload("w", pod_sets=[pod_set(gpu=1, placement=wanted)]))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert decision.admission.pod_sets[0].flavors == {"nvidia.com/gpu": "h100"}


def test_pod_sets_of_one_group_get_the_same_flavor() -> None:
    """E-45."""
    together = PodSetTopologyRequest(pod_set_group_name="ring")
    quotas = [flavor_quotas("small", cpu=3), flavor_quotas("large", cpu=9)]
    world = EngineWorld(make_queue("cq", group(*quotas)))
    members = [
        pod_set("a", cpu=2, topology_request=together),
        pod_set("b", cpu=2, topology_request=together),
        pod_set("c", cpu=3),
    ]
    world.submit(make_workload("w", pod_sets=members))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert [ps.flavors["cpu"] for ps in decision.admission.pod_sets] == ["large", "large", "small"]


def test_pods_that_ask_for_nothing_are_admitted_without_a_flavor() -> None:
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", pod_sets=[pod_set()]))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert decision.admission.pod_sets[0].flavors == {}


def test_a_workload_without_pod_sets_never_fits() -> None:
    """E-42."""
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", pod_sets=[]))

    assert world.admitted() == []
    assert world.reason("w").startswith("NoMatchingFlavor")


def test_a_group_without_flavors_fits_nobody() -> None:
    world = EngineWorld(make_queue("cq", ResourceGroup(covered_resources=("cpu",))))
    world.submit(make_workload("w"))

    assert world.admitted() == []
    assert world.reason("w").startswith("NoMatchingFlavor: couldn't assign flavors to pod set main")


@pytest.mark.parametrize(
    ("states", "admitted"),
    [
        pytest.param({}, False, id="checks begin"),
        pytest.param({"prov": READY, "budget": PENDING}, False, id="one is not ready"),
        pytest.param({"prov": READY, "budget": READY}, True, id="all are ready already"),
    ],
)
def test_an_admission_names_the_checks_of_its_flavors(
    states: dict[str, object], admitted: bool
) -> None:
    checks = (check_rule("prov", "f"), check_rule("budget"), check_rule("other", "g"))
    world = EngineWorld(make_queue("cq", group(flavor_quotas("f", cpu=4)), checks=checks))
    for name in ("prov", "budget", "other"):
        world.add_check(name)
    world.submit(make_workload("w", checks=states))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert decision.checks == ("budget", "prov")
    assert decision.admitted is admitted


def test_a_workload_whose_check_said_no_is_not_looked_at() -> None:
    """E-40."""
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", checks={"budget": REJECTED}))

    assert world.admitted() == []
    assert world.reason("w") == "PendingEvaluation: The workload has failed admission checks"


def test_a_malformed_workload_is_refused_and_does_not_hold_up_the_others() -> None:
    world = EngineWorld(make_queue())
    world.submit(
        make_workload("bad", problems=('requests of container "c": cpu: -1 is negative',)),
        make_workload("good", at=T0 + seconds(1)),
    )

    assert world.admitted() == ["good"]
    assert world.reason("bad") == 'Misconfigured: requests of container "c": cpu: -1 is negative'
