"""Bad input: Workloads, and Jobs that ask for a queue."""

import pytest

from tests.contract.bad_input import LONG, Bad, assert_create_refused, rows
from tests.contract.client import Api
from tests.contract.kueue_objects import NEW, OLD, REMOVED

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRIVER, WORKERS = "spec.podSets[0]", "spec.podSets[1]"
MAIN = f"{DRIVER}.template.spec.containers[0]"
TABLES = {
    (NEW, "Workload"): [
        Bad({"spec.podSets": []}, "Invalid value: 0: @ in body should have at least 1 items"),
        Bad(
            {"spec.podSets": "main"},
            'Invalid value: "string": @ in body must be of type array: "string"',
        ),
        Bad(
            {DRIVER + ".name": "workers"},
            'Duplicate value: {"name":"workers"}',
            at="spec.podSets[1]",
        ),
        Bad({DRIVER + ".name": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad({DRIVER + ".name": "x" * 64}, "Too long: may not be more than 63 bytes"),
        Bad(
            {DRIVER + ".count": -1},
            "Invalid value: -1: @ in body should be greater than or equal to 0",
        ),
        Bad(
            {DRIVER + ".count": 1.5},
            'Invalid value: "float64": @ in body must be of type int32: "float64"',
        ),
        Bad(
            {DRIVER + ".count": "one"},
            'Invalid value: "string": @ in body must be of type integer: "string"',
        ),
        Bad({DRIVER + ".template": REMOVED}, "Required value"),
        Bad(
            {WORKERS + ".minCount": 0},
            "Invalid value: 0: @ in body should be greater than or equal to 1",
        ),
        Bad(
            {WORKERS + ".minCount": 4},
            "Invalid value: minCount should be positive and less or equal to count",
            at="spec.podSets[1]",
        ),
        Bad(
            {DRIVER + ".minCount": 1},
            "Invalid value: 2: at most one podSet can use minCount",
            at="spec.podSets",
        ),
        Bad(
            {MAIN + ".resources.requests": {"cpu": "-1"}},
            'Invalid value: "-1": must be greater than or equal to 0',
            at="spec.podSets[0].template.spec.containers[0].resources.requests[cpu]",
        ),
        Bad(
            {MAIN + ".resources.requests": {"pods": "1"}},
            'Invalid value: "pods": the key is reserved for internal Kueue use',
            at="spec.podSets[0].template.spec.containers[0].resources.requests[pods]",
        ),
        Bad(
            {MAIN + ".resources.requests": {"cpu": "some"}},
            'Invalid value: "some": @ in body should match',
            at="spec.podSets[0].template.spec.containers[0].resources.requests.cpu",
        ),
        Bad(
            {
                "spec.podSets": [
                    {"name": f"p{i}", "count": 1, "template": {"spec": {"containers": []}}}
                    for i in range(19)
                ]
            },
            "Too many: 19: must have at most 18 items",
        ),
        Bad(
            {MAIN.removesuffix("[0]"): [{"name": "c"}, {"name": "c"}]},
            'Duplicate value: {"name":"c"}',
            at="spec.podSets[0].template.spec.containers[1]",
        ),
        Bad({"spec.queueName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad({"spec.queueName": LONG}, "Too long: may not be more than 253 bytes"),
        Bad(
            {"spec.priority": REMOVED},
            "Invalid value: priority should not be nil when priorityClassRef is set",
            at="spec",
        ),
        Bad(
            {"spec.priority": "high"},
            'Invalid value: "string": @ in body must be of type integer: "string"',
        ),
        Bad(
            {"spec.priority": 2**31},
            'Invalid value: "": Checked value must be of type integer with format',
            at="<nil>",
        ),
        Bad(
            {"spec.priorityClassRef.group": "example.com"},
            'Unsupported value: "example.com": supported values: "kueue.x-k8s.io",',
        ),
        Bad(
            {"spec.priorityClassRef.kind": "PriorityClass"},
            "Invalid value: kind must be WorkloadPriorityClass in group",
            at="spec.priorityClassRef",
        ),
        Bad({"spec.priorityClassRef.name": REMOVED}, "Required value"),
        Bad(
            {"spec.priorityClassRef.name": "Bad_Name"},
            'Invalid value: "Bad_Name": @ in body should match',
        ),
        Bad(
            {"spec.maximumExecutionTimeSeconds": 0},
            "Invalid value: 0: @ in body should be greater than or equal to 1",
        ),
        Bad(
            {"spec.active": "yes"},
            'Invalid value: "string": @ in body must be of type boolean: "string"',
        ),
        Bad(
            {DRIVER + ".topologyRequest": {"required": "x" * 64}},
            "Too long: may not be more than 63 bytes",
            at="spec.podSets[0].topologyRequest.required",
        ),
        Bad(
            {DRIVER + ".topologyRequest": {"podSetSliceRequiredTopology": "a"}},
            "Required value: must be set with podSetSliceRequiredTopology",
            at="spec.podSets[0].topologyRequest.podSetSliceSize",
        ),
        Bad(
            {DRIVER + ".topologyRequest": {"podSetSliceSize": 2}},
            "Required value: must be set with podSetSliceSize",
            at="spec.podSets[0].topologyRequest.podSetSliceRequiredTopology",
        ),
        Bad(
            {
                DRIVER + ".topologyRequest": {
                    "podSetSliceRequiredTopology": "a",
                    "podSetSliceSize": 0,
                }
            },
            "Invalid value: 0: @ in body should be greater than or equal to 1",
            at="spec.podSets[0].topologyRequest.podSetSliceSize",
        ),
        Bad(
            {DRIVER + ".topologyRequest": {"subGroupCount": -1}},
            "Invalid value: -1: @ in body should be greater than or equal to 0",
            at="spec.podSets[0].topologyRequest.subGroupCount",
        ),
        Bad(
            {DRIVER + ".topologyRequest": {"podSetGroupName": "x" * 257}},
            "Too long: may not be more than 256 bytes",
            at="spec.podSets[0].topologyRequest.podSetGroupName",
        ),
        Bad(
            {"spec.preemptionGates": [{"name": ""}]},
            'Invalid value: "": @ in body should be at least 1 chars long',
            at="spec.preemptionGates[0].name",
        ),
        Bad(
            {"spec.preemptionGates": [{"name": f"g{i}"} for i in range(9)]},
            "Too many: 9: must have at most 8 items",
        ),
        Bad(
            {"spec.nonsense": 1}, 'strict decoding error: unknown field "spec.nonsense"', status=400
        ),
        Bad(
            {DRIVER + ".template.metadata": {"labels": {"a b": "c"}}},
            'Invalid value: "a b": name part must consist of alphanumeric',
            at="spec.podSets[0].template.metadata.labels",
        ),
        Bad(
            {DRIVER + ".template.metadata": {"annotations": {"a b": "c"}}},
            'Invalid value: "a b": name part must consist of alphanumeric',
            at="spec.podSets[0].template.metadata.annotations",
        ),
    ],
    (OLD, "Workload"): [
        Bad(
            {WORKERS + ".minCount": 4},
            "Invalid value: minCount should be positive and less or equal to count",
            at="spec.podSets[1]",
        ),
        Bad(
            {"spec.priority": REMOVED},
            "Invalid value: priority should not be nil when priorityClassName is set",
            at="spec",
        ),
        Bad(
            {"spec.priorityClassSource": "example.com"},
            'Unsupported value: "example.com": supported values:',
        ),
        Bad(
            {"spec.priorityClassName": "Bad_Name"},
            'Invalid value: "Bad_Name": @ in body should match',
        ),
        Bad(
            {DRIVER + ".count": -1},
            "Invalid value: -1: @ in body should be greater than or equal to 0",
        ),
        Bad({"spec.queueName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body should match'),
        Bad({"spec.podSets": []}, "Invalid value: 0: @ in body should have at least 1 items"),
        Bad(
            {MAIN + ".resources.requests": {"pods": "1"}},
            'Invalid value: "pods": the key is reserved for internal Kueue use',
            at="spec.podSets[0].template.spec.containers[0].resources.requests[pods]",
        ),
        Bad(
            {"spec.maximumExecutionTimeSeconds": 0},
            "Invalid value: 0: @ in body should be greater than or equal to 1",
        ),
    ],
    (NEW, "Job"): [
        Bad(
            {"metadata.labels": {"kueue.x-k8s.io/queue-name": "Bad_Name"}},
            'Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist',
            at="metadata.labels[kueue.x-k8s.io/queue-name]",
        ),
        Bad(
            {
                "metadata.labels": {
                    "kueue.x-k8s.io/queue-name": "q",
                    "kueue.x-k8s.io/max-exec-time-seconds": "soon",
                }
            },
            'Invalid value: "soon": should be a whole number greater than 0',
            at="metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]",
        ),
        Bad(
            {
                "metadata.labels": {
                    "kueue.x-k8s.io/queue-name": "q",
                    "kueue.x-k8s.io/max-exec-time-seconds": "0",
                }
            },
            'Invalid value: "0": should be a whole number greater than 0',
            at="metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]",
        ),
        Bad(
            {"metadata.annotations": {"kueue.x-k8s.io/job-min-parallelism": "x"}},
            'Invalid value: "x": must be a whole number',
            at="metadata.annotations[kueue.x-k8s.io/job-min-parallelism]",
        ),
        Bad(
            {"metadata.annotations": {"kueue.x-k8s.io/job-min-parallelism": "0"}},
            "Invalid value: 0: should be between 0 and 2",
            at="metadata.annotations[kueue.x-k8s.io/job-min-parallelism]",
        ),
        Bad(
            {"metadata.annotations": {"kueue.x-k8s.io/job-min-parallelism": "4"}},
            "Invalid value: 4: should be between 0 and 2",
            at="metadata.annotations[kueue.x-k8s.io/job-min-parallelism]",
        ),
        Bad(
            {"metadata.annotations": {"kueue.x-k8s.io/job-completions-equal-parallelism": "x"}},
            'Invalid value: "x": must be true or false',
            at="metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]",
        ),
        Bad(
            {
                "metadata.annotations": {
                    "kueue.x-k8s.io/job-completions-equal-parallelism": "true"
                },
                "spec.completions": 2,
            },
            'Invalid value: "true": should not be enabled for NonIndexed jobs',
            at="metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]",
        ),
        Bad(
            {
                "spec.template.metadata": {
                    "annotations": {"kueue.x-k8s.io/podset-required-topology": "bad label"}
                }
            },
            'Invalid value: "bad label": name part must consist of alphanumeric',
            at="spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]",
        ),
        Bad(
            {
                "spec.template.metadata": {
                    "annotations": {
                        "kueue.x-k8s.io/podset-required-topology": "a",
                        "kueue.x-k8s.io/podset-preferred-topology": "b",
                    }
                }
            },
            "Invalid value:",
            at="spec.template.metadata.annotations",
        ),
        Bad(
            {"spec.template.metadata": {"annotations": {"kueue.x-k8s.io/podset-slice-size": "2"}}},
            "Forbidden: may not be set when",
            at="spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-size]",
        ),
        Bad(
            {
                "spec.template.metadata": {
                    "annotations": {"kueue.x-k8s.io/podset-unconstrained-topology": "maybe"}
                }
            },
            'Invalid value: "maybe": must be a boolean value',
            at="spec.template.metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]",
        ),
        Bad(
            {"spec.managedBy": "nobody"},
            'Invalid value: "nobody": must be a domain-prefixed path (such as',
        ),
        Bad({"spec.parallelism": -1}, "Invalid value: -1: must be greater than or equal to 0"),
        Bad(
            {"spec.parallelism": "x"},
            "json: cannot unmarshal string into Go struct field",
            status=400,
        ),
        Bad(
            {"spec.template.spec.restartPolicy": "Always"},
            'Required value: valid values: "OnFailure", "Never"',
        ),
        Bad({"spec.template.spec.containers": []}, "Required value"),
        Bad({"spec.completions": -1}, "Invalid value: -1: must be greater than or equal to 0"),
        Bad({"spec.backoffLimit": -1}, "Invalid value: -1: must be greater than or equal to 0"),
        Bad({"spec.template": REMOVED}, "Required value", at="spec.template.spec.containers"),
        Bad(
            {"spec.template.spec.containers[0].resources.requests": {"cpu": "-1"}},
            'Invalid value: "-1": must be greater than or equal to 0',
            at="spec.template.spec.containers[0].resources.requests[cpu]",
        ),
        Bad(
            {"spec.template.spec.nonsense": 1},
            'strict decoding error: unknown field "spec.template.spec.nonsense"',
            status=400,
        ),
        Bad(
            {"spec.completionMode": "Random"},
            'Unsupported value: "Random": supported values: "NonIndexed", "Indexed"',
        ),
        Bad(
            {"spec.activeDeadlineSeconds": -1},
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        Bad(
            {"spec.podReplacementPolicy": "Never"},
            'Unsupported value: "Never": supported values: "Failed",',
        ),
    ],
}


@pytest.mark.parametrize(("version", "kind", "bad"), rows(TABLES))
async def test_a_create_is_refused(
    kueue: tuple[Api, str], version: str, kind: str, bad: Bad
) -> None:
    await assert_create_refused(*kueue, version, kind, bad)
