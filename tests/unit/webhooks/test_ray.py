"""What the webhooks of the Ray kinds set and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.config import Configuration, load_configuration
from multiqueue.jobs.framework.kind_webhook import KindWebhook
from multiqueue.jobs.setup import load_kind
from tests.job_kinds import ROWS
from tests.unit.jobs.test_ray import ELASTIC, Job, group, spec
from tests.unit.webhooks.lookups import Queues

CONFIG = Configuration()
UNGATED = load_configuration("featureGates: {ElasticJobsViaWorkloadSlices: false}")
CLUSTER, JOB, SERVICE = (
    load_kind(ROWS[f"ray.io/{kind}"]).webhook for kind in ("raycluster", "rayjob", "rayservice")
)
FIELD = {CLUSTER: "spec", JOB: "spec.rayClusterSpec", SERVICE: "spec.rayClusterConfig"}
GATE = {"name": names.ELASTIC_GATE}
every_kind = pytest.mark.parametrize("webhook", [CLUSTER, JOB, SERVICE], ids=FIELD.values())


def make(webhook: KindWebhook, own: Any, *, annotations: Any = None, queue: str = "q") -> Job:
    """An object of the webhook's kind with this cluster."""
    metadata: dict[str, Any] = {"name": "j", "namespace": "n", "annotations": annotations or {}}
    metadata["labels"] = {names.QUEUE_NAME: queue} if queue else {}
    if webhook is CLUSTER:
        return {"metadata": metadata, "spec": own}
    field = FIELD[webhook].removeprefix("spec.")
    return {"metadata": metadata, "spec": {field: own, "shutdownAfterJobFinishes": True}}


def errors(webhook: KindWebhook, job: Job, config: Configuration = CONFIG) -> list[str]:
    return [str(error) for error in webhook.validate_create(job, config)]


def groups(count: int) -> list[dict[str, Any]]:
    return [group(f"w{number}", replicas=1) for number in range(count)]


@every_kind
def test_a_queued_cluster_is_suspended(webhook: KindWebhook) -> None:
    job = webhook.default(make(webhook, spec()), Queues(), CONFIG).job
    suspended = (
        job["spec"].get("rayClusterConfig", job["spec"]) if webhook is SERVICE else job["spec"]
    )
    assert suspended["suspend"] is True


@every_kind
def test_clusters_without_a_queue_are_not_checked(webhook: KindWebhook) -> None:
    job = make(webhook, spec(group("head"), enableInTreeAutoscaling=True), queue="")
    assert errors(webhook, job) == []


@every_kind
def test_names_of_pod_sets_are_unique(webhook: KindWebhook) -> None:
    """raycluster-10, raycluster-11, J-328, J-329."""
    at = f"{FIELD[webhook]}.workerGroupSpecs"
    job = make(webhook, spec(group("Head"), group("a"), group("A")))
    assert errors(webhook, job) == [
        f'{at}[0].groupName: Forbidden: "Head" is reserved for the head group',
        f'{at}[2].groupName: Duplicate value: "A"',
    ]


@every_kind
def test_a_head_needs_a_container(webhook: KindWebhook) -> None:
    """rayjob-19, J-353."""
    own = spec()
    own["headGroupSpec"]["template"]["spec"]["containers"] = []
    path = f"{FIELD[webhook]}.headGroupSpec.template.spec.containers"
    assert errors(webhook, make(webhook, own)) == [f"{path}: Required value: add a container"]


@pytest.mark.parametrize(("webhook", "most"), [(CLUSTER, 17), (JOB, 16), (SERVICE, 17)])
def test_the_number_of_pod_sets_is_limited(webhook: KindWebhook, most: int) -> None:
    """raycluster-9, rayjob-11, J-327, J-360."""
    assert errors(webhook, make(webhook, spec(*groups(most)))) == []
    path = f"{FIELD[webhook]}.workerGroupSpecs"
    (error,) = errors(webhook, make(webhook, spec(*groups(most + 1))))
    assert error == f"{path}: Too many: 19: must have at most 18 items"


@every_kind
def test_only_elastic_clusters_scale_themselves(webhook: KindWebhook) -> None:
    """raycluster-5, rayjob-12, J-339, J-359."""
    own = spec(group("w"), enableInTreeAutoscaling=True)
    (error,) = errors(webhook, make(webhook, own))
    assert error.startswith(
        f"{FIELD[webhook]}.enableInTreeAutoscaling: Invalid value: true: a kueue"
    )
    elastic = webhook.default(make(webhook, own, annotations=ELASTIC), Queues(), CONFIG).job
    assert errors(webhook, elastic) == []
    assert errors(webhook, make(webhook, own, annotations=ELASTIC), UNGATED) == [error]


@pytest.mark.parametrize(("webhook", "gated"), [(CLUSTER, True), (JOB, False), (SERVICE, True)])
def test_pods_of_elastic_clusters_are_gated(webhook: KindWebhook, *, gated: bool) -> None:
    """raycluster-6, rayservice-10, J-340, J-361."""
    job = webhook.default(
        make(webhook, spec(group("w")), annotations=ELASTIC), Queues(), CONFIG
    ).job
    own = job["spec"].get("rayClusterConfig", job["spec"].get("rayClusterSpec", job["spec"]))
    templates = [own["headGroupSpec"]["template"], own["workerGroupSpecs"][0]["template"]]
    found = [each["spec"].get("schedulingGates", []) for each in templates]
    assert found == ([[GATE], [GATE]] if gated else [[], []])


def test_a_group_added_to_an_elastic_cluster_needs_the_gate() -> None:
    """J-340."""
    job = CLUSTER.default(make(CLUSTER, spec(), annotations=ELASTIC), Queues(), CONFIG).job
    grown = {**job, "spec": {**job["spec"], "workerGroupSpecs": [group("w", replicas=1)]}}
    (error,) = (str(each) for each in CLUSTER.validate_update(grown, job, CONFIG))
    assert error.startswith("spec.workerGroupSpecs[0].template.spec.schedulingGates: Invalid")


def test_an_elastic_cluster_on_workers_does_not_scale_itself() -> None:
    """raycluster-18, J-342."""
    own = spec(enableInTreeAutoscaling=True, managedBy=names.MULTIKUEUE_CONTROLLER)
    job = CLUSTER.default(make(CLUSTER, own, annotations=ELASTIC), Queues(), CONFIG).job
    (error,) = errors(CLUSTER, job)
    assert error.startswith("spec.enableInTreeAutoscaling: Forbidden: in-tree autoscaling is not")


def test_the_queue_of_a_running_cluster_stays() -> None:
    """raycluster-20, J-61."""
    job = make(CLUSTER, spec())
    for queue in ("other", ""):
        assert CLUSTER.validate_update(make(CLUSTER, spec(), queue=queue), job, CONFIG)


class TestRayJob:
    """J-347, J-358."""

    def job(self, **fields: Any) -> Job:
        job = make(JOB, spec())
        return {**job, "spec": {"shutdownAfterJobFinishes": True, **fields}}

    def test_one_on_a_given_cluster_is_left_alone(self) -> None:
        """rayjob-6."""
        job = self.job(clusterSelector={"ray.io/cluster": "x"}, shutdownAfterJobFinishes=False)
        assert JOB.default(job, Queues(), CONFIG).job == job
        assert errors(JOB, job) == []

    def test_one_with_both_is_refused(self) -> None:
        """rayjob-7."""
        job = self.job(clusterSelector={"a": "b"}, rayClusterSpec=spec())
        assert errors(JOB, job) == [
            (
                'spec.clusterSelector: Invalid value: {"a":"b"}: '
                "a kueue managed job should not use an existing cluster"
            )
        ]

    def test_one_without_a_cluster_is_refused(self) -> None:
        """rayjob-8."""
        assert errors(JOB, self.job()) == [
            (
                "spec.rayClusterSpec: Required value: "
                "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
            )
        ]

    def test_the_cluster_must_end_with_the_job(self) -> None:
        """rayjob-9."""
        assert errors(JOB, self.job(rayClusterSpec=spec(), shutdownAfterJobFinishes=False)) == [
            (
                "spec.shutdownAfterJobFinishes: Invalid value: false: "
                "a kueue managed job should delete the cluster after finishing"
            )
        ]


def test_the_cluster_of_an_elastic_job_is_gated_but_not_suspended() -> None:
    """raycluster-19, J-47, J-361: it follows its job; its new pods wait for a larger slice."""
    child = make(CLUSTER, spec(group("w")), annotations=ELASTIC)
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "controller": True}
    child["metadata"]["ownerReferences"] = [owner]
    managed = Queues(children=frozenset({"j"}))
    job = CLUSTER.default(child, managed, CONFIG).job
    assert "suspend" not in job["spec"]
    assert job["spec"]["workerGroupSpecs"][0]["template"]["spec"]["schedulingGates"] == [GATE]
    assert errors(CLUSTER, job) == []
    fixed = {**child, "metadata": {**child["metadata"], "annotations": {}}}
    assert CLUSTER.default(fixed, managed, CONFIG).job == fixed
