"""How large the share of a queue or cohort is, and which of two is larger (E-66)."""

import math
from dataclasses import replace

import pytest

from multiqueue.engine.cache.drs import (
    LARGEST_REPORTED,
    NO_SHARE,
    Share,
    is_borrowing,
    is_borrowing_any_of,
    passed_up,
    share_of,
)
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.lib.amount import UNLIMITED
from multiqueue.lib.quantity import parse_quantity
from multiqueue.model.cluster_queue import ClusterQueue, Cohort, Quota
from tests.builders.engine import flavor_quotas, group, make_queue
from tests.preemption_world import Holdings, make_cpu_queue


def weighted(name: str, cpu: int, weight: str) -> ClusterQueue:
    queue = make_cpu_queue(name, cpu, cohort="team")
    return replace(queue, weight=parse_quantity(weight))


def node_of(world: Holdings, queue: str) -> QuotaNode:
    return world.queue(queue).node


def cohort_of(world: Holdings, name: str) -> QuotaNode:
    return next(tree.cohorts[name] for tree in world.cache.trees.values() if name in tree.cohorts)


def test_what_is_borrowed_counts_in_thousandths_of_what_the_cohort_can_lend() -> None:
    world = Holdings(make_cpu_queue("a", 2, cohort="team"), make_cpu_queue("b", 6, cohort="team"))
    world.hold("w", "a", cpu=5)

    assert share_of(node_of(world, "a")) == Share(is_endless=False, value=3000 * 1000.0 / 8000)
    assert share_of(node_of(world, "b")) == NO_SHARE
    assert share_of(cohort_of(world, "team")) == NO_SHARE


def test_the_share_after_an_admission_is_told_without_it() -> None:
    world = Holdings(make_cpu_queue("a", 2, cohort="team"), make_cpu_queue("b", 6, cohort="team"))
    node = node_of(world, "a")
    slot = node.slot_by_flavor_resource["default", "cpu"]

    assert share_of(node, {slot: 4000}).value == 250
    assert share_of(node) == NO_SHARE


def test_a_weight_divides_the_share() -> None:
    world = Holdings(weighted("a", 0, "2500m"), weighted("b", 9, "1"))
    world.hold("w", "a", cpu=3)

    assert share_of(node_of(world, "a")).value == 3000 * 1000.0 / 9000 / 2.5


def test_a_new_weight_counts_at_once() -> None:
    world = Holdings(weighted("a", 0, "1"), weighted("b", 8, "1"))
    world.hold("w", "a", cpu=2)
    world.cache.upsert_cluster_queue(weighted("a", 0, "2"))

    assert share_of(node_of(world, "a")).value == 125


def test_who_borrows_with_weight_zero_has_more_than_everybody_else() -> None:
    world = Holdings(weighted("none", 0, "0"), weighted("more", 0, "0"), weighted("rich", 8, "1n"))
    world.hold("v", "none", cpu=1)
    world.hold("w", "more", cpu=2)
    world.hold("x", "rich", cpu=9)
    none, more, rich = (share_of(node_of(world, name)) for name in ("none", "more", "rich"))

    assert rich < none < more
    assert none.is_endless
    assert none.reported == LARGEST_REPORTED
    assert math.isnan(none.measured)


def test_who_borrows_nothing_has_no_share_even_with_weight_zero() -> None:
    world = Holdings(weighted("a", 2, "0"), weighted("b", 2, "1"))
    world.hold("w", "a", cpu=2)

    assert share_of(node_of(world, "a")) == NO_SHARE


def test_the_resource_with_the_most_of_its_own_counts_and_flavors_are_summed() -> None:
    flavors = (flavor_quotas("x", cpu=2, gpu=0), flavor_quotas("y", cpu=2, gpu=0))
    lent = (flavor_quotas("x", cpu=8, gpu=4), flavor_quotas("y", cpu=8, gpu=4))
    world = Holdings(
        make_queue("a", group(*flavors), cohort="team"),
        make_queue("b", group(*lent), cohort="team"),
    )
    world.hold("v", "a", flavor="x", cpu=5, gpu=1)
    world.hold("w", "a", flavor="y", cpu=4)

    # cpu: 3 + 2 of 20; gpu: 1 of 8
    assert share_of(node_of(world, "a")).value == 5000 * 1000.0 / 20000
    world.hold("u", "a", flavor="y", gpu=3)
    assert share_of(node_of(world, "a")).value == 4 * 1000.0 / 8


@pytest.mark.parametrize("weight", ["1", "0"])
def test_borrowing_without_a_share_where_nothing_can_be_lent(weight: str) -> None:
    world = Holdings(weighted("a", 0, weight), make_cpu_queue("b", 0, cohort="team"))
    world.hold("w", "a", cpu=1)
    node = node_of(world, "a")

    assert is_borrowing(node)
    assert share_of(node) == NO_SHARE


def test_unlimited_quota_is_never_exceeded_and_lends_without_end() -> None:
    world = Holdings(
        make_queue("a", flavor_quotas("default", cpu=Quota(nominal=UNLIMITED)), cohort="team"),
        make_cpu_queue("b", 1, cohort="team"),
    )
    world.hold("v", "a", cpu=10**6)
    world.hold("w", "b", cpu=2)

    assert share_of(node_of(world, "a")) == NO_SHARE
    assert share_of(node_of(world, "b")).value == 1000 * 1000.0 / float(2**63 - 1)


def test_usage_of_what_no_spec_names_does_not_count() -> None:
    world = Holdings(make_cpu_queue("a", 1, cohort="team"), make_cpu_queue("b", 1, cohort="team"))
    world.hold("w", "a", flavor="gone", cpu=7)

    assert not is_borrowing(node_of(world, "a"))
    assert share_of(node_of(world, "a")) == NO_SHARE


def test_a_root_and_a_queue_on_its_own_have_no_share() -> None:
    world = Holdings(make_cpu_queue("alone", 1))
    world.hold("w", "alone", cpu=7)
    node = node_of(world, "alone")

    assert share_of(node) == NO_SHARE
    assert not is_borrowing(node)
    assert not is_borrowing_any_of(node, {0: 1})


def deep() -> Holdings:
    """root - left (- a 2 cpu, of which it lends 1; - b 0 cpu) and c 6 cpu."""
    return Holdings(
        make_cpu_queue("a", 2, cohort="left", lend=1),
        make_cpu_queue("b", 0, cohort="left"),
        make_cpu_queue("c", 6, cohort="root"),
        cohorts=[Cohort(name="root"), Cohort(name="left", parent="root")],
    )


def test_each_level_has_its_own_share() -> None:
    world = deep()
    world.hold("v", "a", cpu=1)
    world.hold("w", "b", cpu=4)

    assert share_of(node_of(world, "b")).value == 4000 * 1000.0 / 7000
    assert share_of(cohort_of(world, "left")).value == 3000 * 1000.0 / 7000


def test_the_local_quota_keeps_usage_from_the_levels_above() -> None:
    world = deep()
    a = node_of(world, "a")
    slot = a.slot_by_flavor_resource["default", "cpu"]

    assert passed_up(a, {slot: 3000}) == {a.up[slot]: 2000}
    assert passed_up(a, {slot: 500}) == {a.up[slot]: 0}
    world.hold("w", "a", cpu=2)
    assert passed_up(a, {slot: 500}) == {a.up[slot]: 500}
