"""Bad input: admission checks, priorities and workers."""

import pytest

from tests.contract.bad_input import LONG, Bad, assert_create_refused, rows
from tests.contract.client import Api
from tests.contract.kueue_objects import NEW, OLD, REMOVED

pytestmark = pytest.mark.asyncio(loop_scope="module")

TABLES = {
    (NEW, "AdmissionCheck"): [
        Bad({"spec.controllerName": REMOVED}, "Required value"),
        Bad(
            {"spec.controllerName": ""},
            'Invalid value: "": @ in body should be at least 1 chars long',
        ),
        Bad({"spec.controllerName": LONG}, "Too long: may not be more than 253 bytes"),
        Bad(
            {"spec.controllerName": 5},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
        ),
        Bad({"spec.parameters.apiGroup": REMOVED}, "Required value"),
        Bad(
            {"spec.parameters.apiGroup": "Bad_Group"},
            'Invalid value: "Bad_Group": @ in body should match',
        ),
        Bad(
            {"spec.parameters.kind": "bad kind"},
            'Invalid value: "bad kind": @ in body should match',
        ),
        Bad({"spec.parameters.kind": "K" * 64}, "Too long: may not be more than 63 bytes"),
        Bad(
            {"spec.parameters.name": "Bad_Name"},
            'Invalid value: "Bad_Name": @ in body should match',
        ),
        Bad({"spec.parameters.name": REMOVED}, "Required value"),
        Bad({"spec.parameters.name": "x" * 64}, "Too long: may not be more than 63 bytes"),
        Bad(
            {"spec.parameters": "a"},
            'Invalid value: "string": @ in body must be of type object: "string"',
        ),
    ],
    (OLD, "AdmissionCheck"): [
        Bad({"spec.controllerName": REMOVED}, "Required value"),
        Bad(
            {"spec.parameters.name": "Bad_Name"},
            'Invalid value: "Bad_Name": @ in body should match',
        ),
        Bad(
            {"spec.retryDelayMinutes": "soon"},
            'Invalid value: "string": @ in body must be of type integer: "string"',
        ),
    ],
    (NEW, "MultiKueueCluster"): [
        Bad({"spec.clusterSource": REMOVED}, "Required value"),
        Bad(
            {"spec.clusterSource": {}},
            "Invalid value: exactly one of kubeConfig and clusterProfileRef is",
        ),
        Bad(
            {"spec.clusterSource.clusterProfileRef": {"name": "a"}},
            "Invalid value: exactly one of kubeConfig and clusterProfileRef is",
            at="spec.clusterSource",
        ),
        Bad({"spec.clusterSource.kubeConfig.location": REMOVED}, "Required value"),
        Bad(
            {"spec.clusterSource.kubeConfig.location": ""},
            'Invalid value: "": @ in body should be at least 1 chars long',
        ),
        Bad(
            {"spec.clusterSource.kubeConfig.location": LONG},
            "Too long: may not be more than 256 bytes",
        ),
        Bad(
            {"spec.clusterSource.kubeConfig.locationType": "Url"},
            'Unsupported value: "Url": supported values: "Secret", "Path"',
        ),
        Bad(
            {"spec.clusterSource.kubeConfig": "secret"},
            'Invalid value: "string": @ in body must be of type object: "string"',
        ),
        Bad(
            {"spec.clusterSource": {"clusterProfileRef": {}}},
            "Required value",
            at="spec.clusterSource.clusterProfileRef.name",
        ),
        Bad(
            {"spec.nonsense": 1}, 'strict decoding error: unknown field "spec.nonsense"', status=400
        ),
    ],
    (OLD, "MultiKueueCluster"): [
        Bad({"spec.kubeConfig.location": REMOVED}, "Required value"),
        Bad({"spec.kubeConfig": REMOVED}, "Required value"),
        Bad(
            {"spec.kubeConfig.locationType": "Url"},
            'Unsupported value: "Url": supported values: "Secret", "Path"',
        ),
        Bad(
            {"spec.clusterProfileRef": {"name": "a"}},
            'Invalid value: ["kubeConfig","clusterProfileRef"]: exactly one of',
            at="spec.clusterSource",
        ),
    ],
    (NEW, "MultiKueueConfig"): [
        Bad({"spec.clusters": REMOVED}, "Required value"),
        Bad({"spec.clusters": []}, "Invalid value: 0: @ in body should have at least 1 items"),
        Bad({"spec.clusters": ["a", "a"]}, "Invalid value: clusters must be unique"),
        Bad(
            {"spec.clusters": [f"c{i}" for i in range(21)]},
            "Too many: 21: must have at most 20 items",
        ),
        Bad(
            {"spec.clusters": ["x" * 257]},
            "Too long: may not be more than 256 bytes",
            at="spec.clusters[0]",
        ),
        Bad(
            {"spec.clusters": [5]},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
            at="spec.clusters[0]",
        ),
        Bad(
            {"spec.clusters": ""},
            'Invalid value: "string": @ in body must be of type array: "string"',
        ),
        Bad(
            {"spec.quotaManagement": "Magic"},
            'Unsupported value: "Magic": supported values: "Manual", "Automated"',
        ),
    ],
    (OLD, "MultiKueueConfig"): [
        Bad({"spec.clusters": []}, "Invalid value: 0: @ in body should have at least 1 items"),
        Bad({"spec.clusters": ["a", "a"]}, 'Duplicate value: "a"', at="spec.clusters[1]"),
    ],
    (NEW, "ProvisioningRequestConfig"): [
        Bad({"spec.provisioningClassName": REMOVED}, "Required value"),
        Bad(
            {"spec.provisioningClassName": "Bad_Name"},
            'Invalid value: "Bad_Name": @ in body should match',
        ),
        Bad({"spec.provisioningClassName": LONG}, "Too long: may not be more than 253 bytes"),
        Bad(
            {"spec.managedResources": [f"r{i}" for i in range(101)]},
            "Too many: 101: must have at most 100 items",
        ),
        Bad(
            {"spec.managedResources": [5]},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
            at="spec.managedResources[0]",
        ),
        Bad(
            {"spec.parameters": {"a": "x" * 256}},
            "Too long: may not be more than 255 bytes",
            at="spec.parameters.a",
        ),
        Bad(
            {"spec.parameters": {f"a{i}": "b" for i in range(101)}},
            "Too many: 101: must have at most 100 items",
        ),
        Bad(
            {"spec.retryStrategy.backoffMaxSeconds": "long"},
            'Invalid value: "string": @ in body must be of type integer: "string"',
        ),
        Bad(
            {"spec.retryStrategy.backoffLimitCount": 1.5},
            'Invalid value: "float64": @ in body must be of type int32: "float64"',
        ),
        Bad(
            {"spec.podSetUpdates": {"nodeSelector": [{"key": "a"}]}},
            "Required value",
            at="spec.podSetUpdates.nodeSelector[0].valueFromProvisioningClassDetail",
        ),
        Bad(
            {
                "spec.podSetUpdates": {
                    "nodeSelector": [
                        {"key": f"k{i}", "valueFromProvisioningClassDetail": "v"} for i in range(9)
                    ]
                }
            },
            "Too many: 9: must have at most 8 items",
            at="spec.podSetUpdates.nodeSelector",
        ),
        Bad(
            {"spec.podSetMergePolicy": "Any"},
            'Unsupported value: "Any": supported values: "IdenticalPodTemplates",',
        ),
        Bad(
            {
                "spec.podSetUpdates": {
                    "nodeSelector": [{"key": "k", "valueFromProvisioningClassDetail": "x" * 32769}]
                }
            },
            "Too long: may not be more than 32768 bytes",
            at="spec.podSetUpdates.nodeSelector[0].valueFromProvisioningClassDetail",
        ),
    ],
    (OLD, "ProvisioningRequestConfig"): [
        Bad({"spec.provisioningClassName": REMOVED}, "Required value"),
        Bad(
            {"spec.managedResources": [f"r{i}" for i in range(101)]},
            "Too many: 101: must have at most 100 items",
        ),
    ],
    (NEW, "WorkloadPriorityClass"): [
        Bad({"value": REMOVED}, "Required @"),
        Bad({"value": "high"}, 'Invalid @: "string": @ in body must be of type integer: "string"'),
        Bad({"value": 1.5}, 'Invalid @: "float64": @ in body must be of type int32: "float64"'),
        Bad(
            {"value": 2**40},
            'Invalid value: "": Checked value must be of type integer with format',
            at="<nil>",
        ),
        Bad({"description": "x" * 2049}, "Too long: may not be more than 2048 bytes"),
        Bad(
            {"description": 5},
            'Invalid value: "integer": @ in body must be of type string: "integer"',
        ),
        Bad({"nonsense": 1}, 'strict decoding error: unknown field "nonsense"', status=400),
    ],
    (OLD, "WorkloadPriorityClass"): [
        Bad({"value": REMOVED}, "Required @"),
        Bad({"description": "x" * 2049}, "Too long: may not be more than 2048 bytes"),
    ],
}


@pytest.mark.parametrize(("version", "kind", "bad"), rows(TABLES))
async def test_a_create_is_refused(
    kueue: tuple[Api, str], version: str, kind: str, bad: Bad
) -> None:
    await assert_create_refused(*kueue, version, kind, bad)
