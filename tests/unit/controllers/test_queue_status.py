"""Status of queues on the wire, and the finalizers that keep objects in use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from multiqueue.api.conditions import QueueReason
from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.api.v1beta2 import (
    ClusterQueue,
    ClusterQueueStatus,
    Cohort,
    CohortStatus,
    FairSharingStatus,
    LocalQueue,
    ObjectMeta,
)
from multiqueue.controllers.finalizer import finalizers_wanted
from multiqueue.controllers.queue_status import cluster_queue_patch, cohort_patch, local_queue_patch
from multiqueue.engine.cache.drs import NO_SHARE, Share
from multiqueue.engine.state import ClusterQueueState, CohortState, LocalQueueState, UsedQuota
from tests.builders.workloads import T0, minutes

STATE = ClusterQueueState(
    name="cq",
    active=True,
    reason=QueueReason.READY,
    message="Can admit new workloads",
    pending=2,
    reserving=1,
    reservation={"a100": {"cpu": UsedQuota(total=1500, borrowed=500)}},
    usage={"a100": {"memory": UsedQuota(total=2**30)}},
)


def queue_with(status: dict[str, Any]) -> ClusterQueue:
    return ClusterQueue(
        metadata=ObjectMeta(name="cq", generation=3),
        status=msgspec.convert(status, ClusterQueueStatus),
    )


def test_the_first_status_has_everything_in_wire_quantities() -> None:
    assert cluster_queue_patch(queue_with({}), STATE, T0) == {
        "conditions": [
            {
                "type": "Active",
                "status": "True",
                "reason": "Ready",
                "message": "Can admit new workloads",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 3,
            }
        ],
        "flavorsReservation": [
            {"name": "a100", "resources": [{"name": "cpu", "total": "1500m", "borrowed": "500m"}]}
        ],
        "flavorsUsage": [
            {"name": "a100", "resources": [{"name": "memory", "total": "1Gi", "borrowed": "0"}]}
        ],
        "pendingWorkloads": 2,
        "reservingWorkloads": 1,
        "admittedWorkloads": 0,
    }


def test_what_did_not_change_is_not_written() -> None:
    written = queue_with(cluster_queue_patch(queue_with({}), STATE, T0))
    assert cluster_queue_patch(written, STATE, minutes(1)) == {}
    emptied = replace(STATE, pending=0)
    assert cluster_queue_patch(written, emptied, minutes(1)) == {"pendingWorkloads": 0}


def test_a_local_queue_tells_the_same() -> None:
    queue = LocalQueue(metadata=ObjectMeta(name="lq", namespace="team-a"))
    state = LocalQueueState(
        key="team-a/lq",
        active=False,
        reason=QueueReason.CLUSTER_QUEUE_DOES_NOT_EXIST,
        message="Can't submit new workloads to clusterQueue",
        reservation={"a100": {"memory": UsedQuota(total=1), "cpu": UsedQuota(total=5, borrowed=2)}},
    )
    patch = local_queue_patch(queue, state, T0)
    (condition,) = patch["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "ClusterQueueDoesNotExist")
    assert patch["pendingWorkloads"] == 0
    by_name = [{"name": "cpu", "total": "5m"}, {"name": "memory", "total": "1"}]
    assert patch["flavorsReservation"] == [{"name": "a100", "resources": by_name}]


@pytest.mark.parametrize(
    ("finalizers", "deleted", "in_use", "want"),
    [
        pytest.param((), False, False, [RESOURCE_IN_USE], id="a new object gets it"),
        pytest.param(("x",), False, True, ["x", RESOURCE_IN_USE], id="beside those of others"),
        pytest.param((RESOURCE_IN_USE,), False, False, None, id="once"),
        pytest.param((RESOURCE_IN_USE,), True, True, None, id="kept while in use"),
        pytest.param(("x", RESOURCE_IN_USE), True, False, ["x"], id="taken off when it may go"),
        pytest.param((), True, False, None, id="never added to what is being deleted"),
    ],
)
def test_finalizers(
    finalizers: tuple[str, ...], deleted: bool, in_use: bool, want: list[str] | None
) -> None:
    """E-119."""
    metadata = ObjectMeta(
        name="cq", finalizers=finalizers, deletion_timestamp="t" if deleted else ""
    )
    assert finalizers_wanted(ClusterQueue(metadata=metadata), in_use=in_use) == want


def test_a_share_is_written_rounded_up_and_a_zero_too() -> None:
    share = Share(is_endless=False, value=33.3)
    shared = cluster_queue_patch(queue_with({}), replace(STATE, weighted_share=share), T0)
    none = cluster_queue_patch(queue_with({}), replace(STATE, weighted_share=NO_SHARE), T0)

    assert shared["fairSharing"] == {"weightedShare": 34}
    assert none["fairSharing"] == {"weightedShare": 0}


def test_a_cohort_gets_a_new_share_only() -> None:
    endless = Share(is_endless=True, value=1.0)
    cohort = Cohort(status=CohortStatus(fair_sharing=FairSharingStatus(weighted_share=34)))

    assert cohort_patch(cohort, CohortState(name="c")) == {}
    same = CohortState(name="c", weighted_share=Share(is_endless=False, value=33.3))
    assert cohort_patch(cohort, same) == {}
    assert cohort_patch(cohort, CohortState(name="c", weighted_share=endless)) == {
        "fairSharing": {"weightedShare": 2**63 - 1}
    }
    assert cohort_patch(Cohort(), CohortState(name="c", weighted_share=NO_SHARE)) == {
        "fairSharing": {"weightedShare": 0}
    }
