"""Provisioning where a manager is killed, a name is taken, a configuration or the kind is gone."""

from __future__ import annotations

from typing import Any

from multiqueue.api.conditions import ACTIVE
from multiqueue.api.crd.autoscaling import provisioning_request_crd
from multiqueue.api.workload_state import has_quota, is_admitted
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, Forbidden
from multiqueue.kube.resources import JOBS, POD_TEMPLATES
from tests.builders.workloads import NAMESPACE
from tests.integration.provisioning_steps import CHECK, ProvisioningWorld, owner_kinds, world
from tests.integration.waiting import condition, is_true, until
from tests.virtual_time import virtual_time

SILENT = {"sim-outcome": "Nothing"}


async def until_active(w: ProvisioningWorld, *, active: bool) -> str:
    """What the check says once it is, or is not, active."""
    check = await w.until_object(
        resources.ADMISSION_CHECKS,
        CHECK,
        lambda check: condition(check, ACTIVE).get("status") == str(active),
    )
    return str(condition(check, ACTIVE)["message"])


@virtual_time
async def test_the_answer_comes_while_no_manager_runs() -> None:
    async with world(parameters={"sim-delay-seconds": "60"}) as w:
        async with w.manager():
            await w.submit()
            await w.until_request("-prov-1", lambda r: is_true(r, "Accepted"))
        await w.until_request("-prov-1", lambda r: is_true(r, "Provisioned"))
        async with w.manager():
            await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))


@virtual_time
async def test_killed_between_the_request_and_its_templates() -> None:
    async with world(parameters=SILENT) as w:
        async with w.manager():
            await w.submit()
            request = await w.until_request("-prov-1")
            name = request["spec"]["podSets"][0]["podTemplateRef"]["name"]
            await w.until_object(
                POD_TEMPLATES, name, lambda t: owner_kinds(t) == ["ProvisioningRequest"]
            )
        workload = w.cluster.workload_of("train")
        assert workload is not None
        owner = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "name": workload.metadata.name,
            "uid": workload.metadata.uid,
            "controller": True,
        }
        await w.client.patch(
            POD_TEMPLATES,
            name,
            {"metadata": {"ownerReferences": [owner]}},
            namespace=NAMESPACE,
        )
        async with w.manager():
            await w.until_object(
                POD_TEMPLATES, name, lambda t: owner_kinds(t) == ["ProvisioningRequest"]
            )


@virtual_time
async def test_a_template_that_somebody_deletes_is_made_again() -> None:
    async with world(parameters=SILENT) as w, w.manager():
        await w.submit()
        (made,) = await until(
            w.client,
            POD_TEMPLATES,
            lambda found: (
                [owner_kinds(template) for template in found] == [["ProvisioningRequest"]]
            ),
        )
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        await w.client.delete(POD_TEMPLATES, name, namespace=NAMESPACE)
        again = await w.until_object(POD_TEMPLATES, name, lambda t: t["metadata"]["uid"] != uid)
        assert again["template"] == made["template"]


@virtual_time
async def test_a_request_that_somebody_deletes_is_made_again() -> None:
    async with world(parameters=SILENT) as w, w.manager():
        await w.submit()
        request = await w.until_request("-prov-1")
        uid = request["metadata"]["uid"]
        await w.client.delete(
            resources.PROVISIONING_REQUESTS, request["metadata"]["name"], namespace=NAMESPACE
        )
        await w.until_request("-prov-1", lambda r: r["metadata"]["uid"] != uid)


@virtual_time
async def test_an_edited_configuration_starts_again() -> None:
    async with world(parameters=SILENT) as w, w.manager():
        await w.submit()
        await w.until_request("-prov-1")
        edit: dict[str, Any] = {
            "spec": {"provisioningClassName": "other.class", "parameters": None}
        }
        await w.client.patch(resources.PROVISIONING_REQUEST_CONFIGS, "config", edit)
        await w.until_request(
            "-prov-1", lambda r: r["spec"]["provisioningClassName"] == "other.class"
        )
        await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))


@virtual_time
async def test_without_its_configuration_a_check_is_inactive_and_says_what_to_do() -> None:
    async with world(parameters=SILENT) as w, w.manager():
        assert await until_active(w, active=True) == "The admission check is active"
        await w.submit()
        await w.until_request("-prov-1")
        await w.client.delete(resources.PROVISIONING_REQUEST_CONFIGS, "config")
        words = await until_active(w, active=False)
        assert words == (
            'ProvisioningRequestConfig "config" not found; create it, or change '
            "spec.parameters.name"
        )
        check = await w.until_workload(
            lambda wl: (
                wl.status.admission_checks
                and wl.status.admission_checks[0].message == "the check is not active"
            ),
            "a word on it",
        )
        assert has_quota(check.status)
        assert await w.until_requests(lambda requests: not requests) == []


@virtual_time
async def test_a_running_job_keeps_its_request_without_the_configuration() -> None:
    async with world() as w, w.manager():
        pod = {"multiqueue.dev/sim-run-seconds": "120"}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        template = {
            "metadata": {"annotations": pod},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        await w.submit(template=template)
        await w.until_workload(lambda wl: is_admitted(wl.status), "admission")
        await w.client.delete(resources.PROVISIONING_REQUEST_CONFIGS, "config")
        await until_active(w, active=False)
        await w.until_object(JOBS, "train", lambda job: job["status"].get("active") == 1)
        assert len(await w.until_requests(bool)) == 1
        await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))
        assert await w.until_requests(lambda requests: not requests) == []


async def hold_name(w: ProvisioningWorld, owners: list[dict[str, Any]]) -> str:
    """Create a request under the name that the job's will have, before the job has quota."""
    hold: dict[str, Any] = {"spec": {"stopPolicy": "Hold"}}
    await w.client.patch(resources.LOCAL_QUEUES, "lq", hold, namespace=NAMESPACE)
    await w.submit()
    workload = await w.until_workload(lambda wl: wl.metadata.name, "a workload")
    name = f"{workload.metadata.name}-prov-1"
    for owner in owners:
        owner.setdefault("name", workload.metadata.name)
    foreign = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": owners},
        "spec": {
            "provisioningClassName": "x",
            "podSets": [{"podTemplateRef": {"name": "x"}, "count": 1}],
        },
    }
    await w.client.create(resources.PROVISIONING_REQUESTS, foreign)
    resume = {"spec": {"stopPolicy": "None"}}
    await w.client.patch(resources.LOCAL_QUEUES, "lq", resume, namespace=NAMESPACE)
    return name


@virtual_time
async def test_a_name_that_is_taken_is_told_and_tried_again() -> None:
    async with world() as w, w.manager():
        name = await hold_name(w, [])
        told = await w.until_workload(
            lambda wl: wl.status.admission_checks and wl.status.admission_checks[0].message,
            "a word on it",
        )
        assert told.status.admission_checks[0].message == (
            f'Error creating ProvisioningRequest "{name}": it exists and is not owned by this '
            "Workload; delete it"
        )
        await until(
            w.client,
            resources.EVENTS,
            lambda events: any(e["reason"] == "FailedCreate" for e in events),
            seconds=60,
        )
        await w.client.delete(resources.PROVISIONING_REQUESTS, name, namespace=NAMESPACE)
        await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))


@virtual_time
async def test_a_template_of_somebody_else_is_left_alone() -> None:
    async with world() as w, w.manager():
        await w.client.patch(
            resources.LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "Hold"}}, namespace=NAMESPACE
        )
        await w.submit()
        workload = await w.until_workload(lambda wl: wl.metadata.name, "a workload")
        name = f"ppt-{workload.metadata.name}-prov-1-main"
        foreign = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "template": {"spec": {"containers": [{"name": "c", "image": "mine"}]}},
        }
        stored = await w.client.create(POD_TEMPLATES, foreign)
        await w.client.patch(
            resources.LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "None"}}, namespace=NAMESPACE
        )
        told = await w.until_workload(
            lambda wl: wl.status.admission_checks and wl.status.admission_checks[0].message,
            "a word on it",
        )
        words = f'PodTemplate "{name}" exists and is not ours; delete it'
        assert words in told.status.admission_checks[0].message
        assert await w.client.get(POD_TEMPLATES, name, namespace=NAMESPACE) == stored


class Forgetful(KubeClient):
    """Creates requests, and then does not hear the answer: the second attempt finds them."""

    async def create(self, resource: Any, obj: Any, **options: Any) -> Any:
        answer = await super().create(resource, obj, **options)
        if resource.plural == "provisioningrequests":
            raise AlreadyExists(409, reason="AlreadyExists", message="it exists")
        return answer


@virtual_time
async def test_its_own_request_that_it_has_not_seen_yet_is_kept() -> None:
    async with (
        world(parameters=SILENT) as w,
        w.cluster.manager(clock=w.clock, client_type=Forgetful),
    ):
        await w.submit()
        await until(
            w.client,
            POD_TEMPLATES,
            lambda found: (
                [owner_kinds(template) for template in found] == [["ProvisioningRequest"]]
            ),
        )
        request = await w.until_request("-prov-1")
        (template,) = (await w.client.list(POD_TEMPLATES)).items
        owner = template["metadata"]["ownerReferences"][0]
        assert owner["uid"] == request["metadata"]["uid"]


@virtual_time
async def test_a_check_that_leaves_the_queue_takes_its_requests_along() -> None:
    async with world(parameters=SILENT) as w, w.manager():
        await w.submit()
        await w.until_request("-prov-1")
        without: dict[str, Any] = {"spec": {"admissionChecksStrategy": None}}
        await w.client.patch(resources.CLUSTER_QUEUES, "cq", without)
        await w.until_workload(lambda wl: is_admitted(wl.status), "admission")
        assert await w.until_requests(lambda requests: not requests) == []


@virtual_time
async def test_what_an_earlier_workload_of_the_name_left_is_replaced() -> None:
    async with world() as w, w.manager():
        # Its owner's uid is unknown: the garbage collector would take it, but not at once.
        await hold_name(w, [{"apiVersion": "v9", "kind": "Workload", "uid": "gone"}])
        await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))


@virtual_time
async def test_a_template_that_an_earlier_workload_left_is_replaced() -> None:
    async with world() as w, w.manager():
        stop, go = ({"spec": {"stopPolicy": policy}} for policy in ("Hold", "None"))
        await w.client.patch(resources.LOCAL_QUEUES, "lq", stop, namespace=NAMESPACE)
        await w.submit()
        workload = await w.until_workload(lambda wl: wl.metadata.name, "a workload")
        request = f"{workload.metadata.name}-prov-1"
        # Of a version that nobody serves, so that the garbage collector leaves it alone.
        owner = {"apiVersion": "v9", "kind": "ProvisioningRequest", "name": request, "uid": "gone"}
        left = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                "name": f"ppt-{request}-main",
                "namespace": NAMESPACE,
                "ownerReferences": [owner],
            },
            "template": {"spec": {"containers": [{"name": "c", "image": "old"}]}},
        }
        await w.client.create(POD_TEMPLATES, left)
        await w.client.patch(resources.LOCAL_QUEUES, "lq", go, namespace=NAMESPACE)
        await w.until_object(JOBS, "train", lambda job: is_true(job, "Complete"))


@virtual_time
async def test_where_the_kind_is_not_served_the_check_says_so_until_it_is() -> None:
    async with world(crds=(), simulate=False) as w, w.manager():
        words = await until_active(w, active=False)
        assert words.startswith("the cluster serves ProvisioningRequest of autoscaling.x-k8s.io")
        await w.client.create(resources.CRDS, provisioning_request_crd())
        await until_active(w, active=True)
        await w.submit()
        await w.until_request("-prov-1")


class Restricted(KubeClient):
    """May not read PodTemplates."""

    def pages(self, resource: Any, **options: Any) -> Any:
        if resource.plural == "podtemplates":
            raise Forbidden(403, reason="Forbidden", message="podtemplates is forbidden")
        return super().pages(resource, **options)


@virtual_time
async def test_what_the_manager_may_not_watch_is_told_on_the_check() -> None:
    async with (
        world(parameters=SILENT) as w,
        w.cluster.manager(clock=w.clock, client_type=Restricted),
    ):
        words = await until_active(w, active=False)
    assert words.startswith("cannot watch podtemplates: ")
    assert "podtemplates is forbidden" in words


@virtual_time
async def test_a_cluster_that_serves_the_older_version_only() -> None:
    crd = provisioning_request_crd()
    (old,) = (v for v in crd["spec"]["versions"] if v["name"] == "v1beta1")
    crd["spec"]["versions"] = [{**old, "storage": True}]
    async with world(crds=[crd], simulate=False) as w, w.manager():
        await w.submit()
        workload = await w.until_workload(lambda wl: has_quota(wl.status), "quota")
        found = await until(
            w.client,
            resources.Resource(
                group="autoscaling.x-k8s.io",
                version="v1beta1",
                plural="provisioningrequests",
                kind="ProvisioningRequest",
                namespaced=True,
            ),
            bool,
            seconds=60,
        )
    assert found[0]["metadata"]["name"] == f"{workload.metadata.name}-prov-1"
