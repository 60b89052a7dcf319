from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Toleration
from multiqueue.model.placement import ANYWHERE, Placement, build_placement


def test_a_template_without_wishes_may_run_anywhere() -> None:
    assert build_placement({}) is ANYWHERE
    assert build_placement({"spec": {"affinity": {"nodeAffinity": None}}}) is ANYWHERE


def test_selector_affinity_and_tolerations_are_read() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"nodeSelectorTerms": [term, {"matchFields": []}]}
    got = build_placement(
        {
            "spec": {
                "nodeSelector": {"gpu": "h100", "disk": "ssd"},
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
                },
                "tolerations": [{"key": "spot", "operator": "Exists", "tolerationSeconds": 5}],
            }
        }
    )

    assert got == Placement(
        node_selector=(("disk", "ssd"), ("gpu", "h100")),
        affinity_terms=(
            (LabelSelectorRequirement(key="zone", operator="In", values=("a",)),),
            (),
        ),
        tolerations=(Toleration(key="spot", operator="Exists", toleration_seconds=5),),
    )


def test_equal_wishes_share_one_object() -> None:
    template = {"spec": {"nodeSelector": {"gpu": "h100"}}}

    assert build_placement(template) is build_placement(template)


def test_wishes_for_nodes_are_read_with_their_weights() -> None:
    wanted = {
        "weight": 5,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wanted]}}
    placement = build_placement({"spec": {"affinity": affinity}})
    (weight, term) = placement.preferred_terms[0]
    assert (weight, term[0].key, term[0].values) == (5, "disk", ("ssd",))
    assert placement.affinity_terms is None
