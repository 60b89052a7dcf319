from __future__ import annotations

from typing import Any

import pytest

from multiqueue.lint.finding import Severity
from tests.unit.lint.objects import (
    cluster_queue,
    find,
    flavor,
    job,
    local_queue,
    namespace,
    obj,
    priority,
    quota,
    told,
)

GPU = "nvidia.com/gpu"
CONTAINERS = "spec.template.spec.containers"
MIN = "kueue.x-k8s.io/job-min-parallelism"


def in_queue(queue: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (local_queue(), queue)


def test_a_job_needs_its_queue() -> None:
    (found,) = find("job-queue-missing", job(), local_queue("other"))
    assert found.path == "metadata.labels[kueue.x-k8s.io/queue-name]"
    assert found.what == 'LocalQueue "q" is not among what was read in namespace "n"'
    assert find("job-queue-missing", job(), complete=["LocalQueue"])[0].severity is Severity.ERROR
    assert not find("job-queue-missing", job(), local_queue())
    assert not find("job-queue-missing", job())


def test_the_label_must_not_name_a_cluster_queue() -> None:
    (found,) = find("job-queue-missing", job(queue="cq"), cluster_queue("cq"))
    assert found.what.startswith('names ClusterQueue "cq", but the label is for a LocalQueue')
    assert "leads to cq" in found.todo


def test_jobs_that_ended_or_name_no_queue_are_left_alone() -> None:
    ended = {**job(), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert not find("job-queue-missing", ended, complete=["LocalQueue"])
    assert not find("job-queue-missing", job(queue=""), complete=["LocalQueue"])


def test_a_priority_class_must_exist() -> None:
    wants = job(labels={"kueue.x-k8s.io/priority-class": "high"})
    assert find("job-priority-class-missing", wants, priority("low", 1))
    assert not find("job-priority-class-missing", wants, priority("high", 1))
    assert not find("job-priority-class-missing", wants)


def test_every_request_needs_a_quota() -> None:
    wants = job(requests={"cpu": "1", GPU: "1", "memory": "0"})
    assert told("job-resource-not-covered", wants, *in_queue(cluster_queue())) == [
        f'{CONTAINERS}: requests {GPU}, for which ClusterQueue "cq" has no quota'
    ]
    covers = cluster_queue("cq", quota(), quota(GPU))
    assert not find("job-resource-not-covered", wants, *in_queue(covers))


@pytest.mark.parametrize(
    "config",
    [
        "resources: {excludeResourcePrefixes: [nvidia.com/]}",
        "resources: {quotaCheckStrategy: IgnoreUndeclared}",
        "resources: {transformations: [{input: nvidia.com/gpu, strategy: Replace}]}",
    ],
)
def test_the_configuration_says_what_counts(config: str) -> None:
    objects = (job(requests={GPU: "1"}), *in_queue(cluster_queue()))
    assert find("job-resource-not-covered", *objects, config="")
    assert not find("job-resource-not-covered", *objects, config=config)


def test_a_request_that_is_missing_counts_as_nothing() -> None:
    queue = cluster_queue("cq", quota(), quota("memory", "8Gi"), quota(GPU))
    assert told("job-request-missing", job(), *in_queue(queue)) == [
        f'{CONTAINERS}: requests no memory, for which ClusterQueue "cq" has quota'
    ]


@pytest.mark.parametrize(
    ("queue", "fits"),
    [
        (cluster_queue("cq", quota(nominal="6")), True),
        (cluster_queue("cq", quota(nominal="5")), False),
        (cluster_queue("cq", quota(nominal="5", borrowingLimit="1"), cohortName="c"), True),
        (cluster_queue("cq", quota(nominal="4", borrowingLimit="1"), cohortName="c"), False),
        (cluster_queue("cq", quota(nominal="0"), cohortName="c"), True),
    ],
)
def test_a_job_must_fit_into_what_one_flavor_can_give(queue: Any, *, fits: bool) -> None:
    gang = job(requests={"cpu": "1500m"}, spec={"parallelism": 4, "completions": 9})
    got = told("job-too-large", gang, *in_queue(queue))
    assert bool(got) is not fits
    if got:
        assert f"{CONTAINERS}: needs 6 cpu (4 pods); " in got[0]


def test_partial_admission_may_start_with_fewer_pods() -> None:
    gang = job(requests={"cpu": "4"}, spec={"parallelism": 4}, annotations={MIN: "2"})
    assert not find("job-too-large", gang, *in_queue(cluster_queue()))


A100, H100 = flavor("f", nodeLabels={"gpu": "a100"}), flavor("f", nodeLabels={"gpu": "h100"})


def test_some_flavor_must_suit_the_selector() -> None:
    wants = job(pod={"nodeSelector": {"gpu": "a100", "zone": "x"}})
    (got,) = told("job-no-flavor", wants, H100, *in_queue(cluster_queue()))
    assert got.endswith("f: gpu is h100, not a100")
    assert not find("job-no-flavor", wants, A100, *in_queue(cluster_queue()))
    assert not find("job-no-flavor", wants, *in_queue(cluster_queue()))


def test_some_flavor_must_be_tolerated() -> None:
    tainted = flavor(nodeTaints=[{"key": "spot", "value": "yes", "effect": "NoSchedule"}])
    (got,) = told("job-no-flavor", job(), tainted, *in_queue(cluster_queue()))
    assert got.endswith("f: taint spot is not tolerated")
    tolerant = job(pod={"tolerations": [{"key": "spot", "operator": "Exists"}]})
    assert not find("job-no-flavor", tolerant, tainted, *in_queue(cluster_queue()))


def test_flavors_of_other_resources_do_not_matter() -> None:
    wants = job(pod={"nodeSelector": {"gpu": "a100"}}, requests={"memory": "1Gi"})
    assert not find("job-no-flavor", wants, H100, *in_queue(cluster_queue()))


def test_pods_get_their_priority_from_a_class() -> None:
    assert told("job-pod-priority", job(pod={"priority": 2_000_000_000})) == [
        "spec.template.spec.priority: is 2000000000, without a PriorityClass"
    ]
    assert not find("job-pod-priority", job(pod={"priority": 7, "priorityClassName": "seven"}))
    assert not find("job-pod-priority", job(pod={"priority": 0}))
    assert not find("job-pod-priority", job())


def test_extended_resources_need_limits() -> None:
    assert told("job-extended-resource-limit", job(requests={GPU: "1"})) == [
        f"{CONTAINERS}[0].resources.limits: requests {GPU} without a limit"
    ]
    limited = {"resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}
    assert not find("job-extended-resource-limit", job(container=limited))
    assert not find("job-extended-resource-limit", job())


@pytest.mark.parametrize(
    ("minimum", "wrong"),
    [
        ("1", False),
        ("3", True),
        ("0", True),
        ("²", False),
        pytest.param("9" * 5000, False, id="long"),
    ],
)
def test_a_minimum_is_less_than_all(minimum: str, *, wrong: bool) -> None:
    partial = job(spec={"parallelism": 3}, annotations={MIN: minimum})
    assert bool(find("job-min-parallelism", partial)) is wrong


def hook(**pre_stop: Any) -> dict[str, Any]:
    return {"lifecycle": {"preStop": pre_stop}}


@pytest.mark.parametrize(
    ("fields", "got"),
    [
        ({"container": hook(sleep={"seconds": 30})}, "the hook sleeps 30 s"),
        ({"container": hook(sleep={"seconds": 29})}, None),
        (
            {"container": hook(exec={"command": ["sh", "-c", "save; sleep 40; sleep 50s"]})},
            "the hook sleeps 90 s",
        ),
        (
            {
                "container": hook(sleep={"seconds": 60}),
                "pod": {"terminationGracePeriodSeconds": 61},
            },
            None,
        ),
        (
            {"annotations": {"multiqueue.dev/checkpoint-seconds": "300"}},
            "saving a checkpoint takes 300 s",
        ),
    ],
)
def test_a_checkpoint_needs_time(fields: dict[str, Any], got: str | None) -> None:
    found = find("checkpoint-exceeds-grace", job(**fields))
    assert [f.what.partition(";")[0] for f in found] == ([got] if got else [])


def test_the_annotation_may_stand_on_the_template() -> None:
    slow = job()
    template = slow["spec"]["template"]["metadata"]
    template["annotations"] = {"multiqueue.dev/checkpoint-seconds": "31"}
    (found,) = find("checkpoint-exceeds-grace", slow)
    assert found.path == "spec.template.metadata.annotations[multiqueue.dev/checkpoint-seconds]"
    assert found.todo == "set terminationGracePeriodSeconds to more than 31"


HOOK = "multiqueue.dev/checkpoint-hook"
NOTICE = {HOOK: "trainer:8080/save", "multiqueue.dev/checkpoint-on": "Notice"}


def governed(holder: dict[str, Any], policy: str) -> dict[str, Any]:
    holder["metadata"]["annotations"] = {"multiqueue.dev/disruption-policy": policy}
    return holder


def policy(*, hooks: bool) -> dict[str, Any]:
    spec = {"notice": {"longest": "5m", "hooks": hooks}}
    return obj("DisruptionPolicy", "gentle", spec, version="multiqueue.dev/v1alpha1")


@pytest.mark.parametrize(
    ("annotations", "objects", "got"),
    [
        ({}, [], None),
        ({HOOK: "trainer:8080"}, [], "the job gets no notices, so nothing is posted"),
        (NOTICE, [], None),
        (NOTICE, in_queue(cluster_queue()), 'ClusterQueue "cq" has no DisruptionPolicy'),
        (NOTICE, in_queue(governed(cluster_queue(), "gentle")), None),
        (
            NOTICE,
            [*in_queue(governed(cluster_queue(), "gentle")), policy(hooks=False)],
            'DisruptionPolicy "gentle" of ClusterQueue "cq" posts nothing',
        ),
        (NOTICE, [*in_queue(governed(cluster_queue(), "gentle")), policy(hooks=True)], None),
        (
            NOTICE,
            [
                *in_queue(cluster_queue(cohortName="team")),
                obj("Cohort", "team", {"parentName": "all"}),
                governed(obj("Cohort", "all", {"parentName": "team"}), "gentle"),
                policy(hooks=True),
            ],
            None,
        ),
        (
            NOTICE,
            [
                *in_queue(cluster_queue(cohortName="team")),
                obj("Cohort", "team", {"parentName": "all"}),
                obj("Cohort", "all", {"parentName": "team"}),
            ],
            'ClusterQueue "cq" has no DisruptionPolicy',
        ),
    ],
)
def test_a_hook_needs_notices_and_a_policy_that_posts_them(
    annotations: dict[str, str], objects: list[dict[str, Any]], got: str | None
) -> None:
    found = find("checkpoint-hook-unused", job(annotations=annotations), *objects)
    assert [f.what for f in found] == ([got] if got else [])


def test_limit_ranges_of_the_namespace_count() -> None:
    def limits(name: str, **item: Any) -> dict[str, Any]:
        spec = {"limits": [{"type": "Container", **item}]}
        return obj("LimitRange", "l", spec, version="v1", namespace=name)

    (got,) = told("job-limit-range", job(), limits("n", max={"cpu": "500m"}))
    assert "more than the maximum 500m" in got
    assert not find("job-limit-range", job(), limits("other", max={"cpu": "500m"}))
    assert not find("job-limit-range", job(), limits("n", max={"cpu": "1"}))


@pytest.mark.parametrize(
    ("spec", "blocks"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"minAvailable": "100%"}, True),
        ({"maxUnavailable": 1}, False),
        ({"minAvailable": 1}, False),
    ],
)
def test_budgets_hold_up_evictions(spec: dict[str, Any], *, blocks: bool) -> None:
    def budget(app: str, namespace: str = "n") -> dict[str, Any]:
        selector = {"selector": {"matchLabels": {"app": app}}}
        body = {**spec, **selector}
        return obj("PodDisruptionBudget", "b", body, version="policy/v1", namespace=namespace)

    assert bool(find("budget-blocks-eviction", budget("a"), job())) is blocks
    assert not find("budget-blocks-eviction", budget("b"), job())
    assert not find("budget-blocks-eviction", budget("a", "other"), job())
    assert not find("budget-blocks-eviction", budget("a"), job(queue=""))


def test_jobs_beside_the_queue_are_told() -> None:
    (found,) = find("job-without-queue", job(queue=""), local_queue())
    assert found.severity is Severity.WARNING
    assert found.todo == "set the label, for example to q"
    strict = "manageJobsWithoutQueueName: true"
    (found,) = find("job-without-queue", job(queue=""), local_queue(), config=strict)
    assert found.severity is Severity.ERROR


def test_jobs_that_get_a_queue_or_are_nobodys_are_fine() -> None:
    owned = job(queue="")
    owned["metadata"]["ownerReferences"] = [{"kind": "JobSet", "controller": True}]
    assert not find("job-without-queue", owned, local_queue())
    assert not find("job-without-queue", job(queue=""), local_queue("default"))
    assert not find("job-without-queue", job(queue=""), local_queue(namespace="other"))
    unmanaged = "managedJobsNamespaceSelector: {matchLabels: {managed: 'yes'}}"
    objects = (job(queue=""), local_queue(), namespace("n"))
    assert not find("job-without-queue", *objects, config=unmanaged)


def test_labelled_objects_of_kinds_that_are_not_queued_are_found() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    head = {"namespace": "n", "version": "jobset.x-k8s.io/v1alpha2"}
    labelled = obj("JobSet", "s", {}, labels=labels, **head)
    (found,) = find("kind-not-queued", labelled, config="")
    assert found.severity is Severity.ERROR
    assert found.what == "JobSets are not queued: this one runs at once, outside of every quota"
    assert "jobset.x-k8s.io/jobset" in found.todo
    assert not find("kind-not-queued", obj("JobSet", "s", {}, **head), config="")
    enabled = "integrations: {frameworks: [jobset.x-k8s.io/jobset]}"
    assert not find("kind-not-queued", labelled, config=enabled)
