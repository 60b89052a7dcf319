"""Why a ClusterQueue does not admit (E-39, M-62)."""

import pytest

from multiqueue.api.conditions import QueueReason
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER
from multiqueue.engine.cache.activity import References, judge_activity
from multiqueue.model.cluster_queue import AdmissionCheckInfo, ClusterQueue, StopPolicy
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from tests.builders.engine import check_rule, flavor_quotas, make_queue

FLAVORS = {
    "default": ResourceFlavor(name="default"),
    "racks": ResourceFlavor(name="racks", topology_name="dc"),
    "halls": ResourceFlavor(name="halls", topology_name="unknown"),
}
CHECKS = {
    "plain": AdmissionCheckInfo(name="plain"),
    "asleep": AdmissionCheckInfo(name="asleep", active=False),
    "mk1": AdmissionCheckInfo(name="mk1", controller_name=MULTIKUEUE_CONTROLLER),
    "mk2": AdmissionCheckInfo(name="mk2", controller_name=MULTIKUEUE_CONTROLLER),
    "prov": AdmissionCheckInfo(name="prov", controller_name=PROVISIONING_REQUEST_CONTROLLER),
}


def judge(queue: ClusterQueue, *, in_cycle: bool = False) -> tuple[QueueReason | None, str]:
    references = References(
        flavors=FLAVORS, checks=CHECKS, topologies={"dc": Topology(name="dc", levels=("rack",))}
    )
    got = judge_activity(queue, references, in_cycle=in_cycle)
    return got.reason, got.message


def with_checks(*names: str) -> ClusterQueue:
    return make_queue(checks=tuple(check_rule(name) for name in names))


def test_a_queue_that_lacks_nothing_is_active() -> None:
    assert judge(with_checks("plain", "mk1")) == (None, "Can admit new workloads")
    assert judge(make_queue("cq", flavor_quotas("racks", gpu=1)))[0] is None


def test_a_terminating_queue_says_so_and_nothing_else() -> None:
    queue = make_queue(terminating=True, stop_policy=StopPolicy.HOLD)

    assert judge(queue)[0] is QueueReason.TERMINATING


def test_the_first_problem_is_the_reason_and_all_are_in_the_message() -> None:
    queue = make_queue("cq", flavor_quotas("gone", gpu=1), stop_policy=StopPolicy.HOLD)

    assert judge(queue) == (
        QueueReason.STOPPED,
        "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): gone.",
    )


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        pytest.param(
            make_queue("cq", flavor_quotas("gone", gpu=1)),
            QueueReason.FLAVOR_NOT_FOUND,
            id="a flavor is missing",
        ),
        pytest.param(
            make_queue("cq", flavor_quotas("halls", gpu=1)),
            QueueReason.TOPOLOGY_NOT_FOUND,
            id="a topology is missing",
        ),
        pytest.param(
            with_checks("gone"), QueueReason.ADMISSION_CHECK_NOT_FOUND, id="a check is missing"
        ),
        pytest.param(
            with_checks("asleep"), QueueReason.ADMISSION_CHECK_INACTIVE, id="a check is inactive"
        ),
        pytest.param(
            with_checks("mk1", "mk2"),
            QueueReason.MULTIPLE_MULTIKUEUE_CHECKS,
            id="it dispatches twice",
        ),
        pytest.param(
            make_queue(
                "cq",
                flavor_quotas("default", gpu=1),
                flavor_quotas("racks", cpu=1),
                checks=(check_rule("mk1", "default"),),
            ),
            QueueReason.MULTIKUEUE_CHECK_PER_FLAVOR,
            id="it dispatches only one of its flavors",
        ),
        pytest.param(
            with_checks("mk1", "prov"),
            QueueReason.MULTIKUEUE_WITH_PROVISIONING,
            id="it dispatches and provisions",
        ),
    ],
)
def test_a_queue_is_inactive_when(queue: ClusterQueue, reason: QueueReason) -> None:
    assert judge(queue)[0] is reason


def test_a_queue_that_dispatches_needs_no_topology_here() -> None:
    """M-63."""
    queue = make_queue("cq", flavor_quotas("halls", gpu=1), checks=(check_rule("mk1"),))

    assert judge(queue)[0] is None


def test_a_queue_in_a_cycle_of_cohorts_is_inactive() -> None:
    reason, message = judge(make_queue(cohort="loop"), in_cycle=True)

    assert reason is QueueReason.UNKNOWN
    assert 'cohort "loop" is part of a cycle' in message
