"""T-278 to T-287: what quotas a manager's ClusterQueue gets from its workers."""

from __future__ import annotations

import pytest

from multiqueue.api.conditions import AutomationReason
from multiqueue.api.names import QUOTA_PERCENT
from multiqueue.capacity.quota_automation import (
    WorkerShare,
    change_of,
    decide_quota,
    read_percent,
    sum_up,
)
from multiqueue.lib.amount import UNLIMITED, Amount
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    FlavorQuotas,
    Quota,
    ResourceGroup,
)
from multiqueue.model.resources import parse_request


def amount(resource: str, raw: str | int) -> Amount:
    return parse_request(resource, raw)


def make_group(*flavors: tuple[str, dict[str, str | int]]) -> ResourceGroup:
    """One group; every flavor has the same resources."""
    covered = tuple(flavors[0][1])
    return ResourceGroup(
        covered_resources=covered,
        flavors=tuple(
            FlavorQuotas(
                name=name, quotas={r: Quota(nominal=amount(r, raw)) for r, raw in quotas.items()}
            )
            for name, quotas in flavors
        ),
    )


def make_plain_queue(*groups: ResourceGroup) -> ClusterQueue:
    return ClusterQueue(name="cq", resource_groups=groups)


def simple(**quotas: str | int) -> ClusterQueue:
    return make_plain_queue(make_group(("default", quotas)))


def share(cluster: str, *queues: ClusterQueue) -> WorkerShare:
    return WorkerShare(cluster=cluster, totals=sum_up(queues))


def nominal(queue: ClusterQueue, *shares: WorkerShare) -> dict[str, Amount] | None:
    got = decide_quota(queue, shares).nominal
    return None if got is None else dict(got)


def test_workers_are_summed_up_by_resource():
    """T-278."""
    w1, w2 = share("w1", simple(cpu=4, memory="8Gi")), share("w2", simple(cpu="500m", memory="1Gi"))
    got = nominal(simple(cpu=1, memory=0), w1, w2)
    assert got == {"cpu": 4500, "memory": 9 * 2**30}


def test_several_queues_of_one_worker_count_each():
    """T-280."""
    assert nominal(simple(cpu=0), share("w1", simple(cpu=1), simple(cpu=2))) == {"cpu": 3000}


def test_all_flavors_and_groups_of_a_worker_count():
    """T-281."""
    worker = make_plain_queue(
        make_group(("on-demand", {"cpu": 1}), ("spot", {"cpu": 2})),
        make_group(("tier", {"memory": "1Gi"})),
    )
    got = nominal(simple(cpu=0, memory=0), share("w1", worker))
    assert got == {"cpu": 3000, "memory": 2**30}


def test_what_no_worker_has_becomes_zero():
    """T-282."""
    got = nominal(simple(cpu=5, memory="5Gi"), share("w1", simple(cpu=1)))
    assert got == {"cpu": 1000, "memory": 0}


def test_without_workers_nothing_is_left():
    assert nominal(simple(cpu=5)) == {"cpu": 0}


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (make_plain_queue(make_group(("a", {"cpu": 1}), ("b", {"cpu": 1}))), "there are 1 with 2"),
        (
            make_plain_queue(make_group(("a", {"cpu": 1})), make_group(("b", {"memory": 1}))),
            "there are 2 with 2",
        ),
        (make_plain_queue(), "there are 0 with 0"),
    ],
    ids=["two flavors", "two groups", "no group"],
)
def test_one_group_with_one_flavor_is_needed(queue: ClusterQueue, words: str):
    """T-284, M-202."""
    got = decide_quota(queue, [share("w1", simple(cpu=1))])
    assert (got.reason, got.nominal) == (AutomationReason.UNSUPPORTED_CONFIGURATION, None)
    assert words in got.message


def test_resources_that_the_manager_does_not_cover_are_named():
    """T-285."""
    workers = share("w1", simple(cpu=1, memory=1)), share("w2", simple(**{"nvidia.com/gpu": 1}))
    got = decide_quota(simple(cpu=1), workers)
    assert got.reason is AutomationReason.UNSUPPORTED_CONFIGURATION
    assert got.message.endswith("memory, nvidia.com/gpu")


def test_a_worker_that_hides_its_queues_leaves_quotas_alone():
    got = decide_quota(
        simple(cpu=1), [share("w1", simple(cpu=4)), WorkerShare(cluster="w2", is_unreadable=True)]
    )
    assert (got.reason, got.nominal) == (AutomationReason.UNSUPPORTED_CONFIGURATION, None)
    assert '"w2"' in got.message


def test_quotas_only_grow_while_a_worker_was_not_seen():
    """G-18, after a restart of the manager."""
    unseen = WorkerShare(cluster="w2")
    queue = simple(cpu=6, memory="1Gi")
    got = decide_quota(queue, [share("w1", simple(cpu=4, memory="2Gi")), unseen])
    assert got.nominal == {"cpu": 6000, "memory": 2 * 2**30}
    assert got.message.endswith("nothing is known of w2 yet")


def test_quotas_may_be_more_than_workers_have_so_that_waiting_gangs_stop_nobody():
    queue = simple(cpu=1, **{"nvidia.com/gpu": 1})
    got = decide_quota(queue, [share("w1", simple(cpu=4, **{"nvidia.com/gpu": 7}))], 125)
    assert got.nominal == {"cpu": 5000, "nvidia.com/gpu": 8}
    assert got.message == "The quotas are 125 % of the sum of those of the workers"
    unlimited = WorkerShare(cluster="w1", totals={"cpu": UNLIMITED})
    assert decide_quota(simple(cpu=1), [unlimited], 50).nominal == {"cpu": UNLIMITED}


@pytest.mark.parametrize(("text", "percent"), [("", 100), ("125", 125), (" 110% ", 110)])
def test_the_percentage_is_of_the_configuration(text: str, percent: int):
    assert read_percent({QUOTA_PERCENT: text}) == percent


@pytest.mark.parametrize("text", ["a lot", "0", "-5", "1001", "12.5", "\u0663"])
def test_a_percentage_that_is_none_says_what_to_write(text: str):
    with pytest.raises(ValueError, match="write a whole number of percent from 1 to 1000"):
        read_percent({QUOTA_PERCENT: text})


def test_the_order_of_resources_is_that_of_the_queue():
    queue = simple(memory=0, cpu=0)
    [group] = change_of(queue, {"memory": 2**30, "cpu": 1500}) or []
    assert group == {
        "coveredResources": ["memory", "cpu"],
        "flavors": [
            {
                "name": "default",
                "resources": [
                    {"name": "memory", "nominalQuota": "1Gi"},
                    {"name": "cpu", "nominalQuota": "1500m"},
                ],
            }
        ],
    }


def test_equal_quotas_are_not_written():
    assert change_of(simple(cpu="1500m"), {"cpu": 1500}) is None


def test_limits_are_dropped():
    """M-201."""
    quotas = {"cpu": Quota(nominal=1000, borrowing_limit=500, lending_limit=0)}
    group = ResourceGroup(
        covered_resources=("cpu",), flavors=(FlavorQuotas(name="default", quotas=quotas),)
    )
    assert change_of(make_plain_queue(group), {"cpu": 1000}) is not None
