"""Which gated pods may go, and where to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2 import PodSetTopologyRequest, UnhealthyNode, Workload
from multiqueue.api.workload_state import evict
from multiqueue.controllers.topology.ungate import decide_releases, place_by_rank
from multiqueue.controllers.topology.ungater import release_patch
from multiqueue.jobs.machines.pods import Pod
from multiqueue.model.topology import HOSTNAME
from tests.builders.workloads import T0, make_workload, with_status
from tests.unit.controllers.topology.builders import INDEX, make_assignment, make_pod, placed

BY_INDEX = PodSetTopologyRequest(required="rack", pod_index_label=INDEX)
TWO_NODES = make_assignment(("n1", 2), ("n2", 1))


def released(workload: Workload, pods: Iterable[Pod]) -> dict[str, str]:
    """Host by name of the pod."""
    return {
        release.pod.key.partition("/")[2]: release.selector[HOSTNAME]
        for release in decide_releases(workload, pods)
    }


def test_domains_are_filled_one_after_another() -> None:
    """E-147."""
    pods = [make_pod("c"), make_pod("a"), make_pod("b"), make_pod("d")]
    assert released(placed(TWO_NODES), pods) == {"a": "n1", "b": "n1", "c": "n2"}


def test_pods_that_went_already_keep_their_place() -> None:
    pods = [make_pod("a", on="n1"), make_pod("b"), make_pod("c", on="n2")]
    assert released(placed(TWO_NODES), pods) == {"b": "n1"}


def test_the_place_of_a_pod_that_ended_is_free() -> None:
    pods = [make_pod("a", on="n1", phase="Failed"), make_pod("b"), make_pod("c")]
    assert released(placed(TWO_NODES), pods) == {"b": "n1", "c": "n1"}


def test_ranks_decide_where_there_are_any() -> None:
    """E-147."""
    pods = [make_pod("a", index="2"), make_pod("b", index="1"), make_pod("c", index="0")]
    workload = placed(TWO_NODES, request=BY_INDEX)
    assert released(workload, pods) == {"c": "n1", "b": "n1", "a": "n2"}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([make_pod("a", index="0"), make_pod("b")], id="one has no index"),
        pytest.param([make_pod("a", index="1"), make_pod("b", index="1")], id="two share one"),
        pytest.param([make_pod("a", index="0"), make_pod("b", index="9")], id="one is too high"),
        pytest.param([make_pod("a", index="0"), make_pod("b", index="x")], id="one is no number"),
        pytest.param(
            [make_pod("a", index="0"), make_pod("b", index="2", on="n1")],
            id="one runs where its rank does not belong",
        ),
        pytest.param(
            [make_pod("a", index="0", offset="x"), make_pod("b", index="1")], id="odd offset"
        ),
    ],
)
def test_ranks_cannot_be_used_where(pods: list[Pod]) -> None:
    assert place_by_rank(TWO_NODES, pods, BY_INDEX) is None


def test_pods_say_where_their_numbers_begin() -> None:
    pods = [make_pod("a", index="3", offset="1"), make_pod("b", index="1", offset="1")]
    assert released(placed(TWO_NODES, request=BY_INDEX), pods) == {"a": "n2", "b": "n1"}


def test_ranks_of_sub_groups_follow_each_other() -> None:
    request = PodSetTopologyRequest(
        required="rack",
        pod_index_label=INDEX,
        sub_group_index_label="job-index",
        sub_group_count=2,
    )
    four = make_assignment(("n1", 2), ("n2", 2))
    pods = [
        _with_label(make_pod("b-0", index="0"), "job-index", "1"),
        _with_label(make_pod("a-1", index="1"), "job-index", "0"),
    ]
    assert released(placed(four, request=request), pods) == {"b-0": "n2", "a-1": "n1"}
    beyond = _with_label(make_pod("c", index="2"), "job-index", "0")
    assert place_by_rank(four, [beyond], request) is None


def _with_label(pod: Pod, key: str, value: str) -> Pod:
    return replace(pod, labels={**pod.labels, key: value})


def test_a_successor_waits_until_its_place_is_free() -> None:
    """E-147."""
    pods = [make_pod("old", index="0", on="n1", deleted=True), make_pod("new", index="0")]
    assert released(placed(TWO_NODES, request=BY_INDEX), pods) == {}


def test_pods_of_an_unhealthy_node_stay() -> None:
    workload = placed(TWO_NODES)
    status = msgspec.structs.replace(workload.status, unhealthy_nodes=(UnhealthyNode(name="n1"),))
    pods = [make_pod("a"), make_pod("b"), make_pod("c")]
    assert released(with_status(workload, status), pods) == {"c": "n2"}


def test_nothing_goes_that_is_not_admitted_or_leaves() -> None:
    workload = placed(TWO_NODES)
    leaving = evict(workload.status, Reason.PREEMPTED, "", now=T0)
    assert decide_releases(with_status(workload, leaving), [make_pod("a")]) == []
    assert decide_releases(make_workload("wl"), [make_pod("a")]) == []
    assert decide_releases(placed(None), [make_pod("a")]) == []


def test_workers_are_counted_on_from_their_leader_or_from_zero() -> None:
    workload = _group()
    leader = make_pod("l", index="0", pod_set="leader")
    from_one = [make_pod("w1", index="1"), make_pod("w2", index="2")]
    from_zero = [make_pod("w0", index="0"), make_pod("w1", index="1")]
    assert released(workload, [leader, *from_one]) == {"l": "n1", "w1": "n1", "w2": "n2"}
    assert released(workload, [leader, *from_zero]) == {"l": "n1", "w0": "n1", "w1": "n2"}


def _group() -> Workload:
    """Two workers and their leader, placed together."""
    request = msgspec.structs.replace(BY_INDEX, pod_set_group_name="g")
    workload = placed(make_assignment(("n1", 1), ("n2", 1)), request=request)
    leading = placed(make_assignment(("n1", 1)), request=request)
    mains = (workload.spec.pod_sets[0], leading.spec.pod_sets[0])
    pod_sets = (mains[0], msgspec.structs.replace(mains[1], name="leader"))
    theirs, ours = leading.status.admission, workload.status.admission
    assert theirs is not None
    assert ours is not None
    second = msgspec.structs.replace(theirs.pod_set_assignments[0], name="leader")
    admission = msgspec.structs.replace(
        ours, pod_set_assignments=(*ours.pod_set_assignments, second)
    )
    return msgspec.structs.replace(
        workload,
        spec=msgspec.structs.replace(workload.spec, pod_sets=pod_sets),
        status=msgspec.structs.replace(workload.status, admission=admission),
    )


def test_a_released_pod_loses_our_gate_only() -> None:
    (release,) = decide_releases(placed(make_assignment(("n1", 1))), [make_pod("a")])
    assert release_patch(release) == {
        "metadata": {"uid": "a", "resourceVersion": "7"},
        "spec": {"nodeSelector": {HOSTNAME: "n1"}, "schedulingGates": None},
    }
