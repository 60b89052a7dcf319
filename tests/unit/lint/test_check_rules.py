from __future__ import annotations

from typing import Any

import pytest

from multiqueue.lint.finding import Severity
from tests.unit.lint.objects import (
    MULTIKUEUE,
    PROVISIONING,
    check,
    checked,
    cluster_queue,
    find,
    local_queue,
    namespace,
    obj,
    quota,
    told,
    world,
)

CHECK = check("mk", MULTIKUEUE, "workers")
CONFIG = obj("MultiKueueConfig", "workers", {"clusters": ["w"]})
WORKER = obj(
    "MultiKueueCluster",
    "w",
    {"clusterSource": {"kubeConfig": {"location": "w-kubeconfig", "locationType": "Secret"}}},
)
HERE = (
    cluster_queue(admissionChecksStrategy=checked("mk")),
    local_queue(),
    CHECK,
    CONFIG,
    WORKER,
)


def test_a_missing_check_is_named() -> None:
    queue = cluster_queue(admissionChecksStrategy=checked("mk"))
    assert told("check-missing", queue, complete=["AdmissionCheck"]) == [
        'spec.admissionChecksStrategy.admissionChecks[0].name: AdmissionCheck "mk" does not exist'
    ]
    assert not find("check-missing", queue, CHECK)


def test_the_old_list_of_checks_counts() -> None:
    queue = cluster_queue(admissionChecks=["mk"])
    queue["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    assert find("check-missing", queue, complete=["AdmissionCheck"])


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        (checked("mk", "mk2"), "is the second of 2 MultiKueue checks"),
        (checked("mk", on_flavors=["f"]), "cannot hold for single flavors"),
        (checked("mk", "pr"), "nodes are provisioned where a job runs"),
    ],
)
def test_multikueue_excludes_other_checks(strategy: Any, says: str) -> None:
    checks = [
        CHECK,
        check("mk2", MULTIKUEUE, "workers"),
        check("pr", PROVISIONING, "c", "ProvisioningRequestConfig"),
    ]
    queue = cluster_queue(admissionChecksStrategy=strategy)
    (got,) = told("multikueue-check-combination", queue, *checks)
    assert says in got


def test_checks_of_others_need_their_controller() -> None:
    other = obj("AdmissionCheck", "x", {"controllerName": "example.com/mine"})
    assert find("check-controller", other)[0].severity is Severity.INFO
    assert not find("check-controller", CHECK)
    assert not find("check-parameters", other)


def test_parameters_must_name_what_is_there() -> None:
    assert told("check-parameters", CHECK, complete=["MultiKueueConfig"]) == [
        'spec.parameters.name: MultiKueueConfig "workers" does not exist'
    ]
    assert not find("check-parameters", CHECK, CONFIG)
    wrong = check("mk", MULTIKUEUE, "workers", "ConfigMap")
    bare = obj("AdmissionCheck", "mk", {"controllerName": PROVISIONING})
    for bad in (wrong, bare):
        (found,) = find("check-parameters", bad, CONFIG)
        assert (found.path, found.severity) == ("spec.parameters", Severity.ERROR)


def test_block_admission_does_not_go_with_workers() -> None:
    blocking = "waitForPodsReady: {blockAdmission: true}"
    assert find("multikueue-block-admission", CHECK, config=blocking)
    assert not find("multikueue-block-admission", CHECK, config="")
    assert not find("multikueue-block-admission", CHECK)
    other = check("pr", PROVISIONING, "c", "ProvisioningRequestConfig")
    assert not find("multikueue-block-admission", other, config=blocking)


def test_two_checks_of_one_class_ask_twice() -> None:
    def config(name: str, class_name: str) -> dict[str, object]:
        return obj("ProvisioningRequestConfig", name, {"provisioningClassName": class_name})

    kind = "ProvisioningRequestConfig"
    checks = [check("a", PROVISIONING, "ca", kind), check("b", PROVISIONING, "cb", kind)]
    queue = cluster_queue(admissionChecksStrategy=checked("a", "b"))
    (got,) = told("provisioning-class-twice", queue, *checks, config("ca", "x"), config("cb", "x"))
    assert got.endswith('asks class "x" for nodes, as check "a" does')
    others = (config("ca", "x"), config("cb", "y"))
    assert not find("provisioning-class-twice", queue, *checks, *others)


def test_unknown_and_unused_workers_are_named() -> None:
    assert told("worker-missing", CONFIG, complete=["MultiKueueCluster"]) == [
        'spec.clusters[0]: MultiKueueCluster "w" does not exist'
    ]
    assert not find("worker-missing", CONFIG, WORKER)
    assert find("worker-unused", WORKER)
    assert not find("worker-unused", WORKER, CONFIG)


@pytest.mark.parametrize(
    ("location", "wrong"),
    [("/etc/multikueue/kubeconfigs/w", False), ("/root/.kube/config", True)],
)
def test_kubeconfig_files_have_one_place(location: str, *, wrong: bool) -> None:
    source = {"kubeConfig": {"location": location, "locationType": "Path"}}
    cluster = obj("MultiKueueCluster", "w", {"clusterSource": source})
    assert bool(find("worker-kubeconfig-path", cluster)) is wrong


def test_what_is_known_about_kubeconfigs_is_told() -> None:
    (found,) = find("worker-kubeconfig", WORKER, kubeconfig_problems={"w": "has no key"})
    assert (found.severity, found.what) == (Severity.ERROR, "has no key")
    (found,) = find("worker-kubeconfig", WORKER, worker_problems={"w": "no answer"})
    assert (found.severity, found.what) == (
        Severity.INFO,
        "its cluster was not looked at: no answer",
    )


def remote(*objects: dict[str, Any], **around: Any) -> dict[str, Any]:
    return {"workers": {"w": world(*objects, **around)}}


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ((namespace("other"),), 'worker "w" has no namespace "n"'),
        ((namespace("n"),), 'worker "w" has no LocalQueue "q" in namespace "n"'),
        ((local_queue(to="x"),), 'worker "w": LocalQueue "n/q" leads to no ClusterQueue'),
    ],
)
def test_a_worker_needs_the_namespace_and_the_queue(there: Any, says: str) -> None:
    got = told("worker-queue-missing", *HERE, **remote(*there))
    assert [text.partition(": ")[2] for text in got] == [says]


def test_a_worker_that_matches_is_fine() -> None:
    around = remote(local_queue(to="there"), cluster_queue("there"))
    for rule in ("worker-queue-missing", "worker-quota-differs", "worker-queue-stopped"):
        assert not find(rule, *HERE, **around)


def test_only_workers_of_the_queue_are_compared() -> None:
    around = {"workers": {"another": world()}}
    assert not find("worker-queue-missing", *HERE, **around)
    assert not find("worker-queue-missing", local_queue(), cluster_queue(), **remote())


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (cluster_queue("cq", quota("memory")), "does not cover cpu"),
        (cluster_queue("cq", quota(nominal="0")), "has quota 0 for cpu, and no cohort"),
        (cluster_queue("cq", flavor="g"), "has none of the flavors here: g"),
    ],
)
def test_quotas_of_a_worker_go_with_those_here(there: Any, says: str) -> None:
    (got,) = told("worker-quota-differs", *HERE, **remote(local_queue(), there))
    assert got == f'spec.clusterQueue: worker "w": ClusterQueue "cq" {says}'


def test_a_worker_in_a_cohort_may_borrow() -> None:
    there = cluster_queue("cq", quota(nominal="0"), cohortName="c")
    assert not find("worker-quota-differs", *HERE, **remote(local_queue(), there))


def test_stopped_queues_of_a_worker_are_told() -> None:
    there = remote(local_queue(stopPolicy="Hold"), cluster_queue(stopPolicy="HoldAndDrain"))
    assert told("worker-queue-stopped", *HERE, **there) == [
        'spec.clusterQueue: worker "w": LocalQueue "q" is stopped (Hold)',
        'spec.clusterQueue: worker "w": ClusterQueue "cq" is stopped (HoldAndDrain)',
    ]


def test_rules_look_at_the_workers_too() -> None:
    found = find("queue-stopped", **remote(cluster_queue(stopPolicy="Hold")))
    assert [(f.cluster, f.name) for f in found] == [("w", "cq")]
