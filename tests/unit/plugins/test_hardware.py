"""Whether a flavor is what a pod set asked for."""

from __future__ import annotations

import pytest

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Taint, Toleration
from multiqueue.model.placement import Placement
from multiqueue.plugins import (
    FlavorView,
    Grade,
    PodSetView,
    QueueView,
    ReservedFlavor,
    ResourceGroupView,
    WeightedTerm,
    grade_flavor,
)
from multiqueue.plugins.hardware import describe_constraint, preference_of

GPU = "nvidia.com/gpu"
GROUP = ResourceGroupView(resources=(GPU,), flavors=("a100", "h100", "plain"))


def make_flavors(**flavors: FlavorView) -> QueueView:
    known = {
        "a100": FlavorView(name="a100", node_labels={"gpu": "a100", "memory": "40"}),
        "h100": FlavorView(name="h100", node_labels={"gpu": "h100", "memory": "80"}),
        "plain": FlavorView(name="plain"),
    }
    return QueueView(name="cq", groups=(GROUP,), flavors={**known, **flavors})


def grades(pod_set: PodSetView, queue: QueueView | None = None) -> dict[str, str]:
    queue = queue or make_flavors()
    return {n: grade_flavor(pod_set, queue, GROUP, f).name for n, f in queue.flavors.items()}


def require(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def ask(*terms: tuple[LabelSelectorRequirement, ...], **selector: str) -> PodSetView:
    return PodSetView(
        requests={GPU: 1},
        placement=Placement(
            node_selector=tuple(sorted(selector.items())), affinity_terms=terms or None
        ),
    )


def test_who_asks_for_nothing_gets_anything():
    assert set(grades(ask()).values()) == {"SILENT"}


def test_a_selector_picks_its_flavor_and_no_silent_one():
    assert grades(ask(gpu="h100")) == {"a100": "MISMATCH", "h100": "MATCH", "plain": "MISMATCH"}


def test_a_label_that_no_flavor_mentions_says_nothing():
    assert set(grades(ask(zone="eu")).values()) == {"SILENT"}


@pytest.mark.parametrize(
    ("requirement", "want"),
    [
        (require("gpu", "In", "a100", "b200"), {"a100"}),
        (require("gpu", "NotIn", "a100"), {"h100", "plain"}),
        (require("gpu", "Exists"), {"a100", "h100"}),
        (require("gpu", "DoesNotExist"), {"plain"}),
        (require("memory", "Gt", "50"), {"h100"}),
        (require("memory", "Lt", "50"), {"a100"}),
        (require("memory", "Lt", "many"), set()),
        (require("memory", "Gt"), set()),
    ],
)
def test_affinity_is_matched_as_nodes_would(requirement, want):
    got = grades(ask((requirement,)))
    assert {name for name, grade in got.items() if grade == "MATCH"} == want
    assert {name for name, grade in got.items() if grade == "MISMATCH"} == set(got) - want


def test_terms_are_alternatives_and_requirements_are_not():
    either = ask((require("gpu", "In", "a100"),), (require("gpu", "In", "h100"),))
    assert grades(either) == {"a100": "MATCH", "h100": "MATCH", "plain": "MISMATCH"}
    both = ask((require("gpu", "In", "a100"), require("memory", "Gt", "50")))
    assert set(grades(both).values()) == {"MISMATCH"}


def test_terms_about_other_labels_say_nothing():
    assert set(grades(ask((require("zone", "In", "eu"),))).values()) == {"SILENT"}


def test_the_manager_s_flavor_is_honoured_by_its_labels():
    reserved = ReservedFlavor(name="big", node_labels={"gpu": "h100", "zone": "eu"})
    pod_set = PodSetView(requests={GPU: 1}, reserved={GPU: reserved})
    assert grades(pod_set) == {"a100": "MISMATCH", "h100": "MATCH", "plain": "MISMATCH"}


def test_where_labels_say_nothing_an_equal_name_is_a_hint():
    pod_set = PodSetView(requests={GPU: 1}, reserved={GPU: ReservedFlavor(name="plain")})
    assert grades(pod_set) == {"a100": "SILENT", "h100": "SILENT", "plain": "MATCH"}


def test_a_flavor_reserved_for_something_not_asked_for_says_nothing():
    pod_set = PodSetView(reserved={GPU: ReservedFlavor(name="plain")})
    assert set(grades(pod_set).values()) == {"SILENT"}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (None, False),
        (Toleration(key="spot", operator="Equal", value="true"), True),
        (Toleration(key="spot", operator="Equal", value="false"), False),
        (Toleration(key="spot", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="spot", operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
    ],
)
def test_taints_must_be_tolerated_by_pods_or_flavor(toleration, fits):
    taint = Taint(key="spot", value="true", effect="NoSchedule")
    tolerations = (toleration,) if toleration else ()
    tainted = FlavorView(name="plain", node_taints=(taint,))
    pods = PodSetView(placement=Placement(tolerations=tolerations))
    assert (grades(pods, make_flavors(plain=tainted))["plain"] != "MISMATCH") is fits
    tolerant = FlavorView(name="plain", node_taints=(taint,), tolerations=tolerations)
    assert (grades(PodSetView(), make_flavors(plain=tolerant))["plain"] != "MISMATCH") is fits


def test_a_taint_that_only_prefers_keeps_nobody_away():
    taint = Taint(key="spot", value="true", effect="PreferNoSchedule")
    tainted = FlavorView(name="plain", node_taints=(taint,))
    assert grades(PodSetView(), make_flavors(plain=tainted))["plain"] == "SILENT"


def test_preferences_add_up_where_the_flavor_says_something():
    queue = make_flavors()
    pod_set = PodSetView(
        preferred=(
            WeightedTerm(weight=10, term=(require("gpu", "In", "h100"),)),
            WeightedTerm(weight=3, term=(require("memory", "Gt", "50"),)),
            WeightedTerm(weight=100, term=(require("zone", "In", "eu"),)),
        )
    )
    got = {name: preference_of(pod_set, flavor) for name, flavor in queue.flavors.items()}
    assert got == {"a100": 0, "h100": 13, "plain": 0}


def test_wishes_are_told_in_words():
    reserved = ReservedFlavor(name="x", node_labels={"gpu": "h100"})
    pod_set = PodSetView(
        placement=Placement(
            node_selector=(("gpu", "h100"),),
            affinity_terms=(
                (
                    require("zone", "In", "eu"),
                    require("rack", "Exists"),
                    require("a", "In", "b", "c"),
                ),
            ),
        ),
        reserved={GPU: reserved},
    )
    assert describe_constraint(pod_set) == "gpu=h100, zone=eu, rack Exists, a In (b,c)"


def test_grades_are_ordered():
    assert Grade.MISMATCH < Grade.SILENT < Grade.MATCH


def test_what_is_declared_to_do_as_well_is_no_mismatch():
    reserved = ReservedFlavor(
        name="x", node_labels={"gpu": "h100"}, equivalents=({"zone": "eu"}, {"gpu": "a100"})
    )
    got = grades(PodSetView(requests={GPU: 1}, reserved={GPU: reserved}))
    assert got == {"a100": "SILENT", "h100": "MATCH", "plain": "MISMATCH"}
