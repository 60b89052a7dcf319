"""Which trees a change of something that ClusterQueues refer to concerns (E-38, E-39)."""

from dataclasses import replace

from multiqueue.api.v1beta2.meta import LabelSelector
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cohort_graph import CohortGraph
from multiqueue.model.cluster_queue import AdmissionCheckInfo, ClusterQueue, Cohort
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from tests.builders.engine import check_rule, flavor_quotas, make_queue

ACTIVE = AdmissionCheckInfo(name="check", controller_name="c", active=True)
INACTIVE = AdmissionCheckInfo(name="check", controller_name="c", active=False)
TOPOLOGY = Topology(name="t", levels=("rack",))


def make_cache(*queues: ClusterQueue) -> Cache:
    cache = Cache()
    for queue in queues:
        cache.upsert_cluster_queue(queue)
    return cache


def checked(name: str) -> ClusterQueue:
    return make_queue(name, flavor_quotas("f", cpu=1), cohort=name, checks=(check_rule("check"),))


def test_a_check_concerns_the_trees_of_queues_that_it_switches() -> None:
    cache = make_cache(checked("on"), make_queue("other", flavor_quotas("f", cpu=1)))
    cache.set_flavor("f", ResourceFlavor(name="f"))

    assert cache.set_check("check", INACTIVE) == set()
    assert cache.set_check("check", ACTIVE) == {"on"}
    assert cache.set_check("check", replace(ACTIVE, controller_name="d")) == set()
    assert cache.set_check("check", None) == {"on"}


def test_what_no_queue_uses_concerns_nobody() -> None:
    cache = make_cache(checked("cq"))
    assert cache.set_flavor("idle", ResourceFlavor(name="idle", topology_name="t")) == set()
    assert cache.set_topology("t", TOPOLOGY) == set()
    assert cache.touch_users(["idle"]) == set()


def test_a_deleted_queue_is_not_asked_any_more() -> None:
    cache = make_cache(checked("cq"))
    cache.delete_cluster_queue("cq")

    assert cache.set_flavor("f", ResourceFlavor(name="f")) == set()
    assert cache.set_check("check", ACTIVE) == set()


def test_a_namespace_concerns_the_trees_of_queues_that_match_it_now_and_did_not() -> None:
    selector = LabelSelector(match_labels={"team": "x"})
    cache = make_cache(
        make_queue("picky", cohort="picky", namespace_selector=selector),
        make_queue("open", cohort="open"),
    )

    assert cache.set_namespace("ns", {}) == {"open"}
    assert cache.set_namespace("ns", {"team": "x"}) == {"picky"}
    assert cache.set_namespace("ns", {"team": "x", "more": "y"}) == set()
    assert cache.set_namespace("ns", {"team": "z"}) == set()


def test_the_same_cohort_again_concerns_nobody() -> None:
    cache = make_cache(make_queue("cq", cohort="co"))

    assert cache.upsert_cohort(Cohort(name="co")) == {"co"}
    assert cache.upsert_cohort(Cohort(name="co")) == set()


def test_a_cohort_that_moves_leaves_its_old_parent() -> None:
    graph = CohortGraph()
    graph.set(Cohort(name="child", parent="old"))
    graph.set(Cohort(name="child", parent="new"))

    assert [cohort.name for cohort in graph.subtree("old")] == ["old"]
    assert [cohort.name for cohort in graph.subtree("new")] == ["new", "child"]
