"""RayClusters, RayJobs and RayServices: their pod sets, their states, and their size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job, PodSetInfo
from multiqueue.jobs.framework.related import add_related, related_keys
from multiqueue.jobs.ray.cluster import RAY_CLUSTERS
from multiqueue.jobs.ray.integration import RayCluster, RayJob, RayService
from multiqueue.kube.resources import Resource
from multiqueue.lib.merge_patch import apply_merge_patch
from tests.job_kinds import ROWS

CLUSTER = RayCluster(ROWS["ray.io/raycluster"])
JOB = RayJob(ROWS["ray.io/rayjob"])
SERVICE = RayService(ROWS["ray.io/rayservice"])
ELASTIC = {names.ELASTIC_JOB: "true"}


def template(name: str, **requests: str) -> dict[str, Any]:
    container = {"name": name, "image": f"{name}:1", "resources": {"requests": requests}}
    return {"spec": {"containers": [container]}}


def group(name: str, **fields: Any) -> dict[str, Any]:
    return {"groupName": name, "template": template("worker", cpu="1"), **fields}


def spec(*groups: dict[str, Any], **fields: Any) -> dict[str, Any]:
    head = {"template": template("head", cpu="1", memory="1Gi")}
    return {"headGroupSpec": head, "workerGroupSpecs": list(groups), **fields}


def cluster(*groups: dict[str, Any], annotations: Any = None, **fields: Any) -> Job:
    metadata = {"name": "c", "namespace": "ns", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": spec(*groups, **fields)}


def ray_job(annotations: Any = None, cluster_spec: Any = None, **fields: Any) -> Job:
    metadata = {"name": "j", "namespace": "ns", "annotations": annotations or {}}
    own = cluster_spec or spec(group("workers", replicas=2))
    return {"metadata": metadata, "spec": {"suspend": True, "rayClusterSpec": own, **fields}}


def counts(kind: Any, job: Job) -> dict[str, int]:
    return {pod_set.name: pod_set.count for pod_set in kind.pod_sets(job)}


def containers(kind: Any, job: Job, name: str = "head") -> Mapping[str, Any]:
    (found,) = (pod_set for pod_set in kind.pod_sets(job) if pod_set.name == name)
    return {c["name"]: c["resources"] for c in found.template["spec"]["containers"]}


class TestPodSets:
    def test_a_head_and_groups_of_workers(self) -> None:
        """raycluster-1, J-316, J-319."""
        job = cluster(group("w1", replicas=2), group("W2", replicas=1, numOfHosts=4))
        assert counts(CLUSTER, job) == {"head": 1, "w1": 2, "w2": 4}

    @pytest.mark.parametrize(
        ("fields", "want"),
        [
            pytest.param({}, 1, id="one without a number"),
            pytest.param({"replicas": 0, "minReplicas": 2}, 2, id="at least the minimum"),
            pytest.param({"replicas": 9, "maxReplicas": 3}, 3, id="at most the maximum"),
            pytest.param({"replicas": 3, "suspend": True}, 0, id="none while suspended"),
            pytest.param({"replicas": 0, "minReplicas": 0}, 0, id="none"),
            pytest.param({"replicas": 2, "numOfHosts": 0}, 2, id="at least one host"),
        ],
    )
    def test_a_group_counts_as_it_runs(self, fields: Any, want: int) -> None:
        """raycluster-2..4, J-320."""
        assert counts(CLUSTER, cluster(group("w", **fields)))["w"] == want

    def test_negative_numbers_are_refused_by_name(self) -> None:
        with pytest.raises(InvalidJobError, match='worker group "w": -1 replicas'):
            CLUSTER.pod_sets(cluster(group("w", replicas=-1, minReplicas=0)))

    def test_the_autoscaler_is_part_of_the_head(self) -> None:
        """raycluster-6, raycluster-7, J-317."""
        job = cluster(enableInTreeAutoscaling=True)
        assert containers(CLUSTER, job)["autoscaler"] == {
            "requests": {"cpu": "500m", "memory": "512Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        }
        asked = {"requests": {"cpu": "1"}}
        job["spec"]["autoscalerOptions"] = {"resources": asked}
        assert containers(CLUSTER, job)["autoscaler"] == asked

    @pytest.mark.parametrize(
        ("has", "want"),
        [
            pytest.param({"requests": {"cpu": "100m"}}, ("200m", "256Mi"), id="raised"),
            pytest.param({"requests": {"cpu": "2", "memory": "1Gi"}}, ("2", "1Gi"), id="kept"),
            pytest.param({"limits": {"cpu": "2"}}, (None, "256Mi"), id="limits are requests"),
        ],
    )
    def test_the_head_can_be_replaced_by_the_clean_up_of_redis(self, has: Any, want: Any) -> None:
        """raycluster-8, J-318."""
        job = cluster(gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
        job["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"] = has
        requests = containers(CLUSTER, job)["head"].get("requests", {})
        assert (requests.get("cpu"), requests.get("memory")) == want

    def test_an_annotation_turns_fault_tolerance_on(self) -> None:
        job = cluster(annotations={"ray.io/ft-enabled": "true"})
        job["spec"]["headGroupSpec"]["template"] = template("head", cpu="1m")
        assert containers(CLUSTER, job)["head"]["requests"] == {"cpu": "200m", "memory": "256Mi"}

    def test_a_start_writes_none_of_that(self) -> None:
        """J-323."""
        job = cluster(enableInTreeAutoscaling=True, suspend=True)
        patch = CLUSTER.start_patch(job, [PodSetInfo(name="head", count=1, labels={"a": "b"})])
        started = apply_merge_patch(job, patch.patch)
        written = started["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
        assert [each["name"] for each in written] == ["head"]

    def test_a_head_without_containers_is_refused(self) -> None:
        """J-353; the index by priority class must not fail."""
        job = cluster()
        job["spec"]["headGroupSpec"]["template"]["spec"]["containers"] = []
        with pytest.raises(InvalidJobError, match="the template of the head has no container"):
            CLUSTER.pod_sets(job)
        assert CLUSTER.priority_class(job) == ""


class TestSubmitter:
    INFOS = tuple(
        PodSetInfo(name=name, count=1, node_selector={"zone": "a"})
        for name in ("head", "workers", "submitter")
    )

    def test_a_pod_of_its_own(self) -> None:
        """rayjob-1, J-349."""
        assert counts(JOB, ray_job()) == {"head": 1, "workers": 2, "submitter": 1}
        (submitter,) = (p for p in JOB.pod_sets(ray_job()) if p.name == "submitter")
        (container,) = submitter.template["spec"]["containers"]
        assert (container["name"], container["image"]) == ("ray-job-submitter", "head:1")
        assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}

    def test_the_users_template(self) -> None:
        """rayjob-2."""
        job = ray_job(submitterPodTemplate=template("mine", cpu="3"))
        assert containers(JOB, job, "submitter") == {"mine": {"requests": {"cpu": "3"}}}

    def test_a_container_of_the_head(self) -> None:
        """rayjob-3, J-350."""
        job = ray_job(submissionMode="SidecarMode")
        assert counts(JOB, job) == {"head": 1, "workers": 2}
        assert list(containers(JOB, job)) == ["head", "ray-job-submitter"]

    @pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
    def test_nothing(self, mode: str) -> None:
        """rayjob-4."""
        job = ray_job(submissionMode=mode)
        assert counts(JOB, job) == {"head": 1, "workers": 2}
        assert list(containers(JOB, job)) == ["head"]

    def test_a_default_template_is_written_for_the_run_only(self) -> None:
        """rayjob-5, J-351: afterwards the job is as its user wrote it."""
        job = ray_job()
        pod_sets = JOB.pod_sets(job)
        started = apply_merge_patch(job, JOB.start_patch(job, self.INFOS).patch)
        written = started["spec"]["submitterPodTemplate"]
        assert written["spec"]["nodeSelector"] == {"zone": "a"}
        assert written["spec"]["containers"][0]["name"] == "ray-job-submitter"
        stop = JOB.stop_patch(started, pod_sets)
        assert stop is not None
        assert apply_merge_patch(started, stop.patch) == job

    def test_the_users_template_stays(self) -> None:
        job = ray_job(submitterPodTemplate=template("mine", cpu="3"))
        started = apply_merge_patch(job, JOB.start_patch(job, self.INFOS).patch)
        stop = JOB.stop_patch(started, JOB.pod_sets(job))
        assert stop is not None
        assert apply_merge_patch(started, stop.patch) == job


class TestStates:
    @pytest.mark.parametrize(
        ("status", "active", "ended"),
        [
            ("", False, None),
            ("Suspended", False, None),
            ("Suspending", True, None),
            ("Retrying", True, None),
            ("Running", True, None),
            ("Complete", True, True),
            ("Failed", True, False),
        ],
    )
    def test_of_a_job(self, status: str, active: bool, ended: bool | None) -> None:
        """J-354, J-356."""
        job = ray_job()
        result = "SUCCEEDED" if ended else "FAILED"
        job["status"] = {"jobDeploymentStatus": status, "jobStatus": result, "message": "m"}
        assert JOB.is_active(job) is active
        want = None if ended is None else Finished(success=ended, message="m")
        assert JOB.finished(job) == want

    def test_a_complete_job_whose_application_failed_has_failed(self) -> None:
        """rayjob-14."""
        job = {**ray_job(), "status": {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}}
        assert JOB.finished(job) == Finished(success=False, message="")

    def test_a_refused_job_is_on_hold(self) -> None:
        """J-357."""
        assert JOB.on_hold({**ray_job(), "status": {"jobDeploymentStatus": "ValidationFailed"}})
        assert not JOB.on_hold(ray_job())

    def test_the_time_to_live_is_that_of_the_cluster(self) -> None:
        """The API server sets 0 if the user sets nothing: the RayJob itself stays."""
        job = ray_job(ttlSecondsAfterFinished=0, managedBy=names.MULTIKUEUE_CONTROLLER)
        ended = {**job, "status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}
        assert JOB.time_to_live(ended) is None

    def test_a_job_on_a_given_cluster_is_left_alone(self) -> None:
        """J-347."""
        assert JOB.is_skipped({**ray_job(), "spec": {"clusterSelector": {"ray.io/cluster": "x"}}})
        assert not JOB.is_skipped(ray_job())

    def test_of_a_service(self) -> None:
        """J-366, J-368."""
        ready = {"type": "Ready", "status": "True"}
        service: Job = {
            "metadata": {"name": "s"},
            "spec": {"rayClusterConfig": spec()},
            "status": {"conditions": [ready]},
        }
        assert SERVICE.is_active(service)
        assert SERVICE.finished(service) is None
        assert not SERVICE.is_skipped(service)
        service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert not SERVICE.is_skipped(service)
        service["spec"]["rayClusterConfig"]["gcsFaultToleranceOptions"] = {}
        assert SERVICE.is_skipped(service)


class TestElastic:
    def live(self, *groups: dict[str, Any]) -> Any:
        child = {"metadata": {"name": "j-rc", "generation": 7}, "spec": spec(*groups)}

        def find(resource: Resource, namespace: str, name: str) -> Job | None:
            is_child = (resource, namespace, name) == (RAY_CLUSTERS, "ns", "j-rc")
            return child if is_child else None

        return find

    def scaling(self) -> Job:
        own = spec(group("workers", replicas=2), enableInTreeAutoscaling=True)
        job = ray_job(annotations=ELASTIC, cluster_spec=own, submissionMode="HTTPMode")
        return {**job, "status": {"rayClusterName": "j-rc"}}

    def test_a_job_has_the_size_of_its_cluster(self) -> None:
        """rayjob-17, J-324, J-325."""
        find = self.live(group("workers", replicas=5, numOfHosts=2, maxReplicas=9))
        job = add_related(JOB, self.scaling(), find)
        assert counts(JOB, job) == {"head": 1, "workers": 10}
        assert JOB.own_annotations(job) == {names.RAY_CLUSTER_GENERATION: "7"}
        assert related_keys(JOB, job) == ("ray.io/RayCluster/ns/j-rc",)

    def test_without_a_cluster_it_has_its_own_size(self) -> None:
        job = add_related(JOB, self.scaling(), lambda *_: None)
        assert counts(JOB, job) == {"head": 1, "workers": 2}
        assert JOB.own_annotations(job) == {names.RAY_CLUSTER_GENERATION: ""}

    def test_a_cluster_that_does_not_scale_itself_has_the_size_of_the_job(self) -> None:
        job = self.scaling()
        del job["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"]
        job = add_related(JOB, job, self.live(group("workers", replicas=5)))
        assert counts(JOB, job)["workers"] == 2

    def test_a_group_that_the_job_does_not_have_is_refused_by_name(self) -> None:
        """rayjob-18."""
        job = add_related(JOB, self.scaling(), self.live(group("extra", replicas=1)))
        with pytest.raises(InvalidJobError, match='RayCluster "j-rc" has the worker group "extra"'):
            JOB.pod_sets(job)

    def test_other_jobs_have_neither_annotation_nor_cluster(self) -> None:
        job = {**ray_job(), "status": {"rayClusterName": "j-rc"}}
        assert JOB.own_annotations(job) == {}
        assert related_keys(JOB, job) == ()

    def test_a_cluster_is_elastic_if_all_of_its_pods_wait_for_slices(self) -> None:
        """J-340."""
        job = cluster(group("w", replicas=1), annotations=ELASTIC)
        assert not CLUSTER.is_elastic(job)
        gated = CLUSTER.gated(job)
        assert CLUSTER.is_elastic(gated)
        assert CLUSTER.gated(gated) == gated
        assert not CLUSTER.is_elastic({**gated, "metadata": {"name": "c"}})
