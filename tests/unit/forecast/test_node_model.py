"""What nodes mean for what a replica answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.forecast.replica import Replica
from multiqueue.model.cluster_queue import CheckRule, ClusterQueue, LocalQueue
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import HOSTNAME, Node, TopologyAssignment, TopologyDomain
from multiqueue.model.workload import Admission, PodSet, PodSetAssignment, Workload
from multiqueue.plugins.forecast import Forecast, Prospect, Runtime
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    reserved,
)

GPU = "nvidia.com/gpu"
RACK = "rack"
IN_A_RACK = PodSetTopologyRequest(required=RACK)
CLOSE = PodSetTopologyRequest(preferred=RACK)


def make_node(number: int, rack: str, *, gpus: int = 8, ready: bool = True) -> Node:
    name = f"node-{number}"
    return Node(
        name=name,
        labels={RACK: rack, HOSTNAME: name},
        allocatable={GPU: gpus, "pods": 100},
        ready=ready,
    )


NODES = (make_node(1, "r1"), make_node(2, "r1"), make_node(3, "r2"), make_node(4, "r2"))


def make_replica(*queues: ClusterQueue, nodes: bool = True, pods: bool = True) -> Replica:
    """Two racks of two nodes with eight GPUs each, and quota for more than that."""
    replica = Replica()
    replica.upsert_flavor(ResourceFlavor(name="h100", topology_name="racks"))
    for queue in queues or (make_queue("cq", flavor_quotas("h100", gpu=64)),):
        replica.upsert_cluster_queue(queue)
        lq = LocalQueue(key=f"{NAMESPACE}/{queue.name}", cluster_queue=queue.name)
        replica.upsert_local_queue(lq)
    if nodes:
        replica.node_model.upsert_topology(Topology(name="racks", levels=(RACK, HOSTNAME)))
        for node in NODES:
            replica.node_model.upsert_node(node)
        replica.node_model.see(nodes=True, pods=pods)
    return replica


def gang(
    name: str, pods: int, gpus: int = 8, *, wanted: PodSetTopologyRequest | None = IN_A_RACK
) -> Workload:
    pod_set = PodSet(count=pods, requests={GPU: gpus}, topology_request=wanted)
    return make_workload(name, queue="cq", pod_sets=[pod_set])


def running(workload: Workload, *nodes: str) -> Workload:
    (pod_set,) = workload.pod_sets
    domains = tuple(TopologyDomain((node,), pod_set.count // len(nodes)) for node in nodes)
    assignment = PodSetAssignment(
        name=pod_set.name,
        flavors={GPU: "h100"},
        usage={GPU: pod_set.total(GPU)},
        count=pod_set.count,
        topology=TopologyAssignment((HOSTNAME,), domains),
    )
    return reserved(workload, Admission(cluster_queue="cq", pod_sets=(assignment,)))


def ask(replica: Replica, workload: Workload) -> Forecast:
    found = replica.forecast(workload, T0)
    assert found is not None
    return found


def test_a_gang_fits_where_a_rack_has_room() -> None:
    found = ask(make_replica(), gang("a", 2))
    assert (found.prospect, found.taken) == (Prospect.FITS, {("h100", GPU): 16})
    assert "2 places" in found.reason


def test_a_gang_waits_where_no_rack_has_enough() -> None:
    replica = make_replica()
    for node in ("node-1", "node-3"):
        replica.upsert_workload(running(gang(f"on-{node}", 1), node), T0)
    assert ask(replica, gang("a", 2, wanted=CLOSE)).prospect is Prospect.FITS
    found = ask(replica, gang("a", 2))
    assert found.prospect is Prospect.WAITS
    assert "only 1 out of 2 pod(s)" in found.reason
    replica.delete_workload(f"{NAMESPACE}/on-node-1", T0)
    assert ask(replica, gang("a", 2)).prospect is Prospect.FITS


def test_a_gang_that_no_rack_can_hold_is_told_the_largest() -> None:
    found = ask(make_replica(), gang("a", 3))
    assert (found.prospect, found.largest) == (Prospect.NEVER, 2)


def test_a_pod_that_no_node_can_hold_never_fits() -> None:
    found = ask(make_replica(), gang("a", 1, gpus=9))
    assert (found.prospect, found.largest) == (Prospect.NEVER, 0)


def test_pods_that_no_topology_placed_are_in_the_way_until_they_end() -> None:
    replica = make_replica()
    for number in (1, 3):
        replica.node_model.set_pod_usage(f"ns/pod-{number}", f"node-{number}", {GPU: 1})
    assert ask(replica, gang("a", 2)).prospect is Prospect.WAITS
    assert ask(replica, gang("a", 2, gpus=7)).prospect is Prospect.FITS
    replica.node_model.set_pod_usage("ns/pod-1", "node-1", None)
    assert ask(replica, gang("a", 2)).prospect is Prospect.FITS


def test_nodes_that_are_not_ready_may_be_again() -> None:
    replica = make_replica()
    for number, rack in ((1, "r1"), (3, "r2")):
        replica.node_model.upsert_node(make_node(number, rack, ready=False))
    assert ask(replica, gang("a", 2)).prospect is Prospect.WAITS
    replica.node_model.delete_node("node-1")
    replica.node_model.delete_node("node-3")
    assert ask(replica, gang("a", 2)).prospect is Prospect.NEVER


def test_where_another_flavor_may_come_its_turn_nothing_is_never() -> None:
    quotas = (flavor_quotas("h100", gpu=64), flavor_quotas("late", gpu=64))
    replica = make_replica(make_queue("cq", group(*quotas)))
    replica.upsert_flavor(ResourceFlavor(name="late", topology_name="racks"))
    assert ask(replica, gang("a", 3)).prospect is Prospect.WAITS
    replica.upsert_flavor(
        ResourceFlavor(name="late", topology_name="racks", node_labels={"gpu": "old"})
    )
    picky = gang("a", 3)
    (pod_set,) = picky.pod_sets
    placement = replace(pod_set.placement, node_selector=(("gpu", "new"),))
    picky = replace(picky, pod_sets=(replace(pod_set, placement=placement),))
    assert ask(replica, picky).prospect is Prospect.NEVER


def test_what_was_sent_takes_its_places() -> None:
    replica = make_replica()
    replica.assume(gang("a", 2), T0)
    replica.assume(gang("b", 1), T0)
    assert ask(replica, gang("c", 2)).prospect is Prospect.WAITS
    assert ask(replica, gang("c", 1)).prospect is Prospect.FITS


def test_nobody_knows_whether_a_gang_finds_places_on_unknown_nodes() -> None:
    replica = make_replica(nodes=False)
    found = ask(replica, gang("a", 2))
    assert (found.prospect, found.start) == (Prospect.UNKNOWN, None)
    assert "whether its nodes have the places is not known" in found.reason
    assert ask(replica, gang("a", 2, wanted=None)).prospect is Prospect.FITS
    assert ask(replica, gang("a", 9)).prospect is Prospect.NEVER


def test_what_came_before_the_nodes_counts_on_them() -> None:
    replica = make_replica(nodes=False)
    replica.upsert_workload(running(gang("one", 1), "node-1"), T0)
    replica.upsert_workload(running(gang("two", 1), "node-3"), T0)
    replica.node_model.upsert_topology(Topology(name="racks", levels=(RACK, HOSTNAME)))
    for node in NODES:
        replica.node_model.upsert_node(node)
    assert ask(replica, gang("a", 2)).prospect is Prospect.UNKNOWN
    replica.node_model.see(nodes=True, pods=True)
    assert ask(replica, gang("a", 2)).prospect is Prospect.WAITS
    replica.node_model.see(nodes=False, pods=True)
    assert ask(replica, gang("a", 2)).prospect is Prospect.UNKNOWN


def test_where_pods_cannot_be_seen_a_forecast_says_so() -> None:
    found = ask(make_replica(pods=False), gang("a", 2))
    assert found.prospect is Prospect.FITS
    assert "what other pods take of its nodes is not known" in found.reason


def test_without_topologies_nothing_is_said_of_nodes() -> None:
    replica = make_replica(nodes=False)
    replica.upsert_flavor(ResourceFlavor(name="h100"))
    assert ask(replica, gang("a", 2, wanted=None)).reason == f"fits: 16 {GPU} (h100)"
    assert ask(replica, gang("a", 2)).prospect is Prospect.NEVER


def hours(number: float) -> Runtime:
    median = timedelta(hours=number)
    return Runtime(expected=median, low=median * 0.99, high=median * 1.01)


def test_a_gang_starts_when_its_rack_has_room_however_much_quota_is_free() -> None:
    replica = make_replica()
    for number, node in enumerate(("node-1", "node-2", "node-3", "node-4"), start=1):
        workload = running(gang(f"on-{node}", 1), node)
        replica.upsert_workload(workload, T0, runtime=hours(number))
    single, pair = ask(replica, gang("a", 1)), ask(replica, gang("a", 2))
    anywhere = ask(replica, gang("a", 3, wanted=CLOSE))
    for found, at in ((single, 1), (pair, 2), (anywhere, 3)):
        assert found.prospect is Prospect.WAITS
        assert found.start is not None
        assert abs(found.start.at - T0 - timedelta(hours=at)) < timedelta(minutes=5)


def test_who_waits_before_a_gang_takes_its_place() -> None:
    replica = make_replica()
    for number, node in enumerate(("node-1", "node-2", "node-3", "node-4"), start=1):
        workload = running(gang(f"on-{node}", 1), node)
        replica.upsert_workload(workload, T0, runtime=hours(number))
    first = replace(gang("first", 2), queue_order_at=T0 - timedelta(minutes=1))
    replica.upsert_workload(first, T0, runtime=hours(9))
    found = ask(replica, gang("a", 2))
    assert found.start is not None
    assert (found.start.ahead, found.start.at - T0 > timedelta(hours=3)) == (1, True)


def test_slices_wait_for_whole_ones() -> None:
    replica = make_replica()
    for number, node in ((1, "node-1"), (2, "node-3"), (3, "node-2"), (4, "node-4")):
        workload = running(gang(f"on-{node}", 1), node)
        replica.upsert_workload(workload, T0, runtime=hours(number))
    pairs = PodSetTopologyRequest(pod_set_slice_required_topology=RACK, pod_set_slice_size=2)
    for pods, at in ((2, 3), (4, 4)):
        start = ask(replica, gang("a", pods, wanted=pairs)).start
        assert start is not None
        assert abs(start.at - T0 - timedelta(hours=at)) < timedelta(minutes=5)


def test_behind_checks_no_places_are_looked_for() -> None:
    queue = make_queue("cq", flavor_quotas("h100", gpu=64), checks=(CheckRule(name="machines"),))
    replica = make_replica(queue)
    for node in NODES:
        replica.node_model.delete_node(node.name)
    assert ask(replica, gang("a", 2)).prospect is Prospect.FITS
    assert ask(replica, gang("a", 9)).prospect is Prospect.NEVER
