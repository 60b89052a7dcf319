"""Who is whose parent (E-21)."""

from multiqueue.engine.cache.cohort_graph import CohortGraph
from multiqueue.model.cluster_queue import Cohort


def graph_of(**parents: str) -> CohortGraph:
    graph = CohortGraph()
    for name, parent in parents.items():
        graph.set(Cohort(name=name, parent=parent))
    return graph


def test_a_cohort_that_is_only_named_exists() -> None:
    graph = graph_of(team="org")

    assert graph.root_of("team") == ("org", False)
    assert graph.get("org") == Cohort(name="org")
    assert graph.find("org") is None
    assert [cohort.name for cohort in graph.subtree("org")] == ["org", "team"]


def test_a_subtree_lists_parents_before_children_in_order() -> None:
    graph = graph_of(b="root", a="root", a2="a", a1="a")

    assert [cohort.name for cohort in graph.subtree("root")] == ["root", "a", "a1", "a2", "b"]


def test_a_cycle_is_named_after_its_smallest_member() -> None:
    graph = graph_of(c="b", b="a", a="c", below="b")

    assert graph.root_of("c") == graph.root_of("below") == ("a", True)
    assert {cohort.name for cohort in graph.subtree("a")} == {"a", "b", "c", "below"}


def test_a_removed_cohort_leaves_its_parent() -> None:
    graph = graph_of(a="root", b="root")
    graph.remove("a")
    graph.remove("b")
    graph.remove("unknown")

    assert graph.root_of("a") == ("a", False)
    assert [cohort.name for cohort in graph.subtree("root")] == ["root"]
