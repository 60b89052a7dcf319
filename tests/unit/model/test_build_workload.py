from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState
from multiqueue.api.config import Configuration
from multiqueue.api.serde import decode
from multiqueue.jobs.build_options import build_options
from multiqueue.model.build_workload import BuildOptions, admission_to_wire, build_workload
from multiqueue.model.placement import ANYWHERE
from multiqueue.model.queue_order import RequeuingTimestamp
from multiqueue.model.topology import TopologyAssignment, TopologyDomain
from multiqueue.model.transformations import RequestRules
from multiqueue.model.workload import Workload

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
LATER_AT = datetime(2026, 1, 1, 1, tzinfo=UTC)


def true(type_: str, reason: str = "", *, status: str = "True") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": LATER}


def workload(spec: Any = None, *, meta: Any = None, **status: Any) -> api.Workload:
    pod_sets = [{"name": "main", "count": 3, "template": template("1")}]
    return decode(
        api.Workload,
        {
            "metadata": {
                "name": "w",
                "namespace": "ns",
                "uid": "u",
                "generation": 2,
                "creationTimestamp": CREATED,
                **(meta or {}),
            },
            "spec": {"queueName": "q", "podSets": pod_sets, **(spec or {})},
            "status": status,
        },
    )


def test_the_job_of_a_workload_is_told_by_its_label() -> None:
    labels = {"kueue.x-k8s.io/job-uid": "j"}

    assert build_workload(workload(meta={"labels": labels})).job_uid == "j"
    assert build_workload(workload()).job_uid == ""


def template(cpu: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


def built(*args: Any, **kwargs: Any) -> Workload:
    return build_workload(workload(*args, **kwargs))


def test_a_pending_workload_has_its_requests_queue_and_time() -> None:
    got = built({"priority": 7})

    assert (got.key, got.namespace, got.uid, got.generation) == ("ns/w", "ns", "u", 2)
    assert (got.queue, got.priority, got.active, got.finished) == ("ns/q", 7, True, False)
    assert got.pod_sets[0].requests == {"cpu": 1000}
    assert got.pod_sets[0].total("cpu") == 3000
    assert got.queue_order_at == got.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert got.reservation is None


@pytest.mark.parametrize(
    ("annotation", "want"), [("5", 12), ("-10", -3), ("much", 7)], ids=["boost", "less", "unread"]
)
def test_priority_may_be_boosted_where_the_gate_is_on(annotation: str, want: int) -> None:
    """E-11."""
    meta = {"annotations": {"kueue.x-k8s.io/priority-boost": annotation}}
    boosted = workload({"priority": 7}, meta=meta)
    options = build_options(Configuration(feature_gates={"PriorityBoost": True}))

    assert build_workload(boosted, options).priority == want
    assert build_workload(boosted, build_options(Configuration())).priority == 7


def test_reclaimable_pods_need_no_quota() -> None:
    assert built(reclaimablePods=[{"name": "main", "count": 2}]).pod_sets[0].count == 1
    assert built(reclaimablePods=[{"name": "main", "count": 9}]).pod_sets[0].count == 0


def test_an_admission_gate_is_nothing_without_its_feature_gate() -> None:
    meta = {"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/g"}}
    off = build_options(Configuration(feature_gates={"AdmissionGatedBy": False}))

    assert build_workload(workload(meta=meta)).gated_by == "example.com/g"
    assert build_workload(workload(meta=meta), off).gated_by == ""


def test_preemption_gates_are_closed_until_the_status_says_open() -> None:
    """M-22."""
    spec = {"preemptionGates": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    states = [{"name": "a", "position": "Open"}, {"name": "b", "position": "Closed"}]

    got = build_workload(workload(spec, preemptionGates=states))

    assert got.closed_gates == ("b", "c")


@pytest.mark.parametrize(
    ("on", "reason", "want"),
    [
        (False, "InCohortReclaimWhileBorrowing", timedelta(hours=1, milliseconds=1)),
        (False, "InClusterQueue", timedelta(0)),
        (True, "InCohortReclaimWhileBorrowing", timedelta(0)),
    ],
)
def test_who_lost_borrowed_quota_queues_anew_where_no_priority_counts(
    *, on: bool, reason: str, want: timedelta
) -> None:
    """E-13."""
    preempted = {
        "type": "Preempted",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": "2026-01-01T01:00:00Z",
    }
    config = Configuration(feature_gates={"PrioritySortingWithinCohort": on})

    got = build_workload(workload(conditions=[preempted]), build_options(config))

    assert got.queue_order_at - got.created_at == want


def test_reclaimable_pods_are_nothing_without_their_gate() -> None:
    options = build_options(Configuration(feature_gates={"ReclaimablePods": False}))
    obj = workload(reclaimablePods=[{"name": "main", "count": 2}])
    assert build_workload(obj, options).pod_sets[0].count == 3


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, False, id="nobody said so"),
        pytest.param({"conditions": [true("PodsReady", status="False")]}, False, id="waiting"),
        pytest.param({"conditions": [true("PodsReady")]}, True, id="ready"),
        pytest.param({"clusterName": "worker"}, True, id="on another cluster"),
    ],
)
def test_whose_pods_are_awaited(status: dict[str, Any], want: bool) -> None:
    assert built(**status).pods_ready is want


def test_conditions_become_what_the_queues_look_at() -> None:
    got = built(
        {"active": False},
        meta={"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}},
        conditions=[
            true("QuotaReserved", "OnHold", status="False"),
            true("WaitingForReplacementPods"),
            true("Finished"),
            true("Requeued", "BackoffFinished"),
        ],
        requeueState={"count": 1, "requeueAt": LATER},
        admissionChecks=[{"name": "ac", "state": "Retry", "lastTransitionTime": LATER}],
    )

    assert (got.on_hold, got.finished, got.active) == (True, True, False)
    assert got.awaits_replacement_pods
    assert got.gated_by == "example.com/gate"
    assert got.requeued is not None
    assert got.requeue_at == LATER_AT
    assert got.checks == {"ac": CheckState.RETRY}


@pytest.mark.parametrize(
    ("reason", "timestamp", "moves"),
    [
        pytest.param("PodsReadyTimeout", "Eviction", True, id="a timeout sends to the back"),
        pytest.param("PodsReadyTimeout", "Creation", False, id="unless configured otherwise"),
        pytest.param("AdmissionCheck", "Creation", True, id="a check always sends to the back"),
        pytest.param("Preempted", "Eviction", False, id="a preempted one keeps its place"),
    ],
)
def test_an_eviction_may_move_a_workload_back(reason: str, timestamp: str, moves: bool) -> None:
    """E-13."""
    options = BuildOptions(requeuing_timestamp=RequeuingTimestamp(timestamp))
    evicted = workload(conditions=[true("Evicted", reason)])
    got = build_workload(evicted, options)

    assert (got.queue_order_at == LATER_AT) is moves


def admission(count: int | None = 3) -> dict[str, Any]:
    assignment = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}}
    if count is not None:
        assignment["count"] = count
    return {"clusterQueue": "cq", "podSetAssignments": [assignment]}


def test_a_reservation_has_the_usage_of_its_assignment() -> None:
    """E-6."""
    got = built(admission=admission(), conditions=[true("QuotaReserved"), true("Admitted")])

    assert got.reservation is not None
    assert got.reservation.admitted
    assert got.reservation.reserved_at == LATER_AT
    assert got.reservation.admission.usage() == {("f", "cpu"): 3000}
    assert admission_to_wire(got.reservation.admission) == admission()


def test_the_topology_of_an_admission_is_read_and_written() -> None:
    placed = {
        **admission()["podSetAssignments"][0],
        "topologyAssignment": {
            "levels": ["rack", "kubernetes.io/hostname"],
            "slices": [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [
                        {"universal": "r1"},
                        {"individual": {"prefix": "n-", "roots": ["1", "2"]}},
                    ],
                    "podCounts": {"individual": [2, 1]},
                }
            ],
        },
        "delayedTopologyRequest": "Ready",
    }
    wire = {**admission(), "podSetAssignments": [placed]}
    got = built(
        conditions=[true("QuotaReserved")],
        admission=wire,
        unhealthyNodes=[{"name": "n-2"}],
    )
    assert got.reservation is not None
    assert got.reservation.admission.pod_sets[0].topology == TopologyAssignment(
        levels=("rack", "kubernetes.io/hostname"),
        domains=(TopologyDomain(("r1", "n-1"), 2), TopologyDomain(("r1", "n-2"), 1)),
    )
    assert got.unhealthy_nodes == ("n-2",)
    assert admission_to_wire(got.reservation.admission) == wire


def test_a_topology_that_cannot_be_read_is_a_problem_and_no_error() -> None:
    broken = {"levels": ["rack"], "slices": [{"domainCount": 2, "podCounts": {"individual": [1]}}]}
    assignment = {**admission()["podSetAssignments"][0], "topologyAssignment": broken}
    got = built(
        conditions=[true("QuotaReserved")],
        admission={**admission(), "podSetAssignments": [assignment]},
    )
    assert got.reservation is not None
    assert got.reservation.admission.pod_sets[0].topology is None
    assert len(got.problems) == 1
    assert "topologyAssignment" in got.problems[0]


def test_a_reservation_without_an_admission_is_broken() -> None:
    got = built(conditions=[true("QuotaReserved")])

    assert (got.reservation, got.is_broken) == (None, True)
    assert not built(admission=admission(), conditions=[true("QuotaReserved")]).is_broken
    assert not built(conditions=[true("QuotaReserved", status="False")]).is_broken


def test_a_workload_under_deletion_is_terminating() -> None:
    assert built(meta={"deletionTimestamp": LATER}).terminating
    assert not built().terminating


def test_a_reservation_shrinks_with_reclaimable_pods() -> None:
    """E-6."""
    got = built(
        admission=admission(),
        conditions=[true("QuotaReserved")],
        reclaimablePods=[{"name": "main", "count": 1}],
    )

    assert got.reservation is not None
    assert got.reservation.admission.usage() == {("f", "cpu"): 2000}
    assert got.reservation.admission.pod_sets[0].count == 2


@pytest.mark.parametrize(("reclaimed", "want"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_what_is_reclaimed_of_alternatives_is_of_the_pods_that_run(
    reclaimed: int, want: int
) -> None:
    """Three are asked for, two run on the hardware that was reserved."""
    got = built(
        meta={"annotations": {names.ALTERNATIVES: "h100=2"}},
        admission=admission(2),
        conditions=[true("QuotaReserved")],
        reclaimablePods=[{"name": "main", "count": reclaimed}],
    )

    assert got.reservation is not None
    assert got.reservation.admission.pod_sets[0].count == want


def test_a_reservation_without_counts_takes_those_of_the_pod_sets() -> None:
    got = built(admission=admission(None), conditions=[true("QuotaReserved")])

    assert got.reservation is not None
    assert got.reservation.admission.pod_sets[0].count == 3


def test_an_assignment_without_a_flavor_uses_no_quota() -> None:
    unassigned = {
        **admission(),
        "podSetAssignments": [{"name": "main", "resourceUsage": {"x": "1"}}],
    }
    got = built(admission=unassigned, conditions=[true("QuotaReserved")])

    assert got.reservation is not None
    assert got.reservation.admission.usage() == {}


def test_a_status_that_cannot_be_read_is_a_problem_and_no_error() -> None:
    usage = {"name": "main", "flavors": {"cpu": "f", "gpu": "f"}, "count": 3}
    bad = {"clusterQueue": "cq", "podSetAssignments": [usage]}
    usage["resourceUsage"] = {"cpu": "much", "gpu": "2"}
    got = built(
        {"podSets": [{"name": "main", "count": 3, "template": template("2")}]},
        admission=bad,
        conditions=[{**true("QuotaReserved"), "lastTransitionTime": "soon"}],
        requeueState={"requeueAt": "later"},
        admissionChecks=[{"name": "ac", "state": "Odd", "lastTransitionTime": LATER}],
    )

    assert got.reservation is not None
    assert got.reservation.admission.usage() == {("f", "cpu"): 6000, ("f", "gpu"): 2}
    assert got.reservation.reserved_at == got.created_at
    assert (got.requeue_at, got.checks) == (None, {"ac": CheckState.PENDING})
    assert [problem.partition(": ")[0] for problem in got.problems] == [
        "status.requeueState.requeueAt",
        "status.admission.podSetAssignments[main].resourceUsage[cpu]",
        "status.conditions[QuotaReserved].lastTransitionTime",
        "status.admissionChecks[ac].state",
    ]


def test_usage_of_a_pod_set_that_the_spec_lacks_and_cannot_be_read_is_none() -> None:
    usage = {"name": "gone", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "much"}, "count": 1}
    bad = {"clusterQueue": "cq", "podSetAssignments": [usage]}
    got = built(admission=bad, conditions=[true("QuotaReserved")])

    assert got.reservation is not None
    assert got.reservation.admission.usage() == {("f", "cpu"): 0}
    assert len(got.problems) == 1


def test_usage_below_zero_gives_nobody_quota_that_is_not_there() -> None:
    usage = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "-8"}, "count": 3}
    got = built(
        {"podSets": [{"name": "main", "count": 3, "template": template("2")}]},
        admission={"clusterQueue": "cq", "podSetAssignments": [usage]},
        conditions=[true("QuotaReserved")],
    )

    assert got.reservation is not None
    assert got.reservation.admission.usage() == {("f", "cpu"): 6000}
    assert got.problems == (
        "status.admission.podSetAssignments[main].resourceUsage[cpu]: -8 is negative",
    )


def test_an_eviction_without_a_readable_time_keeps_the_place_of_the_creation() -> None:
    got = built(
        conditions=[{**true("Evicted", "AdmissionCheck"), "lastTransitionTime": "yesterday"}]
    )

    assert got.queue_order_at == got.created_at
    assert got.problems[0].startswith("status.conditions[Evicted].lastTransitionTime: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tolerations", "all"),
        ("tolerations", 5),
        ("tolerations", [{"key": ["a"]}]),
        ("nodeSelector", ["a"]),
        ("nodeSelector", {"a": ["b"]}),
        ("affinity", {"nodeAffinity": "near"}),
    ],
)
def test_a_template_that_cannot_be_read_is_a_problem_and_no_error(field: str, value: Any) -> None:
    broken = template("1")
    broken["spec"][field] = value
    got = built({"podSets": [{"name": "main", "count": 1, "template": broken}]})

    assert got.pod_sets[0].placement is ANYWHERE
    assert got.problems == (
        f'pod set "main": template.spec.{field} cannot be read; write it as the Pod API has it',
    )


def test_problems_name_the_pod_set() -> None:
    got = built({"podSets": [{"name": "main", "count": 1, "template": template("-1")}]})

    assert got.problems == (
        'pod set "main": requests of container "c": cpu: -1 is negative; use 0 or more',
    )


def test_request_rules_apply_to_pending_workloads() -> None:
    rules = RequestRules(exclude_prefixes=("cpu",))
    got = build_workload(workload(), BuildOptions(request_rules=rules))

    assert got.pod_sets[0].requests == {}


def test_pods_take_of_their_node_what_they_say_whatever_they_count_for() -> None:
    """E-7."""
    plain, ruled = (
        workload(),
        BuildOptions(request_rules=RequestRules(exclude_prefixes=("cpu",))),
    )
    (as_said,) = built().pod_sets
    (excluded,) = build_workload(plain, ruled).pod_sets
    assert as_said.pod_requests is None
    assert excluded.requests == {}
    assert excluded.node_requests == as_said.node_requests


def test_equal_workloads_have_equal_shapes() -> None:
    """E-26."""
    other = built(meta={"name": "other", "uid": "v"})

    assert built().shape == other.shape
    assert built({"priority": 1}).shape != other.shape
    assert not built().may_shrink
    assert built({"podSets": [{"count": 3, "minCount": 1, "template": {}}]}).may_shrink


def test_pods_by_hardware_are_read_from_the_annotation() -> None:
    meta = {"annotations": {names.ALTERNATIVES: "h100=2"}}
    (pod_set,) = build_workload(workload(meta=meta)).pod_sets
    assert pod_set.alternatives == (("", 3), ("h100", 2))
    assert pod_set.pods_on("x", {"accelerator": "h100"}) == 2
    assert pod_set.pods_on("x", {}) == 3


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({names.ALTERNATIVES: "h100=9"}, "9 pods on h100 are more than the 3 of the job"),
        ({names.ALTERNATIVES: "nonsense"}, "is not HARDWARE=PODS"),
        ({names.ALTERNATIVES: "h100=2", names.ELASTIC_JOB: "true"}, "remove one of the two"),
    ],
)
def test_alternatives_that_make_no_sense_are_a_problem(
    annotations: dict[str, str], why: str
) -> None:
    options = BuildOptions(elastic=True)
    got = build_workload(workload(meta={"annotations": annotations}), options)
    (problem,) = got.problems
    assert problem.startswith(f"metadata.annotations[{names.ALTERNATIVES}]: ")
    assert why in problem
