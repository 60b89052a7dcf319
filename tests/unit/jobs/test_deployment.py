"""Deployments: their template follows their queue, and which changes are refused (J-264, J-267)."""

from __future__ import annotations

import copy
from typing import Any

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.jobs.setup import load_kind
from tests.job_kinds import ROWS
from tests.unit.webhooks.lookups import Queues

WEBHOOK = load_kind(ROWS["deployment"]).webhook
CONFIG = Configuration()
QUEUE_PATH = "metadata.labels[kueue.x-k8s.io/queue-name]"


def make(
    queue: str = "lq", *, ready: int = 0, more: dict[str, str] | None = None
) -> dict[str, Any]:
    found = {**({names.QUEUE_NAME: queue} if queue else {}), **(more or {})}
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "labels": found},
        "spec": {
            "replicas": 2,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
        "status": {"readyReplicas": ready},
    }


def errors_of(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [str(error) for error in WEBHOOK.validate_update(new, old, CONFIG)]


def test_the_template_gets_the_queue_and_the_priority_class() -> None:
    job = make(more={names.PRIORITY_CLASS: "high"})
    before = copy.deepcopy(job)
    template = WEBHOOK.default(job, Queues(), CONFIG).job["spec"]["template"]
    assert template["metadata"] == {
        "labels": {
            "app": "web",
            names.MANAGED: "true",
            names.QUEUE_NAME: "lq",
            names.PRIORITY_CLASS: "high",
        },
        "annotations": {names.POD_SUSPENDING_PARENT: "deployment"},
    }
    assert job == before


def test_stamping_twice_changes_nothing_and_a_new_queue_replaces_the_old_one() -> None:
    first = WEBHOOK.default(make(), Queues(), CONFIG).job
    assert WEBHOOK.default(first, Queues(), CONFIG).job == first
    first["metadata"]["labels"][names.QUEUE_NAME] = "other"
    labels = WEBHOOK.default(first, Queues(), CONFIG).job["spec"]["template"]["metadata"]["labels"]
    assert labels[names.QUEUE_NAME] == "other"


def test_a_deployment_without_a_queue_stays_as_it_is() -> None:
    job = make(queue="")
    assert WEBHOOK.default(job, Queues(), CONFIG).job == job


def test_the_queue_changes_only_while_no_pod_is_ready_and_is_never_removed() -> None:
    assert errors_of(make("other"), make()) == []
    assert QUEUE_PATH in errors_of(make("other", ready=1), make(ready=1))[0]
    for ready in (0, 1):
        refused = errors_of(make("", ready=ready), make(ready=ready))
        assert len(refused) == 1
        assert "field is immutable" in refused[0]


def test_a_priority_class_is_not_added_while_pods_are_ready() -> None:
    with_class = {names.PRIORITY_CLASS: "high"}
    assert errors_of(make(more=with_class), make()) == []
    assert "cannot be added" in errors_of(make(ready=2, more=with_class), make(ready=2))[0]


def test_malformed_queues_and_elastic_deployments_are_refused_but_prebuilt_names_are_not() -> None:
    bad = WEBHOOK.validate_create(make("Bad_Queue"), CONFIG)
    assert [error.path for error in bad] == [QUEUE_PATH]
    assert (
        WEBHOOK.validate_create(make(more={names.PREBUILT_WORKLOAD_NAME: "Not A Name"}), CONFIG)
        == []
    )
    gates = Configuration(feature_gates={"ElasticJobsViaWorkloadSlices": True})
    elastic = make()
    elastic["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    refused = [str(error) for error in WEBHOOK.validate_create(elastic, gates)]
    assert refused == [
        (
            "metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden: elastic job is not"
            ' supported for "apps/v1, Kind=Deployment"'
        )
    ]


def test_the_size_and_the_shape_of_a_deployment_may_change() -> None:
    new = make(ready=2)
    new["spec"]["replicas"] = 9
    new["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    assert errors_of(new, make(ready=2)) == []
