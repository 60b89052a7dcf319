"""Bad input: Cohorts, LocalQueues, ResourceFlavors and Topologies."""

import pytest

from tests.contract.bad_input import (
    FLAVOR,
    LONG,
    QUOTA,
    R_GROUP,
    Bad,
    assert_create_refused,
    group,
    rows,
)
from tests.contract.client import Api
from tests.contract.kueue_objects import NEW, OLD, REMOVED

pytestmark = pytest.mark.asyncio(loop_scope="module")

TABLES = {
    (NEW, "Cohort"): [
        Bad({"spec.parentName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad(
            {"spec.parentName": REMOVED},
            'Invalid value: "3": must be nil when parentName is empty',
            at="spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
        ),
        Bad({"spec.parentName": ""}, 'Invalid value: "": @ in body should match'),
        Bad(
            {QUOTA + ".nominalQuota": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {QUOTA + ".borrowingLimit": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {QUOTA + ".lendingLimit": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {"spec.fairSharing.weight": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {"spec.fairSharing.weight": "0.5n"},
            'Invalid value: "0.5n": must be greater than 1n, or 0',
        ),
        Bad(
            {"spec.resourceGroups": [group(0), group(0)]},
            'Duplicate value: "r0"',
            at="spec.resourceGroups[1].coveredResources[0]",
        ),
        Bad(
            {R_GROUP + ".coveredResources": ["memory"]},
            'Invalid value: "cpu": must match the name in coveredResources',
            at="spec.resourceGroups[0].flavors[0].resources[0].name",
        ),
        Bad(
            {R_GROUP + ".coveredResources": []},
            "Invalid value: 0: @ in body should have at least 1 items",
        ),
        Bad({FLAVOR + ".name": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad(
            {"spec.resourceGroups": [group(i) for i in range(17)]},
            "Too many: 17: must have at most 16 items",
        ),
        Bad(
            {"spec.nonsense": 1}, 'strict decoding error: unknown field "spec.nonsense"', status=400
        ),
        Bad(
            {"spec": "text"},
            'Invalid value: "string": spec in body must be of type object: "string"',
        ),
    ],
    (OLD, "Cohort"): [
        Bad({"spec.parentName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad(
            {QUOTA + ".nominalQuota": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {"spec.parentName": REMOVED},
            'Invalid value: "3": must be nil when parentName is empty',
            at="spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
        ),
        Bad(
            {"spec.fairSharing.weight": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
    ],
    (NEW, "LocalQueue"): [
        Bad({"spec.clusterQueue": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad({"spec.clusterQueue": LONG}, "Too long: may not be more than 253 bytes"),
        Bad(
            {"spec.clusterQueue": 5},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
        ),
        Bad(
            {"spec.stopPolicy": "Pause"},
            'Unsupported value: "Pause": supported values: "None", "Hold",',
        ),
        Bad(
            {"spec.fairSharing.weight": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad({"spec.fairSharing.weight": "heavy"}, 'Invalid value: "heavy": @ in body should match'),
        Bad(
            {"spec.nonsense": 1}, 'strict decoding error: unknown field "spec.nonsense"', status=400
        ),
        Bad(
            {"metadata.namespace": "elsewhere"},
            "the namespace of the provided object does not match the namespace sent",
            status=400,
        ),
    ],
    (OLD, "LocalQueue"): [
        Bad({"spec.clusterQueue": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad(
            {"spec.stopPolicy": "Pause"},
            'Unsupported value: "Pause": supported values: "None", "Hold",',
        ),
    ],
    (NEW, "ResourceFlavor"): [
        Bad(
            {"spec.nodeLabels": {"a b": "c"}},
            'Invalid value: "a b": name part must consist of alphanumeric',
        ),
        Bad(
            {"spec.nodeLabels": {"a": "b c"}},
            'Invalid value: "b c": a valid label must be an empty string or consist',
        ),
        Bad(
            {"spec.nodeLabels": {f"a{i}": "b" for i in range(9)}},
            "Too many: 9: must have at most 8 items",
        ),
        Bad(
            {"spec.nodeLabels": {}},
            "Invalid value: at least one nodeLabel is required when topologyName is",
            at="spec",
        ),
        Bad(
            {"spec.nodeLabels": {"a": 5}},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
            at="spec.nodeLabels.a",
        ),
        Bad(
            {"spec.nodeTaints[0].effect": "Never"},
            "Invalid value: supported taint effects: 'NoSchedule',",
            at="spec.nodeTaints",
        ),
        Bad({"spec.nodeTaints[0].effect": REMOVED}, "Required value"),
        Bad(
            {"spec.nodeTaints[0].key": "a b"},
            'Invalid value: "a b": name part must consist of alphanumeric',
        ),
        Bad({"spec.nodeTaints[0].key": REMOVED}, "Required value"),
        Bad(
            {"spec.nodeTaints[0].value": "b c"},
            'Invalid value: "b c": a valid label must be an empty string or consist',
        ),
        Bad(
            {"spec.nodeTaints": [{"key": "a", "effect": "NoSchedule"}] * 2},
            'Duplicate value: {"key":"a","effect":"NoSchedule"}',
            at="spec.nodeTaints[1]",
        ),
        Bad(
            {"spec.nodeTaints": [{"key": f"a{i}", "effect": "NoSchedule"} for i in range(9)]},
            "Too many: 9: must have at most 8 items",
        ),
        Bad(
            {"spec.tolerations[0].operator": "Near"},
            "Invalid value: supported toleration operators: 'Equal' (the default)",
            at="spec.tolerations",
        ),
        Bad(
            {"spec.tolerations[0].operator": "Exists"},
            "Invalid value: a value must be empty when 'operator' is 'Exists'",
            at="spec.tolerations",
        ),
        Bad(
            {"spec.tolerations[0].key": REMOVED},
            "Invalid value: operator must be Exists when 'key' is empty, which means",
            at="spec.tolerations",
        ),
        Bad(
            {"spec.tolerations[0].effect": "Never"},
            "Invalid value: supported taint effects: 'NoSchedule',",
            at="spec.tolerations",
        ),
        Bad(
            {"spec.tolerations[0].tolerationSeconds": 5},
            "Invalid value: effect must be 'NoExecute' when 'tolerationSeconds' is",
            at="spec.tolerations",
        ),
        Bad(
            {"spec.tolerations": [{"key": "a", "operator": "Exists"}] * 9},
            "Too many: 9: must have at most 8 items",
        ),
        Bad({"spec.topologyName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad({"spec.topologyName": ""}, 'Invalid value: "": @ in body should match'),
        Bad({"spec.topologyName": LONG}, "Too long: may not be more than 253 bytes"),
        Bad(
            {"spec.nonsense": 1}, 'strict decoding error: unknown field "spec.nonsense"', status=400
        ),
        Bad(
            {"spec": "text"},
            'Invalid value: "string": spec in body must be of type object: "string"',
        ),
    ],
    (OLD, "ResourceFlavor"): [
        Bad(
            {"spec.nodeLabels": {}},
            "Invalid value: at least one nodeLabel is required when topologyName is",
            at="spec",
        ),
        Bad(
            {"spec.nodeTaints[0].effect": "Never"},
            "Invalid value: supported taint effects: 'NoSchedule',",
            at="spec.nodeTaints",
        ),
        Bad(
            {"spec.tolerations[0].operator": "Near"},
            "Invalid value: supported toleration operators: 'Equal' (the default)",
            at="spec.tolerations",
        ),
        Bad({"spec.topologyName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad(
            {"spec.nodeLabels": {"a": "b c"}},
            'Invalid value: "b c": a valid label must be an empty string or consist',
        ),
    ],
    (NEW, "Topology"): [
        Bad({"spec.levels": REMOVED}, "Required value"),
        Bad({"spec.levels": []}, "Invalid value: 0: @ in body should have at least 1 items"),
        Bad({"spec.levels[0].nodeLabel": REMOVED}, "Required value"),
        Bad(
            {"spec.levels[0].nodeLabel": ""},
            'Invalid value: "": @ in body should be at least 1 chars long',
        ),
        Bad(
            {"spec.levels[0].nodeLabel": "bad label"},
            'Invalid value: "bad label": @ in body should match',
        ),
        Bad({"spec.levels[0].nodeLabel": "x" * 317}, "Too long: may not be more than 316 bytes"),
        Bad(
            {"spec.levels[0].nodeLabel": "kubernetes.io/hostname"},
            "Invalid value: the kubernetes.io/hostname label can only be used at the",
            at="spec.levels",
        ),
        Bad(
            {"spec.levels[1].nodeLabel": "example.com/rack"},
            "Invalid value: must be unique",
            at="spec.levels",
        ),
        Bad(
            {"spec.levels": [{"nodeLabel": f"l{i}"} for i in range(17)]},
            "Too many: 17: must have at most 16 items",
        ),
        Bad(
            {"spec.levels[1]": "host"},
            'Invalid value: "string": @ in body must be of type object: "string"',
        ),
    ],
    (OLD, "Topology"): [
        Bad({"spec.levels": []}, "Invalid value: 0: @ in body should have at least 1 items"),
        Bad(
            {"spec.levels[1].nodeLabel": "example.com/rack"},
            "Invalid value: must be unique",
            at="spec.levels",
        ),
        Bad(
            {"spec.levels[0].nodeLabel": "kubernetes.io/hostname"},
            "Invalid value: the kubernetes.io/hostname label can only be used at the",
            at="spec.levels",
        ),
    ],
}


@pytest.mark.parametrize(("version", "kind", "bad"), rows(TABLES))
async def test_a_create_is_refused(
    kueue: tuple[Api, str], version: str, kind: str, bad: Bad
) -> None:
    await assert_create_refused(*kueue, version, kind, bad)
