"""Jobs: defaults, generated selectors, validation, what may change."""

import copy
from typing import Any

import pytest

from tests.unit.embedded.server.kind_builders import (
    UID,
    admitted,
    container,
    create_causes,
    created,
    fields,
    job,
    texts,
    update_causes,
)

SUSPENDED = [{"type": "Suspended", "status": "True"}]
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({}, {"parallelism": 1, "completions": 1, "backoffLimit": 6}),
        ({"parallelism": 3}, {"parallelism": 3, "completions": None, "backoffLimit": 6}),
        ({"completions": 3}, {"parallelism": 1, "completions": 3, "backoffLimit": 6}),
        ({"backoffLimitPerIndex": 1}, {"backoffLimit": 2147483647}),
        ({}, {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}),
        ({}, {"podReplacementPolicy": "TerminatingOrFailed"}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
    ],
)
def test_defaults(given: dict, want: dict) -> None:
    got = admitted("batch", "jobs", job(**given)).obj["spec"]
    assert {field: got.get(field) for field in want} == want


def test_labels_of_the_template_are_those_of_the_job_if_it_has_none() -> None:
    body = job()
    body["spec"]["template"]["metadata"] = {"labels": {"team": "a"}}
    assert admitted("batch", "jobs", body).obj["metadata"]["labels"] == {"team": "a"}
    body["metadata"]["labels"] = {"own": "b"}
    assert admitted("batch", "jobs", body).obj["metadata"]["labels"] == {"own": "b"}


def test_a_selector_is_generated_from_the_uid() -> None:
    got = created("batch", "jobs", job())
    assert got["spec"]["selector"] == {"matchLabels": {CONTROLLER_UID: UID}}
    assert got["spec"]["template"]["metadata"]["labels"] == {
        CONTROLLER_UID: UID,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": UID,
        "job-name": "a",
    }
    assert got["status"] == {}


def test_a_manual_selector_is_left_alone() -> None:
    body = job(manualSelector=True, selector={"matchLabels": {"x": "y"}})
    body["spec"]["template"]["metadata"] = {"labels": {"x": "y"}}
    got = created("batch", "jobs", body)["spec"]
    assert got["selector"] == {"matchLabels": {"x": "y"}}
    assert got["template"]["metadata"]["labels"] == {"x": "y"}


def test_a_selector_without_saying_manual_is_a_mistake() -> None:
    got = create_causes("batch", "jobs", job(selector={"matchLabels": {"x": "y"}}))
    assert "`selector` not auto-generated" in got[0].message


def indexed(**spec: Any) -> dict[str, Any]:
    return job(completionMode="Indexed", completions=2, parallelism=2, **spec)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (
            job(parallelism=-1),
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            job(completionMode="Both"),
            ('spec.completionMode: Unsupported value: "Both": '
            'supported values: "NonIndexed", "Indexed"'),
        ),
        (
            job(completionMode="Indexed", parallelism=1),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            job(managedBy="plain"),
            ('spec.managedBy: Invalid value: "plain": '
            'must be a domain-prefixed path (such as "acme.io/foo")'),
        ),
        (
            job(managedBy="x.io/" + "a" * 60),
            "spec.managedBy: Too long: may not be more than 63 bytes",
        ),
        (
            job(podReplacementPolicy="Soon"),
            ('spec.podReplacementPolicy: Unsupported value: "Soon": '
            'supported values: "Failed", "TerminatingOrFailed"'),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_mistake_is_explained(given: dict, want: str) -> None:
    assert texts(create_causes("batch", "jobs", given)) == [want]


def test_a_good_managed_by_is_accepted() -> None:
    assert create_causes("batch", "jobs", job(managedBy="kueue.x-k8s.io/multikueue")) == []


def test_an_empty_template_names_what_is_missing() -> None:
    got = texts(create_causes("batch", "jobs", {"spec": {}}))
    assert got == [
        "spec.template.spec.containers: Required value",
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ]


@pytest.mark.parametrize("policy", ["", "always", "Sometimes"])
def test_jobs_know_two_restart_policies(policy: str) -> None:
    body = job()
    body["spec"]["template"]["spec"]["restartPolicy"] = policy
    got = texts(create_causes("batch", "jobs", body))
    assert got == [
        (
            f'spec.template.spec.restartPolicy: Unsupported value: "{policy}": '
            'supported values: "OnFailure", "Never"'
        )
    ]


def test_a_failure_policy_needs_pods_that_are_replaced_when_they_failed() -> None:
    body = job(podFailurePolicy={"rules": []}, podReplacementPolicy="TerminatingOrFailed")
    assert fields(create_causes("batch", "jobs", body)) == ["spec.podReplacementPolicy"]


def changed(old: dict[str, Any], *path: str, value: Any) -> dict[str, Any]:
    new: Any = copy.deepcopy(old)
    target = new["spec"]
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value
    return dict(new)


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        (["completions"], 5, "spec.completions: Invalid value: 5: field is immutable"),
        (
            ["managedBy"],
            "x.io/other",
            'spec.managedBy: Invalid value: "x.io/other": field is immutable',
        ),
        (
            ["template", "spec", "containers"],
            [container(image="other:2")],
            'spec.template: Invalid value: "spec.containers[0].image": field is immutable',
        ),
        (
            ["template", "spec", "nodeSelector"],
            {"a": "b"},
            'spec.template: Invalid value: "spec.nodeSelector": field is immutable',
        ),
    ],
    ids=["completions", "managedBy", "image", "node selector while it runs"],
)
def test_most_of_a_job_is_immutable(path: list[str], value: Any, want: str) -> None:
    old = created("batch", "jobs", job())
    assert texts(update_causes("batch", "jobs", old, changed(old, *path, value=value))) == [want]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["parallelism"], 7),
        (["suspend"], False),
        (["backoffLimit"], 1),
        (["activeDeadlineSeconds"], 60),
        (["template", "spec", "nodeSelector"], {"a": "b"}),
        (["template", "spec", "tolerations"], [{"key": "a", "operator": "Exists"}]),
        (["template", "spec", "schedulingGates"], [{"name": "x.io/wait"}]),
        (["template", "metadata", "annotations"], {"a": "b"}),
    ],
    ids=[
        "parallelism",
        "suspend",
        "backoff limit",
        "deadline",
        "node selector",
        "tolerations",
        "gates",
        "annotations",
    ],
)
def test_a_suspended_job_may_change_where_it_will_run(path: list[str], value: Any) -> None:
    old = created("batch", "jobs", job(suspend=True))
    assert texts(update_causes("batch", "jobs", old, changed(old, *path, value=value))) == []


@pytest.mark.parametrize(
    ("status", "may_move"),
    [
        ({}, True),
        ({"startTime": "2026-01-01T00:00:00Z"}, False),
        ({"startTime": "2026-01-01T00:00:00Z", "conditions": SUSPENDED}, True),
        (
            {
                "startTime": "2026-01-01T00:00:00Z",
                "active": 1,
                "conditions": SUSPENDED,
            },
            False,
        ),
    ],
    ids=["never started", "started", "stopped again", "not stopped yet"],
)  # fmt: skip
def test_scheduling_changes_only_while_nothing_runs(status: dict, may_move: bool) -> None:
    old = created("batch", "jobs", job(suspend=True)) | {"status": status}
    new = changed(old, "template", "spec", "nodeSelector", value={"a": "b"})
    assert (texts(update_causes("batch", "jobs", old, new)) == []) is may_move


@pytest.mark.parametrize(
    ("completions", "parallelism", "good"),
    [(3, 3, True), (3, 2, False)],
    ids=["in tandem", "alone"],
)
def test_an_indexed_job_may_grow_in_tandem(completions: int, parallelism: int, good: bool) -> None:
    old = created("batch", "jobs", indexed())
    new = changed(old, "completions", value=completions)
    new["spec"]["parallelism"] = parallelism
    assert (texts(update_causes("batch", "jobs", old, new)) == []) is good


def test_a_cron_job_is_checked_like_its_job() -> None:
    template = {"spec": {"restartPolicy": "Always", "containers": [container()]}}
    body = {
        "metadata": {"name": "a"},
        "spec": {"jobTemplate": {"spec": {"template": template}}},
    }
    got = fields(create_causes("batch", "cronjobs", body))
    assert got == ["spec.schedule", "spec.jobTemplate.spec.template.spec.restartPolicy"]
