"""Bad input: ClusterQueues."""

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
    (NEW, "ClusterQueue"): [
        Bad({R_GROUP + ".coveredResources": REMOVED}, "Required value"),
        Bad(
            {R_GROUP + ".coveredResources": []},
            "Invalid value: 0: @ in body should have at least 1 items",
        ),
        Bad(
            {R_GROUP + ".coveredResources": "cpu"},
            'Invalid value: "string": @ in body must be of type array: "string"',
        ),
        Bad(
            {R_GROUP + ".coveredResources[0]": "bad name"},
            'Invalid value: "bad name": name part must consist of alphanumeric',
        ),
        Bad(
            {R_GROUP + ".coveredResources": ["cpu", "memory"]},
            "Invalid value: flavors must have the same number of resources as the",
            at="spec.resourceGroups[0]",
        ),
        Bad(
            {R_GROUP + ".coveredResources": [f"r{i}" for i in range(65)]},
            "Too many: 65: must have at most 64 items",
        ),
        Bad({R_GROUP + ".flavors": REMOVED}, "Required value"),
        Bad({R_GROUP + ".flavors": []}, "Invalid value: 0: @ in body should have at least 1 items"),
        Bad({FLAVOR + ".name": REMOVED}, "Required value"),
        Bad({FLAVOR + ".name": ""}, 'Invalid value: "": @ in body should match'),
        Bad({FLAVOR + ".name": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad({FLAVOR + ".name": LONG}, "Too long: may not be more than 253 bytes"),
        Bad(
            {FLAVOR + ".name": "base"},
            'Duplicate value: {"name":"base"}',
            at="spec.resourceGroups[0].flavors[1]",
        ),
        Bad({FLAVOR + ".resources": REMOVED}, "Required value"),
        Bad(
            {FLAVOR + ".resources": []}, "Invalid value: 0: @ in body should have at least 1 items"
        ),
        Bad(
            {QUOTA + ".name": "memory"},
            'Invalid value: "memory": must match the name in coveredResources',
        ),
        Bad(
            {QUOTA + ".nominalQuota": REMOVED},
            'Invalid value: "2": must be less than or equal to the nominalQuota, 0',
            at="spec.resourceGroups[0].flavors[0].resources[0].lendingLimit",
        ),
        Bad(
            {QUOTA + ".nominalQuota": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad({QUOTA + ".nominalQuota": "much"}, 'Invalid value: "much": @ in body should match'),
        Bad(
            {QUOTA + ".borrowingLimit": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {QUOTA + ".lendingLimit": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {QUOTA + ".lendingLimit": "6"},
            'Invalid value: "6": must be less than or equal to the nominalQuota, 5',
        ),
        Bad(
            {"spec.cohortName": REMOVED},
            'Invalid value: "2": must be nil when cohortName is empty',
            at="spec.resourceGroups[0].flavors[0].resources[0].lendingLimit",
        ),
        Bad({"spec.cohortName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad({"spec.cohortName": LONG}, "Too long: may not be more than 253 bytes"),
        Bad(
            {"spec.cohortName": 5},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
        ),
        Bad(
            {"spec.resourceGroups": [group(i) for i in range(17)]},
            "Too many: 17: must have at most 16 items",
        ),
        Bad(
            {"spec.resourceGroups": [group(0), group(0)]},
            'Duplicate value: "r0"',
            at="spec.resourceGroups[1].coveredResources[0]",
        ),
        Bad(
            {"spec.resourceGroups": [group(i, 40) for i in range(7)]},
            "Too many: 280: must have at most 256 items",
        ),
        Bad(
            {"spec.resourceGroups": "cpu"},
            'Invalid value: "string": @ in body must be of type array: "string"',
        ),
        Bad(
            {"spec.queueingStrategy": "Random"},
            'Unsupported value: "Random": supported values: "StrictFIFO",',
        ),
        Bad(
            {"spec.queueingStrategy": ""},
            'Unsupported value: "": supported values: "StrictFIFO", "BestEffortFIFO"',
        ),
        Bad(
            {"spec.queueingStrategy": 3},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
        ),
        Bad(
            {"spec.stopPolicy": "Pause"},
            'Unsupported value: "Pause": supported values: "None", "Hold",',
        ),
        Bad(
            {
                "spec.namespaceSelector": {
                    "matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]
                }
            },
            'Invalid value: "Near": not a valid selector operator',
            at="spec.namespaceSelector.matchExpressions[0].operator",
        ),
        Bad(
            {"spec.namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            at="spec.namespaceSelector.matchExpressions[0].values",
        ),
        Bad(
            {"spec.namespaceSelector": {"matchLabels": {"a b": "c"}}},
            'Invalid value: "a b": name part must consist of alphanumeric',
            at="spec.namespaceSelector.matchLabels",
        ),
        Bad(
            {"spec.namespaceSelector": "a=b"},
            'Invalid value: "string": @ in body must be of type object: "string"',
        ),
        Bad(
            {"spec.flavorFungibility.whenCanBorrow": "Never"},
            'Unsupported value: "Never": supported values: "MayStopSearch",',
        ),
        Bad(
            {"spec.flavorFungibility.preference": "Cheapest"},
            'Unsupported value: "Cheapest": supported values:',
        ),
        Bad(
            {"spec.flavorFungibility.preference": "BorrowingOverPreemption"},
            "Invalid value: preference may only be set when whenCanBorrow and",
            at="spec.flavorFungibility",
        ),
        Bad(
            {"spec.preemption.reclaimWithinCohort": "Sometimes"},
            'Unsupported value: "Sometimes": supported values: "Never",',
        ),
        Bad(
            {"spec.preemption.withinClusterQueue": "Any"},
            'Unsupported value: "Any": supported values: "Never", "LowerPriority",',
        ),
        Bad(
            {"spec.preemption.borrowWithinCohort.policy": "Any"},
            'Unsupported value: "Any": supported values: "Never", "LowerPriority"',
        ),
        Bad(
            {"spec.preemption.reclaimWithinCohort": "Never"},
            "Invalid value: reclaimWithinCohort=Never and",
            at="spec.preemption",
        ),
        Bad(
            {"spec.preemption.borrowWithinCohort.maxPriorityThreshold": "high"},
            'Invalid value: "string": @ in body must be of type integer: "string"',
        ),
        Bad(
            {"spec.fairSharing.weight": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {"spec.fairSharing.weight": "1n"}, 'Invalid value: "1n": must be greater than 1n, or 0'
        ),
        Bad({"spec.fairSharing.weight": "heavy"}, 'Invalid value: "heavy": @ in body should match'),
        Bad(
            {"spec.admissionChecksStrategy.admissionChecks": []},
            "Invalid value: 0: @ in body should have at least 1 items",
        ),
        Bad({"spec.admissionChecksStrategy.admissionChecks[0].name": REMOVED}, "Required value"),
        Bad(
            {"spec.admissionChecksStrategy.admissionChecks[0].onFlavors": ["none"]},
            'Unsupported value: "none": supported values: "base", "spot"',
            at="spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]",
        ),
        Bad(
            {
                "spec.admissionChecksStrategy.admissionChecks": [
                    {"name": f"c{i}"} for i in range(65)
                ]
            },
            "Too many: 65: must have at most 64 items",
        ),
        Bad(
            {"spec.admissionChecksStrategy.admissionChecks": [{"name": "c"}, {"name": "c"}]},
            'Duplicate value: {"name":"c"}',
            at="spec.admissionChecksStrategy.admissionChecks[1]",
        ),
        Bad(
            {"spec.admissionScope.admissionMode": "Other"},
            'Unsupported value: "Other": supported values:',
        ),
        Bad(
            {"spec.nonsense": 1}, 'strict decoding error: unknown field "spec.nonsense"', status=400
        ),
        Bad(
            {"spec": "text"},
            'Invalid value: "string": spec in body must be of type object: "string"',
        ),
        Bad(
            {"metadata.name": "Bad_Name"},
            'Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist',
        ),
        Bad({"metadata.name": REMOVED}, "Required value: name or generateName is required"),
        Bad(
            {"metadata.labels": {"a b": "c"}},
            'Invalid value: "a b": name part must consist of alphanumeric',
        ),
        Bad(
            {"spec.concurrentAdmissionPolicy": {"migration": {"mode": "Other"}}},
            'Unsupported value: "Other": supported values: "TryPreferredFlavors",',
            at="spec.concurrentAdmissionPolicy.migration.mode",
        ),
    ],
    (OLD, "ClusterQueue"): [
        Bad({"spec.cohort": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad(
            {"spec.cohort": REMOVED},
            'Invalid value: "2": must be nil when cohortName is empty',
            at="spec.resourceGroups[0].flavors[0].resources[0].lendingLimit",
        ),
        Bad(
            {QUOTA + ".nominalQuota": "-1"},
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        Bad(
            {"spec.queueingStrategy": "Random"},
            'Unsupported value: "Random": supported values: "StrictFIFO",',
        ),
        Bad(
            {"spec.admissionChecksStrategy.admissionChecks[0].onFlavors": ["none"]},
            'Unsupported value: "none": supported values: "base", "spot"',
            at="spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]",
        ),
        Bad(
            {"spec.flavorFungibility.whenCanBorrow": "Never"},
            'Unsupported value: "Never": supported values: "MayStopSearch",',
        ),
        Bad(
            {"spec.preemption.reclaimWithinCohort": "Never"},
            "Invalid value: reclaimWithinCohort=Never and",
            at="spec.preemption",
        ),
        Bad(
            {"spec.resourceGroups": [group(0), group(0)]},
            'Duplicate value: "r0"',
            at="spec.resourceGroups[1].coveredResources[0]",
        ),
        Bad(
            {"spec.cohortName": "all"},
            'strict decoding error: unknown field "spec.cohortName"',
            status=400,
        ),
        Bad({FLAVOR + ".name": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad(
            {R_GROUP + ".coveredResources": ["cpu", "memory"]},
            "Invalid value: flavors must have the same number of resources as the",
            at="spec.resourceGroups[0]",
        ),
        Bad(
            {"spec.stopPolicy": "Pause"},
            'Unsupported value: "Pause": supported values: "None", "Hold",',
        ),
    ],
}


@pytest.mark.parametrize(("version", "kind", "bad"), rows(TABLES))
async def test_a_create_is_refused(
    kueue: tuple[Api, str], version: str, kind: str, bad: Bad
) -> None:
    await assert_create_refused(*kueue, version, kind, bad)
