"""Pods, logs and events of jobs on workers: what is served, to whom, and what never is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from multiqueue.api.names import MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD_NAME
from multiqueue.kube import resources
from multiqueue.kube.errors import ApiError
from multiqueue.kube.resources import EVENTS, PODS
from multiqueue.runtime.manifests import apply_all
from multiqueue.visibility.streams import StreamPatience
from tests.builders.workloads import NAMESPACE
from tests.remote_world import REMOTE, RemoteWorld, remote_world, run_pod

ROLES = "rbac.authorization.k8s.io/v1"
OWN = {
    "apiGroups": ["remote.multiqueue.dev"],
    "resources": ["workloads/pods", "workloads/log", "workloads/events"],
    "verbs": ["get"],
}
CORE = {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list"]}


@pytest.fixture
async def remote() -> AsyncIterator[RemoteWorld]:
    async with remote_world() as remote:
        yield remote


async def grant(remote: RemoteWorld, user: str, *rules: Any, namespace: str = NAMESPACE) -> None:
    """Give a user rights in a namespace of the manager."""
    metadata = {"name": user, "namespace": namespace}
    role = {"apiVersion": ROLES, "kind": "Role", "metadata": metadata, "rules": list(rules)}
    reference = {"apiGroup": ROLES.partition("/")[0], "kind": "Role", "name": user}
    subject = {"apiGroup": ROLES.partition("/")[0], "kind": "User", "name": user}
    binding = {
        "apiVersion": ROLES,
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [subject],
    }
    await apply_all(remote.hub.client, [role, binding])


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


def make_event(uid: str, reason: str, **about: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": reason.lower(), "namespace": NAMESPACE},
        "involvedObject": {"uid": uid, "namespace": NAMESPACE, **about},
        "reason": reason,
        "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:01Z",
    }


@asynccontextmanager
async def watch(
    remote: RemoteWorld, workload: str, what: str, query: str = "watch=1"
) -> AsyncIterator[aiohttp.StreamReader]:
    """Follow something while the block runs."""
    credentials = remote.hub.client.credentials
    path = f"{REMOTE}/namespaces/{NAMESPACE}/workloads/{workload}/{what}?{query}"
    headers = {"Authorization": await credentials.authorization() or ""}
    async with (
        aiohttp.ClientSession() as session,
        session.get(credentials.server + path, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        yield answer.content


async def test_what_a_job_has_on_its_worker_is_served() -> None:
    """With the rights of our manifests, here and there; and followed."""
    async with remote_world() as remote:
        workload = await remote.place()
        worker = remote.world.workers["worker1"]
        await remote.run_pod()
        (pod,) = await remote.ask("pods", workload)
        assert pod["metadata"]["name"] == "train-a"
        assert pod["metadata"]["annotations"] == {"multiqueue.dev/cluster": "worker1"}
        log = await remote.ask("log", workload, pod="train-a", tailLines="1")
        assert log == "command: of the image; nothing is executed\n"

        await worker.create(EVENTS, make_event(pod["metadata"]["uid"], "Pulled", kind="Pod"))
        await worker.create(EVENTS, make_event("other", "Foreign", kind="Pod"))
        copy = remote.world.copy("worker1")
        assert copy is not None
        await worker.create(EVENTS, make_event(copy.metadata.uid, "Told", kind="Workload"))
        assert names(await remote.ask("events", workload)) == ["pulled", "told"]

        async with watch(remote, workload, "pods") as content:
            frames = [json.loads(await content.readline())]
            await remote.run_pod(name="train-b")
            while len(frames) < 3:
                frames.append(json.loads(await content.readline()))
        assert [frame["object"]["metadata"]["name"] for frame in frames][1:] == ["train-b"] * 2

        async with watch(remote, workload, "events") as content:
            for _ in range(2):
                await content.readline()
            uid = (await worker.client.get(PODS, "train-b", namespace=NAMESPACE))["metadata"]["uid"]
            await worker.create(EVENTS, make_event("other", "Foreign2", kind="Pod", name="x"))
            await remote.run_pod(name="train-c")
            late = await worker.client.get(PODS, "train-c", namespace=NAMESPACE)
            told = make_event(late["metadata"]["uid"], "Late", kind="Pod", name="train-c")
            await worker.create(EVENTS, make_event(uid, "Known", kind="Pod", name="train-b"))
            await worker.create(EVENTS, told)
            lines = [json.loads(await content.readline()) for _ in range(2)]
        assert [line["object"]["reason"] for line in lines] == ["Known", "Late"]


async def test_a_followed_log_ends_with_its_container_or_its_reader(remote: RemoteWorld) -> None:
    workload = await remote.place()
    await remote.run_pod()
    answers = remote.service.server.remote
    assert answers is not None
    async with watch(remote, workload, "log", "pod=train-a&follow=true") as content:
        await content.readline()
        assert answers.streams.under_way == 1
    async with asyncio.timeout(10):
        while answers.streams.under_way:  # the reader has left: so does the manager
            await remote.get(REMOTE)
    async with watch(remote, workload, "log", "pod=train-a&follow=true") as content:
        first = [await content.readline() for _ in range(2)]
        await remote.end_pod()
        rest = await content.read()
    assert first[0].startswith(b'simulated container "c" started')
    assert rest == b"finished with exit code 0\n"


async def test_a_worker_that_falls_silent_cuts_the_stream(remote: RemoteWorld) -> None:
    answers = remote.service.server.remote
    assert answers is not None
    answers.patience = StreamPatience(silence=0.05, ping=0.1)
    workload = await remote.place()
    await remote.run_pod()
    async with watch(remote, workload, "log", "pod=train-a&follow=true") as content:
        await content.readline()
        remote.world.gates["worker1"].hang()
        with pytest.raises(aiohttp.ClientError):
            await content.read()
    remote.world.gates["worker1"].heal()


async def test_two_rights_on_the_manager_are_needed_in_the_namespace_of_the_job(
    remote: RemoteWorld,
) -> None:
    workload = await remote.place()
    await remote.run_pod()
    await grant(remote, "ann", OWN)
    await grant(remote, "bob", CORE)
    await grant(remote, "eve", OWN, CORE, namespace="kueue-system")
    await grant(remote, "joe", OWN, CORE)
    own, core = 'workloads/log" in API group "remote', 'get resource "pods/log" in API group ""'
    for user, missing in (("nobody", own), ("ann", core), ("bob", own), ("eve", own)):
        status, message = await remote.ask("log", workload, user=user, pod="train-a")
        assert (status, missing in message) == (403, True), (user, message)
        assert (await remote.ask("pods", workload, user=user))[0] == 403
        assert (await remote.ask("events", workload, user=user))[0] == 403
    assert names(await remote.ask("pods", workload, user="joe")) == ["train-a"]
    assert "simulated" in await remote.ask("log", workload, user="joe", pod="train-a")


async def test_pods_of_others_are_never_given_and_missing_rights_are_named(
    remote: RemoteWorld,
) -> None:
    workload = await remote.place()
    worker = remote.world.workers["worker1"]
    job = worker.job("train")
    assert job is not None
    uid = job["metadata"]["uid"]
    await run_pod(worker, "train-x", "another-uid")
    claims = {"labels": {"batch.kubernetes.io/controller-uid": uid}, "ownerReferences": []}
    await run_pod(worker, "train-y", uid, **claims)
    assert await remote.ask("pods", workload) == []
    for name in ("train-x", "train-y"):
        status, message = await remote.ask("log", workload, pod=name)
        assert (status, f'no pod "{name}"' in message) == (404, True)

    for role in ("pods", "job-kinds"):  # the other one is for jobs that are pods
        binding = f"clusterrolebindings/multikueue-manager-{role}-rolebinding"
        await worker.client.request("DELETE", f"/apis/{ROLES}/{binding}")
    status, message = await remote.ask("pods", workload)
    assert status == 403
    assert 'cluster "worker1" does not let the manager read pods' in message
    assert 'cannot list resource "pods"' in message
    assert "config/worker-role-pods" in message


ANOTHER = {PREBUILT_WORKLOAD_NAME: "another"}


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param({"labels": {MULTIKUEUE_ORIGIN: "others"}}, id="of somebody else"),
        pytest.param({"labels": ANOTHER, "annotations": ANOTHER}, id="of another workload"),
    ],
)
async def test_a_job_of_that_name_that_is_no_copy_of_ours_is_not_looked_into(
    remote: RemoteWorld, marks: dict[str, dict[str, str]]
) -> None:
    workload = await remote.place()
    worker = remote.world.workers["worker1"]
    remote.world.gates["worker1"].hang()  # the manager does not see this
    await worker.patch(resources.JOBS, "train", {"metadata": marks}, namespace=NAMESPACE)
    await remote.run_pod()
    remote.world.gates["worker1"].heal()
    status, message = await remote.ask("log", workload, pod="train-a")
    assert status in {404, 409}, message


async def test_paths_and_names_of_other_things_lead_nowhere(remote: RemoteWorld) -> None:
    workload = await remote.place()
    await remote.run_pod()
    for pod in ("../secrets/token", "train-a/../../x", "a b", "%2e%2e", ".."):
        status, _ = await remote.ask("log", workload, pod=pod)
        assert status == 404, pod
    assert (await remote.ask("log", workload))[0] == 400
    where = f"{REMOTE}/namespaces/{NAMESPACE}"
    for path in (
        f"{where}/workloads/{workload}/log/x?pod=train-a",
        f"{where}/workloads/{workload}/explanation/x",
        f"{REMOTE}/workloads/{workload}/explanation",
        f"{where}/workloads/{workload}/exec",
        f"{where}/workloads/{workload}",
        f"{where}/workloads/nope/pods",
        f"{where}/workloads",
        f"{where}/pods/train-a/log",
        f"{REMOTE}/workloads/{workload}/pods",
    ):
        assert (await remote.get(path))[0] == 404, path
    with pytest.raises(ApiError, match="405"):
        await remote.hub.client.request("DELETE", f"{where}/workloads/{workload}/log")
    status, message = await remote.ask("pods", workload, cluster="worker2")
    assert (status, message) == (409, f'Workload "{NAMESPACE}/{workload}" is on cluster "worker1"')
    _, text = await remote.get(REMOTE)
    found = {each["name"] for each in json.loads(text)["resources"]}
    below = ("pods", "log", "events", "dispatch", "explanation")
    assert found == {
        "workloads",
        *(f"workloads/{name}" for name in below),
        "dispatchreviews",
        "dispatchdecisions",
    }
    _, text = await remote.get("/apis")
    assert "remote.multiqueue.dev" in {group["name"] for group in json.loads(text)["groups"]}
