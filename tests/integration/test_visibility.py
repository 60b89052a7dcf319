"""Who waits where, asked for as users do: through the API server, by their rights.

Runs on the embedded API server, and where CONTRACT_KUBECONFIG names one on that.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from multiqueue.api.crd import load_crds
from multiqueue.kube.certificates import create_authority, issue_client_certificate
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.resources import (
    API_SERVICES,
    JOBS,
    NAMESPACES,
    SUBJECT_ACCESS_REVIEWS,
)
from multiqueue.kube.tls import load_key_pair
from multiqueue.runtime.manager import Manager
from multiqueue.runtime.manifests import apply_all, create_missing
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import action_of, review_spec
from tests.contract.client import unique
from tests.integration.test_runtime_manager import credentials, embedded, make_config, running
from tests.integration.waiting import is_true, until

KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
ROLES = Path(__file__).parents[2] / "config" / "rbac" / "kind_roles.yaml"
GROUP = "/apis/visibility.kueue.x-k8s.io"


@dataclass
class Asker:
    """Asks the API server, or a manager itself, as somebody."""

    credentials: Credentials
    session: aiohttp.ClientSession
    cluster_queue: str = field(default_factory=lambda: unique("cq"))
    namespace: str = field(default_factory=lambda: unique("team"))

    async def get(self, path: str, *, user: str = "", **query: str) -> tuple[int, Any]:
        headers = {"Authorization": await self.credentials.authorization() or ""}
        if user:
            headers["Impersonate-User"] = user
        url = self.credentials.server + GROUP + path
        context = self.credentials.ssl_context
        async with self.session.get(url, headers=headers, params=query, ssl=context) as answer:
            return answer.status, await answer.json()

    async def ask(
        self, port: int, path: str, *, context: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, str]:
        """Ask a manager without the API server between."""
        if context is None:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{port}{path}"
        async with self.session.get(url, headers=headers, ssl=context) as answer:
            return answer.status, await answer.text()

    async def names(self, path: str, **query: str) -> list[tuple[str, int, int]]:
        """(owner, position in ClusterQueue, position in LocalQueue) of each item."""
        status, body = await self.get(path, **query)
        assert status == 200, body
        return [
            (
                item["metadata"]["ownerReferences"][0]["name"],
                item["positionInClusterQueue"],
                item["positionInLocalQueue"],
            )
            for item in body["items"]
        ]


@asynccontextmanager
async def server() -> AsyncIterator[tuple[Credentials, KubeClient]]:
    if KUBECONFIG:
        real = await Credentials.from_kubeconfig_file(Path(KUBECONFIG))
        async with KubeClient(real) as client:
            await create_missing(client, load_crds())
            yield real, client
        return
    async with embedded() as (cluster, client):
        yield await credentials(cluster), client


@asynccontextmanager
async def managed(managers: int = 1, **config: Any) -> AsyncIterator[tuple[Asker, list[Manager]]]:
    """A cluster with managers, a full ClusterQueue and two LocalQueues, "a" and "b"."""
    async with AsyncExitStack() as stack:
        access, client = await stack.enter_async_context(server())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        asker = Asker(access, session)
        patient = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "200ms"}
        election = {"leaderElect": managers > 1, **patient}
        settings = make_config(leaderElection=election, **config)
        started = [Manager(settings, access) for _ in range(managers)]
        for manager in started:
            await stack.enter_async_context(running(manager))
        first = [asyncio.create_task(manager.until_at_work()) for manager in started]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        for task in first:
            task.cancel()
        await apply_all(client, [*queues(asker), *yaml.safe_load_all(ROLES.read_text())])
        yield asker, started


def queues(asker: Asker) -> list[dict[str, Any]]:
    api = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    quota = {"name": "cpu", "nominalQuota": "0"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [quota]}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    found = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": asker.namespace}},
        {**api, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}},
        {**api, "kind": "ClusterQueue", "metadata": {"name": asker.cluster_queue}, "spec": spec},
    ]
    for name in ("a", "b"):
        metadata = {"name": name, "namespace": asker.namespace}
        queue = {"clusterQueue": asker.cluster_queue}
        found.append({**api, "kind": "LocalQueue", "metadata": metadata, "spec": queue})
    return found


async def submit(asker: Asker, client: KubeClient, *jobs: tuple[str, str]) -> None:
    for name, queue in jobs:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": asker.namespace,
                "labels": {"kueue.x-k8s.io/queue-name": queue},
            },
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }
        await client.create(JOBS, job, namespace=asker.namespace)


async def until_registered(client: KubeClient) -> None:
    def all_available(found: list[dict[str, Any]]) -> bool:
        ours = [each for each in found if each["spec"].get("group", "") == GROUP[6:]]
        return len(ours) == 2 and all(is_true(each, "Available") for each in ours)

    await until(client, API_SERVICES, all_available)


async def until_answered(asker: Asker, path: str, count: int = 0) -> None:
    """A real API server passes requests on a moment after it said Available."""
    async with asyncio.timeout(20):
        while True:
            status, body = await asker.get(path)
            if status == 200 and len(body["items"]) == count:
                return
            await asyncio.sleep(0.02)


async def test_positions_in_both_versions() -> None:
    async with managed() as (asker, _), KubeClient(asker.credentials) as client:
        await until_registered(client)
        await submit(asker, client, ("j1", "a"), ("j2", "b"), ("j3", "a"))
        in_cluster_queue = f"/clusterqueues/{asker.cluster_queue}/pendingworkloads"
        for version in ("v1beta1", "v1beta2"):
            await until_answered(asker, f"/{version}{in_cluster_queue}", 3)
            everybody = await asker.names(f"/{version}{in_cluster_queue}")
            assert [place for _, place, _ in everybody] == [0, 1, 2]
            assert {name for name, _, _ in everybody} == {"j1", "j2", "j3"}
            page = await asker.names(f"/{version}{in_cluster_queue}", offset="1", limit="1")
            assert page == everybody[1:2]
            local = f"/{version}/namespaces/{asker.namespace}/localqueues/a/pendingworkloads"
            of_a = [row for row in everybody if row[0] != "j2"]
            assert await asker.names(local) == of_a
            assert [place for _, _, place in of_a] == [0, 1]


async def test_what_cannot_be_answered() -> None:
    async with managed() as (asker, _), KubeClient(asker.credentials) as client:
        await until_registered(client)
        path = f"/v1beta2/clusterqueues/{asker.cluster_queue}/pendingworkloads"
        await until_answered(asker, path)
        status, body = await asker.get(path, limit="x")
        assert (status, body["reason"]) == (400, "BadRequest")
        assert body["message"].startswith('limit: Invalid value: "x"')

        for where, kind in (("/clusterqueues/no", "clusterqueue"), ("", "localqueue")):
            unknown = where or f"/namespaces/{asker.namespace}/localqueues/no"
            status, body = await asker.get(f"/v1beta1{unknown}/pendingworkloads")
            assert (status, body["reason"], body["details"]["kind"]) == (404, "NotFound", kind)
            assert body["message"] == f'{kind}.visibility.kueue.x-k8s.io "no" not found'


async def test_users_see_what_their_roles_say() -> None:
    async with managed() as (asker, _), KubeClient(asker.credentials) as client:
        await until_registered(client)
        local = f"/v1beta2/namespaces/{asker.namespace}/localqueues/a/pendingworkloads"
        whole = f"/v1beta2/clusterqueues/{asker.cluster_queue}/pendingworkloads"
        await until_answered(asker, local)
        status, body = await asker.get(local, user=unique("bob"))
        assert (status, body["reason"]) == (403, "Forbidden")

        ann = unique("ann")
        await let(client, asker.namespace, ann, "kueue-pending-workloads-lq-viewer-role")
        assert (await asker.get(local, user=ann))[0] == 200
        assert (await asker.get(whole, user=ann))[0] == 403
        other = "/v1beta2/namespaces/default/localqueues/a/pendingworkloads"
        assert (await asker.get(other, user=ann))[0] == 403


async def let(client: KubeClient, namespace: str, user: str, role: str) -> None:
    """Give a user a role; a real API server follows its roles with a delay."""
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": namespace},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }
    await apply_all(client, [binding])
    path = f"{GROUP}/v1beta2/namespaces/{namespace}/localqueues/a/pendingworkloads"
    spec = review_spec(AuthenticatedUser(name=user), action_of("GET", path))
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    async with asyncio.timeout(20):
        allowed = False
        while not allowed:
            answer = await client.create(SUBJECT_ACCESS_REVIEWS, review)
            allowed = answer["status"]["allowed"]


async def test_a_manager_believes_the_front_proxy_only() -> None:
    async with managed() as (asker, [manager]), KubeClient(asker.credentials) as client:
        await until_registered(client)
        port = manager.visibility.server.port
        path = f"{GROUP}/v1beta2"
        claims = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        status, text = await asker.ask(port, path, **claims)
        assert status == 403
        assert "system:anonymous" in text
        assert (await asker.ask(port, path, Authorization="Bearer wrong"))[0] == 401
        good = await asker.credentials.authorization() or ""
        assert (await asker.ask(port, path, Authorization=good))[0] == 200
        assert await asker.ask(port, "/healthz") == (200, "ok")

        now = datetime.now(UTC)
        forged = issue_client_certificate(
            create_authority("forger", now), "front-proxy-client", (), now
        )
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        load_key_pair(context, forged.certificate, forged.key)
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await asker.ask(port, path, context=context, **claims)
        assert await asker.ask(port, "/healthz") == (200, "ok")


async def test_a_standby_knows_the_positions_too() -> None:
    async with managed(2) as (asker, managers), KubeClient(asker.credentials) as client:
        await until_registered(client)
        [standby] = [each for each in managers if not each.leading.is_set()]
        await submit(asker, client, ("j1", "a"), ("j2", "b"))
        path = f"{GROUP}/v1beta2/clusterqueues/{asker.cluster_queue}/pendingworkloads"
        good = await asker.credentials.authorization() or ""
        async with asyncio.timeout(20):  # its informers hear a moment later
            while True:
                port = standby.visibility.server.port
                status, text = await asker.ask(port, path, Authorization=good)
                if status == 200 and text.count('"positionInClusterQueue"') == 2:
                    break
                await asyncio.sleep(0.02)
        [first, *_] = json.loads(text)["items"]
        where = f"namespaces/{asker.namespace}/workloads/{first['metadata']['name']}/explanation"
        path = f"/apis/remote.multiqueue.dev/v1alpha1/{where}"
        for manager in managers:
            port, leads = manager.visibility.server.port, manager is not standby
            status, text = await asker.ask(port, path, Authorization=good)
            told = json.loads(text)["status"]
            assert (told["leading"], "reason" in told) == (leads, leads)
            assert (told["positionInClusterQueue"], told["flavors"][0]["free"]) == (0, "0")


@pytest.mark.skipif(bool(KUBECONFIG), reason="other tests have registered on a server that stays")
async def test_without_the_gate_nothing_is_registered() -> None:
    async with managed(featureGates={"VisibilityOnDemand": False}) as (asker, [manager]):
        async with KubeClient(asker.credentials) as client:
            assert (await client.list(API_SERVICES)).items == []
            assert (await client.get(NAMESPACES, asker.namespace))["metadata"]
        assert manager.visibility is None
