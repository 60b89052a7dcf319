"""Quotas, limits and usage of a tree (E-31 to E-37)."""

import pytest

from multiqueue.api.conditions import QueueReason
from multiqueue.engine.cache.activity import Activity
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree, build_tree
from multiqueue.engine.tas.forest import Forest
from multiqueue.lib.amount import UNLIMITED
from multiqueue.model.cluster_queue import Cohort, FlavorQuotas, Quota
from tests.builders.engine import group, make_queue

FR = ("f", "gpu")


def gpus(nominal: int, *, borrow: int | None = None, lend: int | None = None) -> FlavorQuotas:
    quota = Quota(nominal=nominal, borrowing_limit=borrow, lending_limit=lend)
    return FlavorQuotas(name="f", quotas={"gpu": quota})


def make_cohort(name: str, quotas: FlavorQuotas | None = None, *, parent: str = "") -> Cohort:
    groups = (group(quotas),) if quotas else ()
    return Cohort(name=name, parent=parent, resource_groups=groups)


def make_tree(*cohorts: Cohort, **queues: FlavorQuotas | tuple[FlavorQuotas, str]) -> Tree:
    """A tree; queues are in the first cohort, or in that of ``(quotas, cohort)``."""
    cached = []
    for name, spec in queues.items():
        quotas, cohort = spec if isinstance(spec, tuple) and len(spec) == 2 else (spec, None)
        queue = CachedQueue(make_queue(name, quotas, cohort=cohort or cohorts[0].name))
        cached.append(queue)
    tree = build_tree("tree", cohorts, cached, Forest(), in_cycle=False)
    tree.set_heights()
    return tree


def use(tree: Tree, name: str, amount: int) -> None:
    tree.add_usage(tree.queues[name], {FR: amount})


def free(tree: Tree, name: str) -> int:
    node = tree.queues[name].node
    return node.available(node.slot(FR))


def potential(tree: Tree, name: str) -> int:
    node = tree.queues[name].node
    return node.potential[node.slot(FR)]


def cohort_usage(tree: Tree, name: str) -> int:
    node = tree.cohorts[name]
    return node.usage[node.slot(FR)]


def test_a_queue_may_use_what_others_in_the_cohort_leave() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(4), b=gpus(6))
    use(tree, "b", 1)

    assert free(tree, "a") == 9
    assert cohort_usage(tree, "co") == 1


def test_a_borrowing_limit_bounds_what_a_queue_takes_from_others() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(4, borrow=2), b=gpus(6))

    assert free(tree, "a") == 6
    use(tree, "a", 5)
    assert free(tree, "a") == 1
    assert potential(tree, "a") == 6


def test_a_lending_limit_keeps_the_rest_for_the_queue_itself() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(4), b=gpus(6, lend=1))

    assert free(tree, "a") == potential(tree, "a") == 5
    assert free(tree, "b") == 10
    use(tree, "a", 5)
    assert free(tree, "b") == 5


def test_usage_within_what_is_never_lent_does_not_reach_the_cohort() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(6, lend=2))
    use(tree, "a", 3)
    assert cohort_usage(tree, "co") == 0

    use(tree, "a", 3)
    assert cohort_usage(tree, "co") == 2


def test_giving_back_is_the_reverse_of_taking() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(6, lend=2), b=gpus(3))
    use(tree, "b", 4)
    use(tree, "a", 5)
    tree.remove_usage(tree.queues["a"], {FR: 5})

    assert cohort_usage(tree, "co") == 4
    assert free(tree, "a") == 5


def test_cohorts_have_quota_of_their_own_and_hand_it_down() -> None:
    root, team = make_cohort("root", gpus(5)), make_cohort("team", gpus(2), parent="root")
    tree = make_tree(root, team, a=(gpus(1), "team"), b=(gpus(3), "root"))

    assert free(tree, "a") == potential(tree, "a") == 11


def test_a_borrowing_limit_of_a_cohort_holds_for_all_below() -> None:
    root, team = (
        make_cohort("root", gpus(10)),
        make_cohort("team", gpus(0, borrow=3), parent="root"),
    )
    tree = make_tree(root, team, a=(gpus(1), "team"), b=(gpus(1), "team"))
    use(tree, "a", 4)

    assert free(tree, "b") == 1
    assert potential(tree, "b") == 5


def test_a_queue_that_lost_quota_has_less_than_nothing_free() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(1))
    use(tree, "a", 3)

    assert free(tree, "a") == -2


def test_unlimited_quota_is_never_used_up() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(1), b=gpus(UNLIMITED), c=gpus(UNLIMITED, lend=0))
    use(tree, "a", UNLIMITED - 1)
    use(tree, "a", 5)
    use(tree, "c", 5)

    assert free(tree, "a") == free(tree, "c") == UNLIMITED


def test_an_unlimited_borrowing_limit_is_none() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(1, borrow=UNLIMITED), b=gpus(2))

    assert free(tree, "a") == potential(tree, "a") == 3


def test_usage_of_a_flavor_that_left_the_spec_still_counts() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(2))
    tree.add_usage(tree.queues["a"], {("old", "gpu"): 3})

    assert tree.queues["a"].usage() == {("old", "gpu"): 3}
    assert tree.cohorts["co"].usage[tree.cohorts["co"].slot(("old", "gpu"))] == 3


def test_a_rebuilt_tree_keeps_the_usage_of_its_queues() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(2), b=gpus(2))
    use(tree, "a", 3)
    again = build_tree("tree", [make_cohort("co")], tree.queues.values(), Forest(), in_cycle=False)

    assert free(again, "b") == 1


HEIGHTS = [
    pytest.param("a", 1, (0, True), id="what the queue has itself is not borrowed"),
    pytest.param("a", 3, (1, True), id="its own cohort lends"),
    pytest.param("a", 5, (2, False), id="the root lends"),
    pytest.param("a", 50, (2, False), id="nobody can lend that much"),
    pytest.param("alone", 5, (0, False), id="a queue without a cohort never borrows"),
]


@pytest.mark.parametrize(("name", "amount", "want"), HEIGHTS)
def test_borrow_height_is_that_of_the_lowest_subtree_that_lends(
    name: str, amount: int, want: tuple[int, bool]
) -> None:
    root, team = make_cohort("root", gpus(5)), make_cohort("team", gpus(2), parent="root")
    tree = make_tree(root, team, a=(gpus(1), "team"), b=(gpus(0), "root"))
    alone = CachedQueue(make_queue("alone", gpus(1)))
    build_tree("alone", (), [alone], Forest(), in_cycle=False)
    node = alone.node if name == "alone" else tree.queues[name].node

    assert node.borrow_height(node.slot(FR), amount) == want


def test_unused_quota_that_is_never_lent_lowers_the_borrow_height() -> None:
    root, team = make_cohort("root", gpus(5)), make_cohort("team", gpus(4, lend=0), parent="root")
    tree = make_tree(root, team, a=(gpus(1), "team"), b=(gpus(9), "root"))
    node = tree.queues["a"].node

    assert node.borrow_height(node.slot(FR), 5) == (1, True)
    assert node.borrow_height(node.slot(FR), 6) == (2, False)


def test_heights_count_only_active_queues_as_children() -> None:
    tree = make_tree(make_cohort("co"), a=gpus(1))
    assert tree.cohorts["co"].height == 1

    tree.queues["a"].activity = Activity(reason=QueueReason.STOPPED, message="")
    tree.set_heights()
    assert tree.cohorts["co"].height == 0


@pytest.mark.parametrize(
    ("used", "amount", "height"),
    [
        pytest.param(0, 4, 0, id="its own quota"),
        pytest.param(0, 5, 1, id="left lends what is beyond the 3 that it keeps"),
        pytest.param(0, 6, 2, id="left has 2 only"),
        pytest.param(2, 3, 1, id="1 is left of the 3"),
        pytest.param(2, 4, 2, id="and no more"),
    ],
)
def test_the_height_of_a_loan_leaves_out_what_a_queue_keeps(
    used: int, amount: int, height: int
) -> None:
    tree = make_tree(
        make_cohort("root"),
        make_cohort("left", parent="root"),
        a=(gpus(4, lend=1), "left"),
        b=(gpus(1), "left"),
        c=(gpus(9), "root"),
    )
    use(tree, "a", used)
    node = tree.queues["a"].node

    assert node.borrow_height(node.slot(FR), amount)[0] == height


@pytest.mark.parametrize(("used", "want"), [(1, 5), (3, 3), (5, 1), (6, 0)])
def test_both_limits_of_a_queue_hold_together(used: int, want: int) -> None:
    """It keeps 3 of its 4 to itself, and may use 6 in all."""
    tree = make_tree(make_cohort("co"), a=gpus(4, lend=1, borrow=2), b=gpus(9))
    use(tree, "a", used)

    assert free(tree, "a") == want
