"""LeaderWorkerSets: their groups, their pods, and which changes are refused (J-296 to J-313)."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.jobs.leaderworkerset.integration import (
    GROUP_INDEX,
    LEADER_NAME,
    LeaderWorkerSetKind,
    group_count,
)
from multiqueue.jobs.leaderworkerset.multikueue import as_set
from multiqueue.jobs.pod_owners.multikueue import PodOwnerAdapter
from multiqueue.jobs.setup import load_kind
from tests.job_kinds import ROWS
from tests.pod_objects import make_pod, running, stored
from tests.unit.webhooks.lookups import Queues

ROW = ROWS["leaderworkerset.x-k8s.io/leaderworkerset"]
KIND = LeaderWorkerSetKind(ROW)
WEBHOOK = load_kind(ROW).webhook
CONFIG = Configuration()
LIMIT = 253


def template(cpu: str = "1", **annotations: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}
    made: dict[str, Any] = {"spec": {"containers": [container]}}
    return {**made, "metadata": {"annotations": annotations}} if annotations else made


def make(
    wanted: int = 2, size: int | None = 3, *, leader: bool = False, surge: Any = None, **more: Any
) -> dict[str, Any]:
    groups: dict[str, Any] = {"workerTemplate": template()}
    if size is not None:
        groups["size"] = size
    if leader:
        groups["leaderTemplate"] = template()
    spec: dict[str, Any] = {"replicas": wanted, "leaderWorkerTemplate": groups}
    if surge is not None:
        spec["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxSurge": surge}}
    labels = {names.QUEUE_NAME: "lq"}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm", "namespace": "ns", "uid": "u1", "labels": labels},
        "spec": spec,
        "status": more,
    }


def errors_of(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [error.path for error in WEBHOOK.validate_update(new, old, CONFIG)]


@pytest.mark.parametrize(
    ("job", "pod_sets"),
    [
        (make(leader=True), [("leader", 1), ("worker", 2)]),
        (make(size=4), [("main", 4)]),
        (make(size=1, leader=True), [("leader", 1), ("worker", 0)]),
        (make(size=None), [("main", 1)]),
    ],
)
def test_each_replica_is_a_group(job: dict[str, Any], pod_sets: list[tuple[str, int]]) -> None:
    """J-296, J-298."""
    groups = KIND.groups(job, LIMIT)
    assert [group.index for group in groups] == [0, 1]
    assert [group.workload[:-6] for group in groups] == [
        "leaderworkerset-llm-0",
        "leaderworkerset-llm-1",
    ]
    for group in groups:
        assert [(p.name, p.count) for p in group.pod_sets] == pod_sets


@pytest.mark.parametrize("surge", [1, "50%"])
def test_a_rollout_has_groups_in_addition(surge: Any) -> None:
    """J-297: also if the surge is a percentage."""
    assert group_count(make(2, surge=surge, replicas=3, updatedReplicas=1)) == 3
    assert group_count(make(2, surge=surge, replicas=3, updatedReplicas=2)) == 2
    assert group_count(make(2, surge=0, replicas=3, updatedReplicas=1)) == 2
    assert group_count(make(2, surge="0%", replicas=3, updatedReplicas=1)) == 2


def test_templates_are_marked_and_workers_count_on_from_their_leader() -> None:
    """J-300."""
    job = WEBHOOK.default(make(leader=True), Queues(), CONFIG).job
    groups = job["spec"]["leaderWorkerTemplate"]
    common = {names.POD_GROUP_SERVING: "true", names.POD_SUSPENDING_PARENT: ROW.framework}
    assert groups["leaderTemplate"]["metadata"]["annotations"] == common
    assert groups["workerTemplate"]["metadata"] == {
        "labels": {names.QUEUE_NAME: "lq"},
        "annotations": {**common, names.POD_INDEX_OFFSET: "1"},
    }


def test_workers_that_are_placed_with_their_leader_have_no_offset() -> None:
    job = make(leader=True)
    job["spec"]["leaderWorkerTemplate"]["workerTemplate"] = template(
        **{names.PODSET_GROUP_NAME: "both"}
    )
    worker = WEBHOOK.default(job, Queues(), CONFIG).job["spec"]["leaderWorkerTemplate"]
    assert names.POD_INDEX_OFFSET not in worker["workerTemplate"]["metadata"]["annotations"]


def test_a_pod_joins_its_group_once_its_index_is_known() -> None:
    """J-301."""
    job = make(leader=True)
    assert KIND.stamp(job, pod := stored(make_pod("llm-1")), LIMIT) == pod
    leader = KIND.stamp(job, stored(make_pod("llm-1", labels={GROUP_INDEX: "1"})), LIMIT)
    annotations = leader["metadata"]["annotations"]
    assert annotations[names.POD_GROUP_NAME] == KIND.groups(job, LIMIT)[1].workload
    assert annotations[names.ROLE_HASH] == "leader"
    worker = make_pod("llm-1-1", labels={GROUP_INDEX: "1"}, annotations={LEADER_NAME: "llm-1"})
    stamped = KIND.stamp(job, running(worker), LIMIT)
    assert stamped["metadata"]["annotations"][names.ROLE_HASH] == "worker"


def test_size_shape_and_leader_stay_as_they_are_but_replicas_and_images_may_change() -> None:
    """J-305, J-306."""
    assert errors_of(make(5), make(1)) == []
    assert errors_of(make(size=2), make(size=3)) == ["spec.leaderWorkerTemplate.size"]
    assert errors_of(make(leader=True), make()) == ["spec.leaderWorkerTemplate.leaderTemplate"]
    new = make()
    new["spec"]["leaderWorkerTemplate"]["workerTemplate"] = template(cpu="4")
    assert errors_of(new, make()) == [
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].resources.requests"
    ]


@pytest.mark.parametrize("replicas", [-1, 1_000_001])
def test_the_number_of_replicas_has_bounds(replicas: int) -> None:
    """J-304."""
    errors = WEBHOOK.validate_create(make(replicas), CONFIG)
    assert [error.path for error in errors] == ["spec.replicas"]


def test_each_group_is_a_set_of_its_own_on_a_worker() -> None:
    """J-313: the pods there get the name of the manager's Workload."""
    local = make(2, leader=True)
    for index, group in enumerate(KIND.groups(local, LIMIT)):
        job = as_set(local, index)
        copy = PodOwnerAdapter(KIND).remote_job(job, workload_name=group.workload, origin="hub")
        assert copy["metadata"]["name"] == ("llm", "llm-replica-1")[index]
        assert copy["spec"] == {**local["spec"], "replicas": 1}
        copy["metadata"]["uid"] = "another"
        pod = KIND.stamp(copy, stored(make_pod("p", labels={GROUP_INDEX: "0"})), LIMIT)
        assert pod["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME] == group.workload
    assert local["spec"]["replicas"] == 2


def test_an_upstream_worker_derives_the_name_of_the_first_group() -> None:
    """M-144: without the prebuilt name, from the uid of the original."""
    local = make(2)
    [first, _] = KIND.groups(local, LIMIT)
    copy = PodOwnerAdapter(KIND).remote_job(
        as_set(local, 0), workload_name=first.workload, origin="hub"
    )
    del copy["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME]
    del copy["metadata"]["labels"][names.PREBUILT_WORKLOAD_NAME]
    copy["metadata"]["uid"] = "another"
    assert [group.workload for group in KIND.groups(copy, LIMIT)] == [first.workload]
