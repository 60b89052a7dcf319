"""Bad input: changes of what may not change, and states that contradict themselves."""

import pytest

from tests.contract.bad_input import QUOTA, Bad, assert_update_refused, stored
from tests.contract.client import MERGE, Api
from tests.contract.kueue_objects import REMOVED, changed, path_of, valid

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
QUEUE_FIELD = f"metadata.labels[{QUEUE_NAME}]"
PRIORITY = "kueue.x-k8s.io/priority-class"
IMMUTABLE = "field is immutable"
LEVELS = "Invalid value: levels can only change while kubernetes.io/hostname is the lowest level"
TOPOLOGY_NAME = "Invalid value: topologyName is immutable once it is set"

UPDATES: list[tuple[str, Bad]] = [
    ("LocalQueue", Bad({"spec.clusterQueue": "b"}, f'Invalid value: "b": {IMMUTABLE}')),
    ("ResourceFlavor", Bad({"spec.topologyName": "other"}, TOPOLOGY_NAME, at="spec")),
    ("ResourceFlavor", Bad({"spec.topologyName": REMOVED}, TOPOLOGY_NAME, at="spec")),
    ("AdmissionCheck", Bad({"spec.controllerName": "b"}, f'Invalid value: "b": {IMMUTABLE}')),
    ("Topology", Bad({"spec.levels[1].nodeLabel": "other"}, LEVELS, at="spec.levels")),
    ("Topology", Bad({"spec.levels": [{"nodeLabel": "example.com/rack"}]}, LEVELS)),
    (
        "ClusterQueue",
        Bad({f"{QUOTA}.nominalQuota": "-1"}, 'Invalid value: "-1": must be greater than or equal'),
    ),
    (
        "ClusterQueue",
        Bad({"metadata.resourceVersion": REMOVED}, "Invalid value: 0: must be specified for an"),
    ),
    ("ClusterQueue", Bad({"metadata.uid": "x"}, "Precondition failed: UID", status=409)),
    ("ClusterQueue", Bad({"metadata.name": "b"}, "does not match the name on the URL", status=400)),
    (
        "ClusterQueue",
        Bad({"metadata.resourceVersion": "1"}, "the object has been modified", status=409),
    ),
    (
        "Cohort",
        Bad(
            {"spec.parentName": REMOVED},
            'Invalid value: "3": must be nil when parentName is empty',
            at=f"{QUOTA}.borrowingLimit",
        ),
    ),
    (
        "MultiKueueCluster",
        Bad(
            {"spec.clusterSource.kubeConfig": REMOVED},
            "Invalid value: exactly one of kubeConfig and clusterProfileRef is required",
            at="spec.clusterSource",
        ),
    ),
    ("MultiKueueConfig", Bad({"spec.clusters": []}, "Invalid value: 0: @ in body should have at")),
    (
        "ProvisioningRequestConfig",
        Bad({"spec.provisioningClassName": "Bad_Name"}, 'Invalid value: "Bad_Name": @ in body'),
    ),
    (
        "Workload",
        Bad(
            {"spec.podSets[1].minCount": 9},
            "Invalid value: minCount should be positive and less or equal to count",
            at="spec.podSets[1]",
        ),
    ),
    (
        "Job",
        Bad(
            {"spec.suspend": False, "metadata.labels": {QUEUE_NAME: "b"}},
            f'Invalid value: "b": {IMMUTABLE}',
            at=QUEUE_FIELD,
        ),
    ),
    (
        "Job",
        Bad(
            {"metadata.labels": {QUEUE_NAME: "Bad_Name"}},
            'Invalid value: "Bad_Name": a lower',
            at=QUEUE_FIELD,
        ),
    ),
    ("Job", Bad({"spec.completions": 5}, f"Invalid value: 5: {IMMUTABLE}")),
    ("Job", Bad({"spec.managedBy": "a.b/c"}, f'Invalid value: "a.b/c": {IMMUTABLE}')),
    (
        "Job",
        Bad(
            {"spec.template.spec.containers[0].image": "y"},
            "Invalid value: ",
            at="spec.template.spec",
        ),
    ),
]


@pytest.mark.parametrize(("kind", "bad"), UPDATES, ids=str)
async def test_an_update_is_refused(kueue: tuple[Api, str], kind: str, bad: Bad) -> None:
    await assert_update_refused(*kueue, kind, bad)


async def test_a_flavor_with_a_topology_may_change(kueue: tuple[Api, str]) -> None:
    change = {"spec": {"nodeLabels": {"gpu": "h100"}, "tolerations": None}}
    async with stored(*kueue, "ResourceFlavor", valid("ResourceFlavor")):
        path = path_of("ResourceFlavor", kueue[1])
        answer = await kueue[0].send("PATCH", f"{path}/a", change, content_type=MERGE)
        assert answer.status == 200, answer.text


async def test_levels_change_in_the_newer_version_only(kueue: tuple[Api, str]) -> None:
    with_hosts = {"spec.levels[1].nodeLabel": "kubernetes.io/hostname"}
    change = {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
    async with stored(*kueue, "Topology", changed(valid("Topology"), with_hosts)):
        for version, status in (("v1beta1", 422), ("v1beta2", 200)):
            path = path_of("Topology", kueue[1], version)
            answer = await kueue[0].send("PATCH", f"{path}/a", change, content_type=MERGE)
            assert answer.status == status, answer.text


ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [
        {"name": name, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": usage}, "count": count}
        for name, usage, count in (("driver", "1", 1), ("workers", "3", 3))
    ],
}
T0 = "2026-01-01T00:00:00Z"
RESERVED = {
    "type": "QuotaReserved",
    "status": "True",
    "reason": "QuotaReserved",
    "message": "",
    "lastTransitionTime": T0,
}
CHECK = {"name": "c", "state": "Ready", "message": "", "lastTransitionTime": T0}
UNKNOWN_POD_SET = 'Unsupported value: "other": supported values: '
ASSIGNMENTS = "Invalid value: podSetAssignments must have the same number of podSets as the spec"


def admission(path: str, value: object) -> dict[str, object]:
    """A reservation that is wrong in one place."""
    wrong = changed(ADMISSION, {path: value})
    return {"status.admission": wrong, "status.conditions": [RESERVED]}


STATES: list[Bad] = [
    Bad(
        {"status.conditions": [RESERVED]},
        "Required value: must be set while QuotaReserved is True",
        at="status.admission",
    ),
    Bad(
        admission("podSetAssignments", ADMISSION["podSetAssignments"][:1]),
        ASSIGNMENTS,
        at="<nil>",
    ),
    Bad(
        admission("podSetAssignments[0].name", "other"),
        'Not found: "other"',
        at="status.admission.podSetAssignments[0].name",
    ),
    Bad(
        admission("podSetAssignments[1].resourceUsage", {"cpu": "1"}),
        'Invalid value: "1": is not a multiple of 3',
        at="status.admission.podSetAssignments[1].resourceUsage[cpu]",
    ),
    Bad(
        {"status.conditions": [{**RESERVED, "type": f"t{number}"} for number in range(17)]},
        "Too many: 17: must have at most 16 items",
    ),
    Bad({"status.conditions": [{"type": "a"}]}, "Required value", at="status.conditions[0].reason"),
    Bad(
        {"status.conditions": [{**RESERVED, "status": "Maybe"}]},
        'Unsupported value: "Maybe": supported values: "True", "False", "Unknown"',
        at="status.conditions[0].status",
    ),
    Bad(
        {"status.reclaimablePods": [{"name": "other", "count": 1}]},
        UNKNOWN_POD_SET,
        at="status.reclaimablePods[other].name",
    ),
    Bad(
        {"status.reclaimablePods": [{"name": "workers", "count": 4}]},
        "Invalid value: 4: should be less or equal to 3",
        at="status.reclaimablePods[workers].count",
    ),
    Bad(
        {"status.reclaimablePods": [{"name": "workers", "count": -1}]},
        "Invalid value: -1: ",
        at="status.reclaimablePods[0].count",
    ),
    Bad(
        {"status.clusterName": "a", "status.nominatedClusterNames": ["a"]},
        "Invalid value: clusterName and nominatedClusterNames are mutually exclusive",
        at="status",
    ),
    Bad(
        {"status.clusterName": "a"}, 'Invalid value: "a": must be one of the nominatedClusterNames'
    ),
    Bad(
        {"status.nominatedClusterNames": [f"c{number}" for number in range(21)]},
        "Too many: 21: must have at most 20 items",
    ),
    Bad(
        {"status.admissionChecks": [{**CHECK, "state": "Perhaps"}]},
        'Unsupported value: "Perhaps": supported values: "Pending", "Ready", "Retry", "Rejected"',
        at="status.admissionChecks[0].state",
    ),
    Bad(
        {"status.admissionChecks": [{**CHECK, "podSetUpdates": [{"name": "other"}]}]},
        UNKNOWN_POD_SET,
        at="status.admissionChecks[0].podSetUpdates[0].name",
    ),
    Bad(
        {"status.admissionChecks": [{**CHECK, "name": f"c{number}"} for number in range(9)]},
        "Too many: 9: must have at most 8 items",
    ),
    Bad(
        {"status.requeueState": {"count": -1}},
        "Invalid value: -1: ",
        at="status.requeueState.count",
    ),
    Bad(
        {"status.unhealthyNodes": [{"name": f"n{number}"} for number in range(9)]},
        "Too many: 9: must have at most 8 items",
    ),
]


@pytest.mark.parametrize("bad", STATES, ids=str)
async def test_a_state_of_a_workload_is_refused(kueue: tuple[Api, str], bad: Bad) -> None:
    await assert_update_refused(*kueue, "Workload", bad, subresource="/status")


RESERVING = {"status.admission": ADMISSION, "status.conditions": [RESERVED]}
AFTER_RESERVATION: list[Bad] = [
    Bad(
        {"status.admission.clusterQueue": "other"},
        f'Invalid value: "other": {IMMUTABLE}',
        at="status.admission",
    ),
    Bad(
        {"status.admission.podSetAssignments[0].flavors": {"cpu": "base"}},
        f'Invalid value: "cq": {IMMUTABLE}',
        at="status.admission",
    ),
    Bad(
        {"spec.queueName": "b"},
        "Invalid value: queueName is immutable while workload quota reserved",
        at="<nil>",
    ),
    Bad({"spec.podSets[0].count": 2}, "Invalid value: ", at="spec.podSets"),
    Bad(
        {"spec.priorityClassRef": REMOVED},
        "Invalid value: priorityClassRef is immutable while workload quota reserved",
        at="<nil>",
    ),
]


@pytest.mark.parametrize("bad", AFTER_RESERVATION, ids=str)
async def test_what_stays_while_quota_is_reserved(kueue: tuple[Api, str], bad: Bad) -> None:
    subresource = "/status" if bad.field.startswith("status") else ""
    await assert_update_refused(*kueue, "Workload", bad, status=RESERVING, subresource=subresource)


async def test_reclaimed_pods_stay_reclaimed(kueue: tuple[Api, str]) -> None:
    before = {**RESERVING, "status.reclaimablePods": [{"name": "workers", "count": 2}]}
    bad = Bad(
        {"status.reclaimablePods[0].count": 1},
        "Invalid value: 1: cannot be less than 2",
        at="status.reclaimablePods[workers].count",
    )
    await assert_update_refused(*kueue, "Workload", bad, status=before, subresource="/status")


async def test_a_workload_goes_to_a_nominated_cluster(kueue: tuple[Api, str]) -> None:
    before = {"status.nominatedClusterNames": ["a", "b"]}
    bad = Bad(
        {"status.clusterName": "c", "status.nominatedClusterNames": REMOVED},
        'Invalid value: "c": must be one of the nominatedClusterNames',
    )
    await assert_update_refused(*kueue, "Workload", bad, status=before, subresource="/status")
