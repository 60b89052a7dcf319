"""What a reader of the dashboard can change: by the rights of the reader, and as it was shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import orjson
import pytest

from multiqueue.api.conversion.convert import converters
from multiqueue.api.crd import load_crds
from multiqueue.dashboard.gateway import Gateway
from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.server import ApiServer, ServerOptions
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    WORKLOADS,
)
from multiqueue.runtime.manifests import create_missing
from tests.builders.queues import make_gpu_queue, make_local_queue
from tests.least_privilege import kubeconfig_of

TEAM = "team"
WORKER = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "MultiKueueCluster",
    "metadata": {"name": "w1"},
    "spec": {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
}
OBJECTS = (
    {"kind": "clusterqueues", "name": "cq"},
    {"kind": "localqueues", "namespace": TEAM, "name": "lq"},
    {"kind": "workloads", "namespace": TEAM, "name": "train"},
    {"kind": "multikueueclusters", "name": "w1"},
)
CQ, LQ, TRAIN, W1 = OBJECTS
Json = dict[str, Any]


@dataclass(slots=True)
class Page:
    """The dashboard of one user, in a browser that opened the printed address."""

    browser: aiohttp.ClientSession
    base: str
    action: str

    async def see(self, target: Json, **more: str) -> tuple[int, Json]:
        async with self.browser.get(f"{self.base}/actions.json", params={**target, **more}) as got:
            return got.status, await got.json()

    async def verbs(self, target: Json) -> list[str]:
        status, told = await self.see(target)
        assert status == 200
        return [each["verb"] for each in told["actions"]]

    async def act(
        self, target: Json, verb: str, seen: Json | None = None, choice: str = ""
    ) -> tuple[int, Json]:
        """Take an action on an object as it was seen; by default as it is now."""
        if seen is None:
            _, seen = await self.see(target)
        known = {"uid": seen.get("uid"), "state": seen.get("state"), "choice": choice}
        body = {**target, "verb": verb, **known}
        headers = {"Origin": self.base, "X-Multiqueue-Action": self.action}
        path = f"{self.base}/actions.json"
        async with self.browser.post(path, json=body, headers=headers) as got:
            return got.status, await got.json()


def make_role(name: str, *rules: tuple[str, list[str]], group: str = "kueue.x-k8s.io") -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": verbs}
            for resource, verbs in rules
        ],
    }


def bind(role: str, user: str, namespace: str = "") -> Json:
    group = "rbac.authorization.k8s.io"
    metadata = {"name": f"{role}-{user}", **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
    }


ALL = ["get", "list", "watch", "patch", "delete"]
KINDS = [target["kind"] for target in OBJECTS]
RIGHTS = [
    make_role("operate", *((kind, ALL) for kind in KINDS)),
    make_role("patch-unwatched", ("workloads", ["get", "patch"])),
    make_role("look", *((kind, ["get", "list"]) for kind in KINDS)),
    make_role("queues-only", ("clusterqueues", ["get", "patch"])),
    make_role("run-jobs", ("jobs", ALL), group="batch"),
    make_role("choose", ("workloadpriorityclasses", ["list"])),
    bind("run-jobs", "lead", TEAM),
    bind("run-jobs", "operator"),
    bind("choose", "operator"),
    bind("operate", "operator"),
    bind("operate", "lead", TEAM),
    bind("look", "viewer"),
    bind("patch-unwatched", "patcher"),
    bind("queues-only", "clerk"),
]


@dataclass(slots=True)
class ActionWorld:
    """A cluster without a manager, an administrator's client, and a page for each user."""

    client: KubeClient
    pages: dict[str, Page]

    async def spec(self, target: Json) -> Json:
        resource = {each.plural: each for each in (CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS)}
        found = await self.client.get(
            resource[target["kind"]], target["name"], namespace=target.get("namespace")
        )
        spec: Json = found["spec"]
        return spec


@asynccontextmanager
async def action_world(*users: str) -> AsyncIterator[ActionWorld]:
    tokens = {user: ApiUser(user, ("system:authenticated",)) for user in users}
    options = ServerOptions(crds=load_crds(), converters=converters(), tls=False, tokens=tokens)
    async with ApiServer(options) as server, AsyncExitStack() as stack:

        async def connect(kubeconfig: Json) -> KubeClient:
            credentials = await Credentials.from_kubeconfig_dict(kubeconfig)
            return await stack.enter_async_context(KubeClient(credentials))

        admin = await connect(server.kubeconfig())
        await make_objects(admin)
        pages = {}
        for user in users:
            client = await connect(kubeconfig_of(server.kubeconfig(), user))
            gateway = await stack.enter_async_context(Gateway(client, {}))
            jar = aiohttp.CookieJar(unsafe=True)
            browser = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
            base = gateway.address.partition("/?")[0]
            async with browser.get(gateway.address) as opened:
                assert opened.status == 200
            async with browser.get(f"{base}/about.json") as about:
                pages[user] = Page(browser, base, (await about.json())["action"])
        yield ActionWorld(admin, pages)


def make_class(name: str, value: int) -> Json:
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}


CLASSES = (make_class("low", 10), make_class("high", 1000))


async def make_waiting_job(client: KubeClient) -> Json:
    """A Job with a Workload that waits; no manager watches them."""
    pods = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    job: Json = {"metadata": {"name": "job"}, "spec": {"template": {"spec": pods}}}
    made = await client.create(JOBS, job, namespace=TEAM)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": made["metadata"]["uid"]}
    workload = {
        "metadata": {"name": "job-wl", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pods}}],
        },
    }
    await client.create(WORKLOADS, workload, namespace=TEAM)
    return {"kind": "workloads", "namespace": TEAM, "name": "job-wl"}


async def make_objects(client: KubeClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    queue = make_local_queue("lq", cluster_queue="cq")
    queue["metadata"]["namespace"] = TEAM
    pods = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": TEAM},
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": 3, "template": {"spec": pods}}],
        },
    }
    queues = (make_gpu_queue(8, name="cq"), queue)
    await create_missing(client, [namespace, *queues, workload, WORKER, *CLASSES, *RIGHTS])
    since = (datetime.now(UTC) - timedelta(minutes=12)).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "r",
            "message": "",
            "lastTransitionTime": since,
        }
        for kind in ("QuotaReserved", "Admitted")
    ]
    assignment = {
        "name": "main",
        "count": 3,
        "flavors": {"nvidia.com/gpu": "gpu"},
        "resourceUsage": {"nvidia.com/gpu": "6"},
    }
    admission = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    status = {"conditions": conditions, "admission": admission, "clusterName": "w1"}
    patch = {"status": status}
    await client.patch(WORKLOADS, "train", patch, namespace=TEAM, subresource="status")


async def test_buttons_are_those_that_the_readers_rights_allow() -> None:
    users = ("operator", "lead", "viewer", "clerk", "nobody")
    async with action_world(*users) as world:
        got = {
            user: [await world.pages[user].verbs(target) for target in OBJECTS] for user in users
        }
        hold = ["hold", "stop"]
        assert got == {
            "operator": [hold, hold, ["stop", "evict", "cancel"], ["cordon", "drain"]],
            "lead": [[], hold, ["stop", "evict", "cancel"], []],
            "viewer": [[], [], [], []],
            "clerk": [hold, [], [], []],
            "nobody": [[]] * 4,
        }
        viewer = world.pages["viewer"]
        for target, verb in ((CQ, "hold"), (LQ, "stop"), (TRAIN, "stop"), (W1, "cordon")):
            status, told = await viewer.act(target, verb)
            assert (status, told["reason"]) == (403, "Forbidden")
            assert 'cannot patch resource "' in told["message"]
        assert (await world.spec(CQ)).get("stopPolicy", "None") == "None"
        assert (await world.spec(TRAIN))["active"] is True


async def test_an_action_does_what_the_command_does_in_the_name_of_the_page() -> None:
    async with action_world("operator") as world:
        page = world.pages["operator"]
        for target in (CQ, LQ):
            for verb, policy in (("hold", "Hold"), ("stop", "HoldAndDrain"), ("resume", "None")):
                assert await page.act(target, verb) == (200, {"state": policy})
                assert (await world.spec(target))["stopPolicy"] == policy
        assert await page.act(TRAIN, "stop") == (200, {"state": "stopped"})
        assert (await world.spec(TRAIN))["active"] is False
        assert await page.verbs(TRAIN) == ["resume", "evict", "cancel"]
        assert await page.act(TRAIN, "resume") == (200, {"state": "active"})
        assert await page.act(W1, "cordon") == (200, {"state": "cordoned"})
        assert await page.verbs(W1) == ["uncordon", "drain"]
        worker = await world.client.get(MULTIKUEUE_CLUSTERS, "w1")
        assert worker["metadata"]["annotations"] == {"multiqueue.dev/cordon": "true"}
        managers = {each["manager"] for each in worker["metadata"]["managedFields"]}
        assert "multiqueue-dashboard" in managers
        assert await page.act(W1, "drain") == (200, {"state": "draining"})
        worker = await world.client.get(MULTIKUEUE_CLUSTERS, "w1")
        assert worker["metadata"]["annotations"]["multiqueue.dev/drain"] == "true"
        assert await page.verbs(W1) == ["uncordon"], "a drain is a cordon too"
        assert await page.act(W1, "uncordon") == (200, {"state": "in use"})
        worker = await world.client.get(MULTIKUEUE_CLUSTERS, "w1")
        assert not worker["metadata"].get("annotations")


async def test_the_question_says_what_is_lost_as_far_as_the_reader_may_know() -> None:
    async with action_world("operator", "clerk") as world:
        asked = [(each, "stop") for each in (CQ, LQ, TRAIN)]
        for target, verb in (*asked, (TRAIN, "evict"), (TRAIN, "cancel")):
            _, told = await world.pages["operator"].see(target, verb=verb)
            before, _, after = told["words"].partition("stopped; ")
            assert before.endswith("Now: 1 job with 3 pods on 6 devices is ")
            lost, _, rest = after.partition(" ")
            assert 1.2 <= float(lost) <= 1.25
            assert rest == "GPU-hours are lost, but for what the jobs saved."
            assert "plan" not in told
        _, told = await world.pages["clerk"].see(CQ, verb="stop")
        assert "How many that are is not known: workloads.kueue.x-k8s.io is" in told["words"]
        _, told = await world.pages["clerk"].see(CQ, verb="hold")
        assert told["words"].endswith("Those that run go on.")


async def test_the_question_before_a_drain_tells_the_fate_of_each_job() -> None:
    async with action_world("operator", "clerk", "viewer") as world:
        _, told = await world.pages["operator"].see(W1, verb="drain")
        assert told["whatIf"] == "drain w1"
        (fate,) = told["plan"]["workloads"]
        assert (fate["workload"], fate["fate"], fate["then"]) == ("team/train", "Stays", "stays")
        assert fate["why"] == "no other cluster is configured for it"
        assert fate["lostGpuHours"] == 0, "its pods ask for no GPU"
        assert "1 would stay until somebody acts" in told["words"]
        assert told["plan"]["more"] == 0
        _, told = await world.pages["clerk"].see(W1, verb="drain")
        assert told["reason"] == "Forbidden", "who may not read the worker has no question"
        code, told = await world.pages["viewer"].see(W1, verb="drain")
        assert code == 403
        assert "is only for those who may write what it changes" in told["message"]
        assert (await world.pages["operator"].act(W1, "drain"))[0] == 200
        code, told = await world.pages["operator"].see(W1, verb="drain")
        assert code == 409
        assert told["message"].endswith('"Drain" does nothing to it now: it is "draining"')


async def test_of_two_who_decide_at_once_the_second_is_told() -> None:
    async with action_world("operator", "clerk") as world:
        operator, clerk = world.pages["operator"], world.pages["clerk"]
        _, seen = await clerk.see(CQ, verb="hold")
        # A changed status is no reason to refuse.
        status = {"status": {"pendingWorkloads": 7}}
        await world.client.patch(CLUSTER_QUEUES, "cq", status, subresource="status")
        assert (await operator.act(CQ, "stop"))[0] == 200
        code, told = await clerk.act(CQ, "hold", seen)
        assert code == 409
        assert told["message"] == (
            'ClusterQueue "cq" has changed meanwhile: it was "None" and is "HoldAndDrain" now'
        )
        assert (await world.spec(CQ))["stopPolicy"] == "HoldAndDrain"
        code, told = await clerk.act(CQ, "resume", {**seen, "uid": "another"})
        assert (code, "made again" in told["message"]) == (409, True)


async def test_an_action_survives_statuses_that_change_under_it() -> None:
    async with action_world("operator") as world:
        writing = True

        async def write() -> None:
            number = 0
            while writing:
                number += 1
                status = {"status": {"pendingWorkloads": number}}
                await world.client.patch(CLUSTER_QUEUES, "cq", status, subresource="status")
                await asyncio.sleep(0.05)

        task = asyncio.create_task(write())
        codes = [
            (await world.pages["operator"].act(CQ, verb))[0]
            for verb in ("hold", "resume", "hold", "resume")
        ]
        writing = False
        await task
        assert codes == [200] * 4


async def test_what_is_not_in_the_table_is_refused_by_name() -> None:
    async with action_world("operator") as world:
        page = world.pages["operator"]
        for target, verb, words in (
            ({"kind": "secrets", "namespace": TEAM, "name": "s"}, "stop", "kind: choose from"),
            (CQ, "delete", "verb: choose from resume, hold, stop for clusterqueues"),
            ({"kind": "workloads", "name": "train"}, "stop", "namespace is required"),
            ({**CQ, "namespace": TEAM}, "stop", "namespace must be left out"),
            ({"kind": "clusterqueues", "name": ""}, "stop", "name is required"),
        ):
            code, told = await page.act(target, verb, {})
            assert code == 400
            assert words in told["message"]
        for name in ("cq/status", "../../api/v1/secrets", "%2e%2e"):
            code, told = await page.act({**CQ, "name": name}, "hold", {})
            assert code == 404, told
        assert await page.verbs({**CQ, "name": "other"}) == []
        assert (await page.see({**CQ, "name": "other"}, verb="hold"))[0] == 404


async def test_a_class_is_set_on_the_job_which_its_workload_follows() -> None:
    async with action_world("operator", "lead") as world:
        job = await make_waiting_job(world.client)
        page = world.pages["operator"]
        assert await page.verbs(job) == ["stop", "priority", "cancel"]
        _, told = await page.see(job, verb="priority")
        classes = [{"name": "high", "value": 1000}, {"name": "low", "value": 10}]
        assert told["choices"] == classes
        assert told["words"].endswith("Now: priority 0.")
        assert await page.act(job, "priority", choice="high") == (200, {"state": "active"})
        changed = await world.client.get(JOBS, "job", namespace=TEAM)
        assert changed["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
        code, told = await page.act(job, "priority", choice="highest")
        assert (code, told["message"]) == (400, "choice: choose from high, low")
        code, told = await world.pages["lead"].act(job, "priority", choice="high")
        assert (code, "cannot list resource" in told["message"]) == (403, True)
        # A Workload with quota and without a class takes none, so nothing is offered.
        code, told = await page.act(TRAIN, "priority", choice="high")
        assert (code, '"Priority" does nothing to it now' in told["message"]) == (409, True)


async def test_a_job_is_cancelled_by_deleting_it_and_a_workload_without_one_itself() -> None:
    async with action_world("operator", "viewer") as world:
        job = await make_waiting_job(world.client)
        page = world.pages["operator"]
        code, told = await world.pages["viewer"].act(job, "cancel")
        assert (code, 'cannot delete resource "jobs"' in told["message"]) == (403, True)
        assert await page.act(job, "cancel") == (200, {"state": "gone"})
        with pytest.raises(NotFound):
            await world.client.get(JOBS, "job", namespace=TEAM)
        assert await page.act(TRAIN, "cancel") == (200, {"state": "gone"})
        assert await page.verbs(TRAIN) == []


async def test_an_evicted_job_is_resumed_once_a_manager_evicts_it() -> None:
    async with action_world("operator") as world:
        train = await world.client.get(WORKLOADS, "train", namespace=TEAM)
        version = train["metadata"]["resourceVersion"]
        asked = asyncio.create_task(world.pages["operator"].act(TRAIN, "evict"))
        changes = world.client.watch(WORKLOADS, namespace=TEAM, resource_version=version)
        async with aclosing(changes):
            train = orjson.loads((await anext(changes)).raw)
        assert train["spec"]["active"] is False
        assert not asked.done()
        evicted = {**train["status"]["conditions"][0], "type": "Evicted"}
        status = {"conditions": [*train["status"]["conditions"], evicted]}
        patch = {"status": status}
        await world.client.patch(WORKLOADS, "train", patch, namespace=TEAM, subresource="status")
        assert await asked == (200, {"state": "active"})
        assert (await world.spec(TRAIN))["active"] is True


async def test_an_evicted_job_is_resumed_though_the_reader_has_left() -> None:
    async with action_world("operator") as world:
        train = await world.client.get(WORKLOADS, "train", namespace=TEAM)
        version = train["metadata"]["resourceVersion"]
        asked = asyncio.create_task(world.pages["operator"].act(TRAIN, "evict"))
        changes = world.client.watch(WORKLOADS, namespace=TEAM, resource_version=version)
        async with aclosing(changes), asyncio.timeout(20):
            assert orjson.loads((await anext(changes)).raw)["spec"]["active"] is False
            asked.cancel()
            await asyncio.wait({asked})
            assert orjson.loads((await anext(changes)).raw)["spec"]["active"] is True


async def test_an_eviction_that_may_not_be_watched_is_refused_after_the_job_is_resumed() -> None:
    async with action_world("patcher") as world:
        code, told = await world.pages["patcher"].act(TRAIN, "evict")
        assert (code, 'cannot watch resource "workloads"' in told["message"]) == (403, True), told
        assert (await world.spec(TRAIN))["active"] is True


async def test_a_job_that_no_manager_evicts_runs_on() -> None:
    async with action_world("operator") as world:
        code, told = await world.pages["operator"].act(TRAIN, "evict")
        assert (code, "no manager acts" in told["message"]) == (409, True)
        assert (await world.spec(TRAIN))["active"] is True
