"""The way of a job whose queue asks an autoscaler for capacity, with a simulated one."""

from __future__ import annotations

from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Configuration, Gate
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_checks import find_check
from multiqueue.api.workload_state import eviction_reason, find, has_quota, is_admitted, is_finished
from multiqueue.kube import resources
from multiqueue.kube.resources import JOBS, POD_TEMPLATES, PODS
from tests.builders.queues import make_check, make_flavor
from tests.builders.workloads import NAMESPACE
from tests.integration.provisioning_steps import CHECK, owner_kinds, world
from tests.integration.waiting import is_true, until
from tests.virtual_time import virtual_time

FOREVER = {"multiqueue.dev/sim-run-seconds": "forever"}
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME = "autoscaling.x-k8s.io/provisioning-class-name"


def template(**annotations: str) -> dict[str, object]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"annotations": {**FOREVER, **annotations}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


@virtual_time
async def test_pods_start_on_the_capacity_that_was_asked_for() -> None:
    slow = {"sim-delay-seconds": "300"}
    async with world(parameters=slow, gpu="a100", nodes=()) as w, w.manager():
        begun = w.clock.now()
        await w.submit(parallelism=2, completions=2)
        request = await w.until_request("-prov-1", lambda r: is_true(r, "Accepted"))
        waiting = await w.until_workload(lambda wl: has_quota(wl.status), "quota")
        assert not is_admitted(waiting.status)
        (pods,) = request["spec"]["podSets"]
        assert pods["count"] == 2
        made = await w.until_object(
            POD_TEMPLATES,
            pods["podTemplateRef"]["name"],
            lambda t: owner_kinds(t) == ["ProvisioningRequest"],
        )
        assert made["template"]["spec"]["nodeSelector"] == {"gpu": "a100"}
        eta = await w.until_workload(
            lambda workload: "expected at" in workload.status.admission_checks[0].message, "an ETA"
        )
        assert eta.status.admission_checks[0].state == "Pending"
        await until(
            w.client,
            resources.EVENTS,
            lambda events: any(
                e["reason"] == "UpdatedAdmissionCheck"
                and e["involvedObject"]["kind"] == "Job"
                and e["message"].startswith("prov: Waiting for capacity, expected at")
                for e in events
            ),
            seconds=60,
        )
        await w.until_workload(lambda workload: is_admitted(workload.status), "admission")
        found = await until(w.client, PODS, lambda pods: len(pods) == 2, seconds=60)
        for pod in found:
            annotations = pod["metadata"]["annotations"]
            assert annotations[CONSUME] == request["metadata"]["name"]
            assert annotations[CLASS_NAME] == request["spec"]["provisioningClassName"]
        assert 299 <= (w.clock.now() - begun).total_seconds() <= 310


@virtual_time
async def test_new_nodes_are_found_by_the_details_of_the_class() -> None:
    selector = {
        "key": "multiqueue.dev/sim-node-group",
        "valueFromProvisioningClassDetail": "NodeGroup",
    }
    parameters = {"sim-nodes": "1xcpu", "sim-delay-seconds": "60"}
    async with (
        world(parameters=parameters, podSetUpdates={"nodeSelector": [selector]}, nodes=()) as w,
        w.manager(),
    ):
        await w.submit()
        job = await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))
        group = job["spec"]["template"]["spec"]["nodeSelector"][selector["key"]]
        assert "-prov-1-" in group
        assert await w.until_requests(lambda requests: not requests) == []
        assert await until(w.client, resources.NODES, lambda n: not n, seconds=60) == []
        assert await until(w.client, POD_TEMPLATES, lambda t: not t, seconds=60) == []
        reasons = await w.reasons()
    assert reasons.count("ProvisioningRequestCreated") == 1
    assert reasons.count("AdmissionCheckUpdated") == 1


@virtual_time
async def test_a_failure_is_tried_again_after_the_pause() -> None:
    retry = {"backoffBaseSeconds": 100, "backoffLimitCount": 3}
    parameters = {"sim-failures": "2", "sim-delay-seconds": "1"}
    async with world(parameters=parameters, retryStrategy=retry) as w, w.manager():
        await w.submit()
        first = await w.until_workload(lambda wl: wl.status.requeue_state, "a first pause")
        evicted = find(first.status, WorkloadCondition.EVICTED)
        assert evicted is not None
        assert evicted.reason == "AdmissionCheck"
        assert 'prov" (Retrying after failure: No capacity for attempt 1' in evicted.message
        second = await w.until_request("-prov-2")
        third = await w.until_request("-prov-3")
        created = [parse_time(o["metadata"]["creationTimestamp"]) for o in (second, third)]
        assert created[0] is not None
        assert created[1] is not None
        pause = (created[1] - created[0]).total_seconds()
        assert 200 <= pause <= 210
        workload = await w.until_workload(lambda wl: is_admitted(wl.status), "admission")
        check = find_check(workload.status, CHECK)
        assert check is not None
        assert (check.state, check.retry_count) == ("Ready", 2)
        await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))


@virtual_time
async def test_past_the_limit_the_job_is_given_up() -> None:
    retry = {"backoffBaseSeconds": 1, "backoffLimitCount": 1}
    async with (
        world(parameters={"sim-outcome": "Failed"}, retryStrategy=retry) as w,
        w.manager(),
    ):
        await w.submit()
        given_up = await w.until_workload(
            lambda wl: not wl.spec.active and not has_quota(wl.status), "a deactivation"
        )
        assert eviction_reason(given_up.status) == "DeactivatedDueToAdmissionCheck"
        evicted = find(given_up.status, WorkloadCondition.EVICTED)
        assert evicted is not None
        assert "No capacity for attempt 2 (simulated)" in evicted.message
        assert await w.until_requests(lambda requests: not requests) == []
        await until(
            w.client,
            resources.EVENTS,
            lambda events: any(e["reason"] == "AdmissionCheckRejected" for e in events),
            seconds=60,
        )
        assert (await w.client.get(JOBS, "train", namespace=NAMESPACE))["spec"]["suspend"]


@virtual_time
async def test_a_booking_that_expires_before_the_admission_is_made_again() -> None:
    parameters = {"sim-delay-seconds": "1"}
    retry = {"backoffBaseSeconds": 30}
    async with world(
        parameters=parameters, retryStrategy=retry, checks=(CHECK, "check"), simulate=True
    ) as w:
        await w.client.create(resources.ADMISSION_CHECKS, make_check())
        active = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "ok",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await w.client.patch(
            resources.ADMISSION_CHECKS,
            "check",
            {"status": {"conditions": [active]}},
            subresource="status",
        )
        async with w.manager():
            await w.submit()
            await w.until_check("Ready")
            await w.annotate(await w.until_request("-prov-1"), "BookingExpired")
            evicted = await w.until_workload(lambda wl: not has_quota(wl.status), "an eviction")
            condition = find(evicted.status, WorkloadCondition.EVICTED)
            assert condition is not None
            assert "Retrying after booking expired" in condition.message
            await w.until_request("-prov-2")
            check = await w.until_check("Ready")
            assert check.retry_count == 1


@virtual_time
async def test_a_booking_may_expire_once_the_pods_run() -> None:
    async with world() as w, w.manager():
        await w.submit(template=template())
        await w.until_workload(lambda wl: is_admitted(wl.status), "admission")
        request = await w.until_request("-prov-1")
        await w.annotate(request, "BookingExpired")
        await w.until_request("-prov-1", lambda r: is_true(r, "BookingExpired"))
        # A change that comes after it is seen after it.
        await w.submit("other", template=template())
        await w.until_workload(lambda wl: is_admitted(wl.status), "admission", job="other")
        workload = w.cluster.workload_of("train")
        assert workload is not None
        assert is_admitted(workload.status)


@virtual_time
async def test_revoked_capacity_stops_the_job() -> None:
    async with world() as w, w.manager():
        await w.submit(template=template())
        await until(
            w.client,
            PODS,
            lambda pods: bool(pods) and bool(pods[0]["spec"].get("nodeName")),
            seconds=60,
        )
        await w.annotate(await w.until_request("-prov-1"), "CapacityRevoked")
        stopped = await w.until_workload(
            lambda wl: not wl.spec.active and not has_quota(wl.status), "a deactivation"
        )
        evicted = find(stopped.status, WorkloadCondition.EVICTED)
        assert evicted is not None
        assert "The capacity was taken away" in evicted.message
        assert (await w.client.get(JOBS, "train", namespace=NAMESPACE))["spec"]["suspend"]
        assert await until(w.client, PODS, lambda pods: not pods, seconds=60) == []
        assert await w.until_requests(lambda requests: not requests) == []


@virtual_time
async def test_requests_are_kept_over_evictions_with_the_gate_off() -> None:
    gates = {str(Gate.CLEANUP_PROVISIONING_REQUESTS_ON_EVICTION): False}
    config = Configuration(namespace="kueue-system", feature_gates=gates)
    parameters = {"sim-failures": "1", "sim-delay-seconds": "1"}
    retry = {"backoffBaseSeconds": 100}
    async with world(parameters=parameters, retryStrategy=retry) as w, w.manager(config):
        await w.submit()
        await w.until_workload(lambda wl: wl.status.requeue_state, "the pause")
        await w.until_request("-prov-1", lambda r: is_true(r, "Failed"))
        await w.until_request("-prov-2")
        await w.until_requests(lambda requests: len(requests) == 1)
        await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))


@virtual_time
async def test_after_a_stop_of_the_queue_capacity_is_asked_for_anew() -> None:
    async with world() as w, w.manager():
        await w.submit(template=template())
        await w.until_workload(lambda wl: is_admitted(wl.status), "admission")
        before = await w.until_request("-prov-1")
        stop = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await w.client.patch(resources.CLUSTER_QUEUES, "cq", stop)
        await w.until_workload(lambda wl: not has_quota(wl.status), "an eviction")
        assert await w.until_requests(lambda requests: not requests) == []
        await w.client.patch(resources.CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await w.until_workload(lambda wl: is_admitted(wl.status), "admission")
        after = await w.until_request("-prov-1")
        name = after["spec"]["podSets"][0]["podTemplateRef"]["name"]
        uid = after["metadata"]["uid"]
        assert uid != before["metadata"]["uid"]
        await w.until_object(
            POD_TEMPLATES, name, lambda t: t["metadata"]["ownerReferences"][0]["uid"] == uid
        )


@virtual_time
async def test_what_needs_no_managed_resource_is_admitted_at_once() -> None:
    async with world(managedResources=["nvidia.com/gpu"]) as w, w.manager():
        await w.submit()
        workload = await w.until_workload(lambda wl: is_admitted(wl.status), "admission")
        check = find_check(workload.status, CHECK)
        assert check is not None
        assert check.message == "the provisioning request is not needed"
        assert (await w.client.list(resources.PROVISIONING_REQUESTS)).items == []


@virtual_time
async def test_updates_that_contradict_the_template_end_the_job_for_good() -> None:
    async with world() as w, w.manager():
        await w.submit(template=template(**{CLASS_NAME: "of-the-user"}))
        workload = await w.until_workload(lambda wl: is_finished(wl.status), "the end")
        finished = find(workload.status, WorkloadCondition.FINISHED)
        assert finished is not None
        assert finished.reason == "FailedToStart"
        assert "of-the-user" in finished.message
        assert await w.until_requests(lambda requests: not requests) == []


@virtual_time
async def test_only_the_flavor_that_has_the_check_is_provisioned() -> None:
    async with world() as w, w.manager():
        await w.client.create(resources.RESOURCE_FLAVORS, make_flavor("spot"))
        quotas = [
            {"name": name, "resources": [{"name": "cpu", "nominalQuota": quota}]}
            for name, quota in (("default", "1"), ("spot", "9"))
        ]
        spec = {
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
            "admissionChecksStrategy": {
                "admissionChecks": [{"name": CHECK, "onFlavors": ["spot"]}]
            },
        }
        await w.client.patch(resources.CLUSTER_QUEUES, "cq", {"spec": spec})
        await w.submit("reserved", template=template())
        reserved = await w.until_workload(
            lambda wl: is_admitted(wl.status), "admission", job="reserved"
        )
        assert reserved.status.admission_checks == ()
        await w.submit("spot", template=template())
        spot = await w.until_workload(lambda wl: is_admitted(wl.status), "admission", job="spot")
        assert [check.state for check in spot.status.admission_checks] == ["Ready"]
        (request,) = await w.until_requests(bool)
        assert request["metadata"]["name"] == f"{spot.metadata.name}-prov-1"
