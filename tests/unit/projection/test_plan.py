"""From what is declared and what is there to steps; what is not ours stays as it is."""

from __future__ import annotations

import pytest

from multiqueue.api.names import PROJECTED_FROM
from multiqueue.projection.plan import Options, make_plan
from multiqueue.projection.report import WorkerReport, add_plan
from tests.unit.lint.objects import Json, obj
from tests.unit.projection.objects import (
    FLEET,
    MANAGER,
    ORIGIN,
    TEAM,
    cluster_queue,
    desired,
    flavor,
    held,
    local_queue,
    namespace,
    plan,
    priority,
    projected,
    quota,
    seen,
    steps,
)


def as_declared() -> list[Json]:
    return [dict(o) for o in desired().objects]


def changed(name: str, **fields: object) -> list[Json]:
    """The worker as declared, but for one object."""
    return [
        {**o, **fields} if o["metadata"]["name"] == name else o  # type: ignore[dict-item]
        for o in as_declared()
    ]


def test_an_empty_worker_gets_everything_in_an_order_that_works() -> None:
    made = plan()
    assert steps(made) == [
        "create Namespace n",
        "create ResourceFlavor f",
        "create WorkloadPriorityClass high",
        "create ClusterQueue all",
        "create LocalQueue q",
    ]
    assert held(made) == []


def test_only_labels_that_select_namespaces_are_projected() -> None:
    made = desired().objects[0]
    assert made["metadata"]["labels"] == {TEAM: "n", PROJECTED_FROM: ORIGIN}


def test_the_fleet_file_adds_to_the_managers_flavor() -> None:
    (found,) = [o for o in desired().objects if o["kind"] == "ResourceFlavor"]
    assert found["spec"] == {
        "nodeLabels": {"gpu": "a100"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }


def test_values_are_told_as_they_are_written() -> None:
    report = WorkerReport(worker="w")
    add_plan(report, plan(*changed("f", spec={"nodeLabels": {"gpu": "h100"}})))
    first, second = (drift.message.partition("; it was")[0] for drift in report.drift)
    assert first == 'spec.nodeLabels is {"gpu":"h100"}; declared: {"gpu":"a100"}'
    assert second == 'spec.tolerations is missing; declared: [{"key":"gpu","operator":"Exists"}]'


def test_what_is_as_declared_needs_nothing_whoever_made_it() -> None:
    there = [{**o, "metadata": {**o["metadata"], "labels": {TEAM: "n"}}} for o in as_declared()]
    made = plan(*there)
    assert (steps(made), held(made), made.in_step) == ([], [], 5)


def test_what_has_no_labels_at_all_is_as_declared_too() -> None:
    made = plan(cluster_queue(), local_queue(), priority("high", 100), content=None)
    assert (steps(made), held(made)) == (["create Namespace n"], [])


def test_defaults_of_the_server_and_fields_of_others_are_no_difference() -> None:
    (queue,) = [o for o in as_declared() if o["kind"] == "ClusterQueue"]
    resource = {"name": "cpu", "nominalQuota": "8000m"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [resource]}]}]
    spec = {**queue["spec"], "resourceGroups": groups, "stopPolicy": "Hold", "preemption": {}}
    assert steps(plan(*changed("all", spec=spec))) == []


def test_a_change_of_ours_is_put_right_and_named_by_its_field() -> None:
    made = plan(*changed("high", value=7))
    assert steps(made) == ["update WorkloadPriorityClass high"]
    (difference,) = made.steps[0].differences
    assert (difference.path, difference.wanted, difference.found) == ("value", 100, 7)


def test_one_more_node_label_is_a_difference() -> None:
    spec = {
        "nodeLabels": {"gpu": "a100", "zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    made = plan(*changed("f", spec=spec))
    assert [d.path for d in made.steps[0].differences] == ["spec.nodeLabels"]


def test_what_others_made_is_left_alone_and_told() -> None:
    there = [flavor(nodeLabels={"gpu": "h100"}), projected(priority("high", 1), "another-manager")]
    made = plan(*there)
    assert held(made) == ["NotOurs ResourceFlavor f", "NotOurs WorkloadPriorityClass high"]
    assert "another manager" in made.held[1].message
    assert "update" not in " ".join(steps(made))


def test_force_takes_over_what_others_made() -> None:
    made = plan(flavor(nodeLabels={"gpu": "h100"}), force=True)
    assert held(made) == []
    (step,) = [s for s in made.steps if s.action == "update"]
    assert step.takes_over
    assert step.obj["metadata"]["labels"] == {PROJECTED_FROM: ORIGIN}


def test_a_local_queue_cannot_be_led_elsewhere() -> None:
    there = projected(local_queue(to="old"))
    made = plan(there, cluster_queue("old"))
    assert held(made) == ["Immutable LocalQueue q"]
    assert "update LocalQueue q" not in steps(made)


def test_what_could_not_be_read_is_not_written() -> None:
    made = make_plan(desired(), seen(kinds=["ResourceFlavor"]), Options(origin=ORIGIN))
    assert steps(made) == ["create ResourceFlavor f"]
    assert held(made) == [
        "Unseen Namespace n",
        "Unseen WorkloadPriorityClass high",
        "Unseen ClusterQueue all",
        "Unseen LocalQueue q",
    ]


def test_fields_that_we_applied_and_no_longer_declare_go() -> None:
    (queue,) = [o for o in as_declared() if o["kind"] == "ClusterQueue"]
    spec = {**queue["spec"], "cohortName": "old", "queueingStrategy": "StrictFIFO"}
    fields = {"f:spec": {"f:cohortName": {}, "f:resourceGroups": {}}}
    entry = {"manager": "multiqueue-projection", "operation": "Apply", "fieldsV1": fields}
    metadata = {**queue["metadata"], "managedFields": [entry]}
    made = plan(*changed("all", spec=spec, metadata=metadata))
    (difference,) = made.steps[0].differences
    assert (difference.path, difference.wanted, difference.found) == (
        "spec.cohortName",
        None,
        "old",
    )


def test_without_the_fleet_file_flavors_are_compared_and_never_written() -> None:
    (ours,) = [o for o in as_declared() if o["kind"] == "ResourceFlavor"]
    fields = {"f:spec": {"f:nodeLabels": {}, "f:tolerations": {}}}
    entry = {"manager": "multiqueue-projection", "operation": "Apply", "fieldsV1": fields}
    metadata = {**ours["metadata"], "managedFields": [entry]}
    queues = [cluster_queue(), local_queue(), namespace(**{TEAM: "n"}), priority("high", 100)]
    same = plan({**ours, "metadata": metadata}, *queues, content=None)
    assert (steps(same), held(same)) == ([], [])
    spec = {**ours["spec"], "nodeLabels": {"gpu": "h100"}}
    for force in (False, True):
        other = {**ours, "metadata": metadata, "spec": spec}
        made = plan(other, *queues, content=None, force=force)
        assert (steps(made), held(made)) == ([], ["Unclear ResourceFlavor f"])
        assert [d.path for d in made.held[0].differences] == ["spec.nodeLabels"]


# ------------------------------------------------------------------ pruning


def test_without_prune_nothing_is_deleted_but_left_overs_are_known() -> None:
    made = plan(*as_declared(), projected(flavor("old")))
    assert steps(made) == []
    assert [o["metadata"]["name"] for o in made.left_over] == ["old"]


def test_prune_takes_users_before_what_they_use_and_nothing_of_others() -> None:
    there = [
        projected(flavor("old")),
        projected(cluster_queue("old", quota(), flavor="old")),
        projected(local_queue("old", to="old")),
        flavor("theirs"),
        projected(flavor("another"), "another-manager"),
    ]
    made = plan(*as_declared(), *there, prune=True)
    assert steps(made) == [
        "delete LocalQueue old",
        "delete ClusterQueue old",
        "delete ResourceFlavor old",
    ]


def workload(name: str, *, finished: bool = False, **fields: object) -> Json:
    conditions = [{"type": "Finished", "status": "True"}] if finished else []
    return obj("Workload", name, dict(fields), namespace="n", status={"conditions": conditions})


def test_a_queue_with_workloads_is_held_back_with_all_that_it_uses() -> None:
    there = [
        projected(flavor("old")),
        projected(cluster_queue("old", quota(), flavor="old")),
        projected(local_queue("old", to="old")),
        workload("running", queueName="old"),
    ]
    made = plan(*as_declared(), *there, prune=True)
    assert steps(made) == []
    assert held(made) == [
        "InUse LocalQueue old",
        "InUse ClusterQueue old",
        "InUse ResourceFlavor old",
    ]
    assert [h.message for h in made.held] == [
        'in use by Workload "n/running"',
        'in use by LocalQueue "n/old"',
        'in use by ClusterQueue "old"',
    ]


def test_finished_workloads_hold_nothing() -> None:
    there = [projected(local_queue("old", to="all")), workload("w", finished=True, queueName="old")]
    assert steps(plan(*as_declared(), *there, prune=True)) == ["delete LocalQueue old"]


def test_a_class_of_a_waiting_workload_stays() -> None:
    ref = {"name": "old", "kind": "WorkloadPriorityClass"}
    there = [projected(priority("old", 1)), workload("w", priorityClassRef=ref)]
    assert held(plan(*as_declared(), *there, prune=True)) == ["InUse WorkloadPriorityClass old"]


def test_where_workloads_cannot_be_read_their_queues_stay() -> None:
    made = plan(
        *as_declared(), projected(local_queue("old", to="all")), prune=True, workloads=False
    )
    assert held(made) == ["InUse LocalQueue old"]


def test_namespaces_are_never_deleted() -> None:
    made = plan(*as_declared(), projected(namespace("old")), prune=True)
    assert (steps(made), held(made)) == ([], ["NeverDeleted Namespace old"])


def test_nothing_is_deleted_while_the_declaration_is_not_clear() -> None:
    content = FLEET.replace("{name: f,", "{name: unknown,")
    made = plan(*as_declared(), projected(flavor("old")), prune=True, content=content)
    assert made.problems != ()
    assert "Unclear ResourceFlavor old" in held(made)


# ------------------------------------------------------------------ where queues lead


@pytest.mark.parametrize(
    ("there", "want"),
    [
        pytest.param([cluster_queue("one")], "one", id="the only one"),
        pytest.param([cluster_queue("one"), cluster_queue("cq")], "cq", id="that of the same name"),
        pytest.param(
            [cluster_queue("one"), cluster_queue("two"), local_queue(to="two")],
            "two",
            id="where it leads already",
        ),
    ],
)
def test_without_a_fleet_file_local_queues_find_their_way(there: list[Json], want: str) -> None:
    made = desired(*there, content=None)
    (queue,) = [o for o in made.objects if o["kind"] == "LocalQueue"]
    assert queue["spec"] == {"clusterQueue": want}
    assert made.problems == ()


def test_where_it_could_lead_to_any_queue_the_file_must_say() -> None:
    made = desired(cluster_queue("one"), cluster_queue("two"), content=None)
    assert [o["kind"] for o in made.objects] == ["Namespace", "WorkloadPriorityClass"]
    (problem,) = made.problems
    assert problem == (
        'LocalQueue "n/q" could lead to any ClusterQueue of worker "w"; say which one in '
        "clusterQueues[].serves of the fleet file"
    )


def test_serves_decides_between_declared_queues() -> None:
    other = FLEET + FLEET[FLEET.index("  - name: all") :].replace(
        "name: all", "name: team\n    serves: [cq]"
    )
    (queue,) = [o for o in desired(content=other).objects if o["kind"] == "LocalQueue"]
    assert queue["spec"] == {"clusterQueue": "team"}


def test_kinds_that_are_made_by_other_means_are_left_out() -> None:
    content = FLEET.replace("workers:", "kinds: [LocalQueue]\nworkers:")
    assert steps(plan(content=content)) == ["create LocalQueue q"]


def test_queues_that_lead_to_no_worker_are_not_projected() -> None:
    manager = [o for o in MANAGER if o["kind"] != "AdmissionCheck"]
    assert steps(plan(manager=manager)) == [
        "create ResourceFlavor f",
        "create WorkloadPriorityClass high",
        "create ClusterQueue all",
    ]
