"""Whether pods may run on the nodes of a flavor (E-47 steps 4 to 6, E-62)."""

import pytest

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Taint, Toleration
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.eligibility import refuse_placement, refuse_topology
from multiqueue.engine.pending_reasons import AffinityMismatch, InvalidPlacement, UntoleratedTaint
from multiqueue.model.placement import NodeSelectorTerm, Placement
from multiqueue.model.resource_flavor import ResourceFlavor
from tests.builders.engine import pod_set


def needs(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def fits_labels(*terms: NodeSelectorTerm, selector: tuple[tuple[str, str], ...] = ()) -> bool:
    flavor = ResourceFlavor(name="f", node_labels={"zone": "a", "size": "8", "name": "x"})
    placement = Placement(node_selector=selector, affinity_terms=terms or None)
    refusal = refuse_placement(flavor, placement)
    assert refusal is None or isinstance(refusal, AffinityMismatch)
    return refusal is None


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param((("zone", "a"),), True, id="the label is the flavor's"),
        pytest.param((("zone", "b"),), False, id="the label contradicts the flavor's"),
        pytest.param((("disk", "ssd"),), True, id="the flavor says nothing about the label"),
    ],
)
def test_node_selectors_compare_only_labels_of_the_flavor(
    selector: tuple[tuple[str, str], ...], want: bool
) -> None:
    assert fits_labels(selector=selector) is want


@pytest.mark.parametrize(
    ("requirement", "want"),
    [
        (needs("zone", "In", "a", "b"), True),
        (needs("zone", "In", "b"), False),
        (needs("zone", "NotIn", "b"), True),
        (needs("zone", "NotIn", "a"), False),
        (needs("zone", "Exists"), True),
        (needs("zone", "DoesNotExist"), False),
        (needs("size", "Gt", "4"), True),
        (needs("size", "Gt", "8"), False),
        (needs("size", "Lt", "9"), True),
        (needs("name", "Lt", "9"), False),
    ],
)
def test_affinity_operators(requirement: LabelSelectorRequirement, want: bool) -> None:
    assert fits_labels((requirement,)) is want


def test_affinity_terms_are_alternatives_and_requirements_are_not() -> None:
    other, same = needs("zone", "In", "b"), needs("zone", "In", "a")

    assert fits_labels((other,), (same,))
    assert not fits_labels((other, same))


def test_a_term_about_other_labels_only_makes_the_affinity_vacuous() -> None:
    assert fits_labels((needs("zone", "In", "b"),), (needs("disk", "In", "ssd"),))


@pytest.mark.parametrize(
    "requirement", [needs("zone", "Like", "a"), needs("zone", "In"), needs("size", "Gt", "much")]
)
def test_affinity_that_cannot_be_understood_is_its_own_refusal(
    requirement: LabelSelectorRequirement,
) -> None:
    flavor = ResourceFlavor(name="f", node_labels={"zone": "a", "size": "8"})
    refusal = refuse_placement(flavor, Placement(affinity_terms=((requirement,),)))

    assert isinstance(refusal, InvalidPlacement)
    assert "flavor f" in str(refusal)


def tolerates(toleration: Toleration | None, *, effect: str = "NoSchedule") -> bool:
    flavor = ResourceFlavor(name="f", node_taints=(Taint(key="k", value="5", effect=effect),))
    placement = Placement(tolerations=(toleration,) if toleration else ())
    refusal = refuse_placement(flavor, placement)
    assert refusal is None or isinstance(refusal, UntoleratedTaint)
    return refusal is None


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(None, False, id="nothing is tolerated"),
        pytest.param(Toleration(key="k", value="5"), True, id="equal key and value"),
        pytest.param(Toleration(key="k", operator="Equal", value="6"), False, id="other value"),
        pytest.param(Toleration(key="x", operator="Exists"), False, id="other key"),
        pytest.param(Toleration(key="k", operator="Exists"), True, id="any value"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(
            Toleration(key="k", operator="Exists", effect="NoExecute"), False, id="effect"
        ),
        pytest.param(Toleration(key="k", operator="Gt", value="4"), True, id="greater than"),
        pytest.param(Toleration(key="k", operator="Lt", value="4"), False, id="not less than"),
        pytest.param(Toleration(key="k", operator="Gt", value="x"), False, id="not a number"),
        pytest.param(Toleration(key="k", operator="Like", value="5"), False, id="unknown operator"),
    ],
)
def test_tolerations(toleration: Toleration | None, want: bool) -> None:
    assert tolerates(toleration) is want


def test_a_preference_keeps_nobody_away() -> None:
    assert tolerates(None, effect="PreferNoSchedule")


def test_a_flavor_may_bring_the_toleration_itself() -> None:
    taint = Taint(key="k", effect="NoExecute")
    own = Toleration(key="k", operator="Exists")
    flavor = ResourceFlavor(name="f", node_taints=(taint,), tolerations=(own,))

    assert refuse_placement(flavor, Placement()) is None


@pytest.mark.parametrize(
    ("topology", "request_", "resource", "fits"),
    [
        pytest.param(None, None, "gpu", True, id="nobody speaks of topology"),
        pytest.param("dc", None, "gpu", False, id="only the flavor has one"),
        pytest.param("dc", PodSetTopologyRequest(required="rack"), "gpu", True, id="both"),
        pytest.param(None, PodSetTopologyRequest(preferred="rack"), "gpu", False, id="only pods"),
        pytest.param(
            None, PodSetTopologyRequest(unconstrained=True), "credits", True, id="quota only"
        ),
        pytest.param("dc", PodSetTopologyRequest(pod_set_group_name="g"), "gpu", False, id="none"),
    ],
)
def test_topology_has_to_be_on_both_sides(
    topology: str | None, request_: PodSetTopologyRequest | None, resource: str, fits: bool
) -> None:
    flavor = ResourceFlavor(name="f", topology_name=topology)
    refusal = refuse_topology(
        flavor, pod_set(gpu=1, topology_request=request_), [f"nvidia.com/{resource}"]
    )

    assert (refusal is None) is fits
    assert refusal is None or "TopologyAwareScheduling" in str(refusal)


@pytest.mark.parametrize(
    ("operator", "value", "want"),
    [("Lt", "8", False), ("Lt", "9", True), ("Gt", "8", False), ("Gt", "7", True)],
)
def test_numbers_of_taints_are_compared_strictly(operator: str, value: str, want: bool) -> None:
    taint = Taint(key="size", value="8", effect="NoSchedule")
    flavor = ResourceFlavor(name="f", node_taints=(taint,))
    toleration = Toleration(key="size", operator=operator, value=value)
    refusal = refuse_placement(flavor, Placement(tolerations=(toleration,)))
    assert refusal == (None if want else UntoleratedTaint(flavor="f", taint=taint))


@pytest.mark.parametrize(
    ("requirement", "detail"),
    [
        (needs("zone", "In"), "operator In of key zone needs values"),
        (needs("zone", "Gt", "x"), "operator Gt of key zone needs one integer"),
        (needs("zone", "Like", "a"), '"Like" is not a valid node selector operator'),
    ],
)
def test_a_refusal_says_what_is_wrong_and_in_which_flavor(
    requirement: LabelSelectorRequirement, detail: str
) -> None:
    flavor = ResourceFlavor(name="f", node_labels={"zone": "1"})
    refusal = refuse_placement(flavor, Placement(affinity_terms=((requirement,),)))
    assert refusal == InvalidPlacement(flavor="f", detail=detail)
    mismatch = refuse_placement(flavor, Placement(node_selector=(("zone", "2"),)))
    assert mismatch == AffinityMismatch(flavor="f")
