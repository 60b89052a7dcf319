"""Workloads that run on other clusters: no quota for what none of them can ever hold."""

from collections.abc import Mapping

from multiqueue.api.conditions import Reason
from multiqueue.api.names import MULTIKUEUE_CONTROLLER
from multiqueue.engine.plan import Requeue, RequeueReason
from multiqueue.engine.remote import Impossible
from multiqueue.model.cluster_queue import AdmissionCheckInfo, QueueingStrategy
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    check_rule,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
)
from tests.engine_world import EngineWorld

GPU = "nvidia.com/gpu"


class Clusters:
    """An oracle: what each cluster holds of gpus, by flavor; one LocalQueue may lead elsewhere."""

    def __init__(self, **clusters: Mapping[str, int]) -> None:
        self.clusters = clusters
        self.elsewhere: dict[str, dict[str, Mapping[str, int]]] = {}
        self.asked = 0

    def __call__(
        self, workload: Workload, check: str, flavors: Mapping[str, Mapping[str, str]]
    ) -> Impossible | None:
        assert check == "mk"
        self.asked += 1
        clusters = self.elsewhere.get(workload.queue.partition("/")[2], self.clusters)
        if any(_holds(workload, has, flavors) for has in clusters.values()):
            return None
        most = ", ".join(f"{name} {sum(has.values())}" for name, has in sorted(clusters.items()))
        return Impossible(reason=Reason.EXCEEDS_MAX_QUOTA, words=f"too large for {most}")


def _holds(
    workload: Workload, has: Mapping[str, int], flavors: Mapping[str, Mapping[str, str]]
) -> bool:
    left = dict(has)
    for ps in workload.pod_sets:
        chosen = flavors.get(ps.name, {}).get(GPU)
        allowed = [chosen] if chosen is not None else list(left)
        best = max(allowed, key=lambda flavor: left.get(flavor, 0), default="")
        if left.get(best, 0) < ps.total(GPU):
            return False
        left[best] -= ps.total(GPU)
    return True


def remote_world(
    oracle: Clusters,
    *flavors: str,
    quota: int = 100,
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO,
    local_queues: Mapping[str, str] | None = None,
) -> EngineWorld:
    resource_group = group(*(flavor_quotas(name, gpu=quota) for name in flavors or ("gpu",)))
    queue = make_queue("cq", resource_group, checks=(check_rule("mk"),), strategy=strategy)
    world = EngineWorld(queue, local_queues=local_queues or {"lq": "cq"})
    check = AdmissionCheckInfo(name="mk", controller_name=MULTIKUEUE_CONTROLLER)
    world.engine.upsert_admission_check(check)
    world.engine.ask_fleet(oracle)
    world.cycle(after=5)
    return world


def gang(name: str, gpus: int, **fields: object) -> Workload:
    return make_workload(name, pod_sets=[pod_set(gpu=gpus)], **fields)


def test_what_no_cluster_can_hold_gets_no_quota_and_says_why():
    world = remote_world(Clusters(a={"gpu": 8}, b={"gpu": 4}))
    world.submit(gang("big", 10))
    plan = world.cycle()

    [decision] = plan.decisions
    assert isinstance(decision, Requeue)
    assert (decision.requeue_reason, decision.parked) == (RequeueReason.NO_CLUSTER, True)
    assert world.reason("big") == "ExceedsMaxQuota: too large for a 8, b 4"
    state = world.engine.cluster_queue_state("cq")
    assert state is not None
    assert (state.pending, state.reserving) == (1, 0)


def test_it_is_admitted_once_a_cluster_is_large_enough():
    oracle = Clusters(a={"gpu": 8})
    world = remote_world(oracle)
    world.submit(gang("big", 10))
    assert world.admitted() == []

    oracle.clusters["b"] = {"gpu": 16}
    world.engine.fleet_changed()

    assert world.admitted(after=2) == ["big"]


def test_it_lets_others_pass_even_in_a_strict_queue():
    world = remote_world(Clusters(a={"gpu": 8}), strategy=QueueingStrategy.STRICT_FIFO)
    world.submit(gang("big", 10, priority=5), gang("small", 2))

    assert world.admitted() == ["small"]


def test_it_preempts_nobody():
    world = remote_world(Clusters(a={"gpu": 8}), quota=10)
    world.submit(gang("small", 6))
    world.write_back(world.cycle())
    world.submit(gang("big", 10, priority=5))

    [decision] = world.cycle().decisions
    assert isinstance(decision, Requeue)
    assert decision.requeue_reason is RequeueReason.NO_CLUSTER


def test_a_flavor_that_no_cluster_has_is_passed_over():
    world = remote_world(Clusters(a={"h100": 4}, b={"a100": 8}), "h100", "a100")
    world.submit(gang("train", 8))

    [decision] = world.cycle().decisions
    assert decision.admission.pod_sets[0].flavors == {GPU: "a100"}


def test_one_cluster_has_to_hold_all_pod_sets():
    world = remote_world(Clusters(a={"h100": 4}, b={"a100": 8}), "h100", "a100")
    pod_sets = [pod_set("driver", gpu=4), pod_set("workers", gpu=4)]
    world.submit(make_workload("train", pod_sets=pod_sets))

    [decision] = world.cycle().decisions
    assert [ps.flavors[GPU] for ps in decision.admission.pod_sets] == ["a100", "a100"]


def test_a_flavor_that_only_clusters_lack_is_named_with_its_reason():
    oracle = Clusters(a={"h100": 4, "a100": 8})
    world = remote_world(oracle, "h100")
    world.submit(gang("train", 8))
    world.cycle()

    assert world.reason("train") == (
        "ExceedsMaxQuota: couldn't assign flavors to pod set main: on flavor h100, too large for "
        "a 12"
    )


def test_equals_whose_local_queue_leads_elsewhere_are_judged_by_themselves():
    oracle = Clusters(a={"gpu": 4})
    oracle.elsewhere["other"] = {"b": {"gpu": 16}}
    world = remote_world(oracle, local_queues={"lq": "cq", "other": "cq"})
    world.submit(gang("first", 8), gang("second", 8, queue="other"))

    assert world.admitted() == ["second"]


def test_equals_are_judged_by_themselves_where_only_the_flavor_is_in_the_way():
    oracle = Clusters(a={"h100": 4, "a100": 8})
    oracle.elsewhere["other"] = {"b": {"h100": 16}}
    world = remote_world(oracle, "h100", local_queues={"lq": "cq", "other": "cq"})
    world.submit(gang("first", 8), gang("second", 8, queue="other"))

    assert world.admitted() == ["second"]


def test_nobody_is_asked_about_what_runs_here():
    oracle = Clusters()
    world = EngineWorld(make_queue("cq", group(flavor_quotas("gpu", gpu=8))))
    world.engine.ask_fleet(oracle)
    world.submit(gang("train", 8))

    assert world.admitted() == ["train"]
    assert oracle.asked == 0


def test_a_queue_that_gets_the_check_later_is_asked_about():
    oracle = Clusters(a={"gpu": 4})
    queue = make_queue("cq", group(flavor_quotas("gpu", gpu=8)), checks=(check_rule("mk"),))
    world = EngineWorld(queue)
    world.engine.ask_fleet(oracle)
    check = AdmissionCheckInfo(name="mk", controller_name=MULTIKUEUE_CONTROLLER)
    world.engine.upsert_admission_check(check)
    world.submit(gang("train", 8))

    assert world.admitted() == []
    assert world.reason("train") == "ExceedsMaxQuota: too large for a 4"
    assert world.workloads[f"{NAMESPACE}/train"].reservation is None
