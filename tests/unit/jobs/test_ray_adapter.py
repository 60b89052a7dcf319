"""What of a Ray job is on its worker, and what comes back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.ray.multikueue import RayClusterAdapter, RayJobAdapter, RayServiceAdapter
from multiqueue.lib.merge_patch import apply_merge_patch
from tests.unit.jobs.test_ray import CLUSTER, ELASTIC, JOB, SERVICE, cluster, group, ray_job, spec

CLUSTERS, JOBS, SERVICES = (
    RayClusterAdapter(CLUSTER),
    RayJobAdapter(JOB),
    RayServiceAdapter(SERVICE),
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DELEGATED = {"managedBy": names.MULTIKUEUE_CONTROLLER}


def copied(adapter: Any, job: Job) -> Job:
    remote: Job = adapter.remote_job(job, workload_name="one", origin="o")
    return remote


def service(**fields: Any) -> Job:
    return {
        "metadata": {"name": "s", "namespace": "ns"},
        "spec": {"rayClusterConfig": spec(), **DELEGATED, **fields},
    }


def test_a_copy_is_suspended_and_its_own_cluster_runs_it() -> None:
    """rayjob-20, J-147, J-364."""
    remote = copied(JOBS, ray_job(suspend=False, ttlSecondsAfterFinished=5, **DELEGATED))
    assert remote["spec"]["suspend"] is True
    assert remote["spec"].keys() == {"suspend", "rayClusterSpec"}
    remote = copied(SERVICES, service())
    assert remote["spec"] == {"rayClusterConfig": {**spec(), "suspend": True}}


def test_an_elastic_cluster_does_not_scale_itself_there() -> None:
    scaling = cluster(annotations=ELASTIC, enableInTreeAutoscaling=True)
    assert "enableInTreeAutoscaling" not in copied(CLUSTERS, scaling)["spec"]
    assert copied(CLUSTERS, cluster(rayVersion="2"))["spec"]["rayVersion"] == "2"


@pytest.mark.parametrize(("adapter", "job"), [(JOBS, ray_job()), (SERVICES, service())])
def test_other_elastic_kinds_are_refused_with_what_to_do(adapter: Any, job: Job) -> None:
    job["spec"] |= DELEGATED
    assert adapter.refusal(job) is None
    refusal = adapter.refusal({**job, "metadata": {**job["metadata"], "annotations": ELASTIC}})
    assert "cannot run on a worker; create it again without the annotation" in refusal


class TestResize:
    """M-162."""

    LOCAL = cluster(group("a", replicas=3, numOfHosts=2), group("b", replicas=1))

    def remote(self, name: str, *groups: dict[str, Any]) -> Job:
        annotations = {names.PREBUILT_WORKLOAD_NAME: name}
        return cluster(*groups, annotations=annotations)

    def resized(self, remote: Job, **pods: int) -> Any:
        return CLUSTERS.resize_patch(self.LOCAL, remote, workload_name="two", pods=pods)

    def test_groups_by_name(self) -> None:
        there = (group("b", replicas=4), group("a", replicas=1, template={"on": "worker"}))
        patch = self.resized(self.remote("one", *there), head=1, a=6, b=1)
        assert patch["metadata"]["annotations"] == {names.PREBUILT_WORKLOAD_NAME: "two"}
        assert patch["spec"]["workerGroupSpecs"] == [
            {**there[0], "replicas": 1},
            {**there[1], "replicas": 3, "numOfHosts": 2},
        ]

    def test_the_name_alone_while_the_cluster_has_another_size(self) -> None:
        patch = self.resized(self.remote("one", group("a", replicas=1)), head=1, a=2, b=1)
        assert patch.keys() == {"metadata"}

    def test_nothing(self) -> None:
        remote = self.remote("two", *self.LOCAL["spec"]["workerGroupSpecs"])
        assert self.resized(remote, head=1, a=6, b=1) is None


def test_a_service_forwards_its_applications() -> None:
    """M-145."""
    local = service(serveConfigV2="new")
    assert SERVICES.spec_patch(local, service(serveConfigV2="old")) == {
        "spec": {"serveConfigV2": "new"}
    }
    assert SERVICES.spec_patch(local, service(serveConfigV2="new")) is None
    assert CLUSTERS.spec_patch(cluster(rayVersion="2"), cluster()) is None


@pytest.mark.parametrize("success", [True, False])
def test_a_job_that_is_gone_has_an_end(success: bool) -> None:
    end = Finished(success=success, message="gone")
    patch = JOBS.final_patch(ray_job(), end, NOW)
    assert patch is not None
    ended = apply_merge_patch(ray_job(), patch)
    assert JOB.finished(ended) == end
    assert JOBS.final_patch(ended, Finished(success=True, message=""), NOW) is None


@pytest.mark.parametrize(
    ("adapter", "status"),
    [
        (CLUSTERS, {"state": "ready"}),
        (JOBS, {"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}}),
        (SERVICES, {"conditions": [{"type": "Ready", "status": "True"}]}),
    ],
)
def test_a_job_that_was_taken_back_runs_nowhere(adapter: Any, status: Any) -> None:
    job = {**ray_job(), "status": status}
    patch = adapter.stopped_patch(job)
    stopped = apply_merge_patch(job, patch)
    assert not adapter.kind.is_active(stopped)
    assert not adapter.kind.pods_ready(stopped)
    assert adapter.stopped_patch(stopped) is None
