"""Admission webhooks: when they are called, what they see, what their answers mean."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.client import PATIENCE_SECONDS, Answer, Api, config_map, expect, job, unique
from tests.contract.webhook_server import WebhookServer, json_patch, serve_webhook

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
ANY_CONFIG_MAP = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["*"],
}
LOCAL = {"127.0.0.1", "localhost", "::1"}


@pytest.fixture
async def hooks(api: Api) -> AsyncIterator[WebhookServer]:
    """A webhook server that the API server can reach."""
    if urlsplit(api.cluster.url).hostname not in LOCAL:
        pytest.skip("the API server under test cannot reach a webhook on this machine")
    async with serve_webhook() as server:
        yield server


class Registrar:
    """Registers webhooks for one namespace, and removes them."""

    def __init__(self, api: Api, hooks: WebhookServer, namespace: str) -> None:
        self.api, self.hooks, self.namespace = api, hooks, namespace
        self.paths: list[str] = []

    async def add(self, kind: str, path: str = "/hook", **more: Any) -> str:
        """Register one webhook of kind "mutating" or "validating"."""
        names = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        hook = {
            "name": f"{path.strip('/')}.example.com",
            "clientConfig": self.hooks.client_config(path),
            "rules": [ANY_CONFIG_MAP],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "namespaceSelector": names,
            **more,
        }
        body = {"metadata": {"name": unique("contract")}, "webhooks": [hook]}
        collection = f"{REGISTRATION}/{kind}webhookconfigurations"
        created = await self.api.create(collection, body)
        self.paths.append(f"{collection}/{created['metadata']['name']}")
        return hook["name"]

    async def until_asked(self) -> None:
        """Real servers learn of configurations with a delay."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.hooks.requests:
                await self.api.send("POST", path, config_map("probe"), dryRun="All")
                await asyncio.sleep(0.02)
        self.hooks.requests.clear()


@pytest.fixture
async def register(api: Api, hooks: WebhookServer, namespace: str) -> AsyncIterator[Registrar]:
    registrar = Registrar(api, hooks, namespace)
    yield registrar
    for path in registrar.paths:
        await api.send("DELETE", path)


def allow(_request: dict[str, Any]) -> dict[str, Any]:
    return {}


def label(name: str) -> Any:
    """Answers that add a label."""
    patch = {"op": "add", "path": "/metadata/labels", "value": {name: "yes"}}
    return lambda request: json_patch(patch) if request["object"] else {}


async def test_a_webhook_sees_the_whole_operation(
    api: Api, hooks: WebhookServer, register: Registrar, namespace: str, config_maps: str
) -> None:
    hooks.answers["/hook"] = allow
    await register.add("validating")
    await register.until_asked()
    created = await api.create(config_maps, config_map("a", {"x": "1"}))
    await api.merge(f"{config_maps}/a", {"data": {"x": "2"}})
    await api.delete(f"{config_maps}/a")
    create, update, delete = hooks.requests
    assert create["operation"] == "CREATE"
    assert create["namespace"] == namespace
    assert create["name"] == "a"
    assert create["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert create["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert create["object"]["data"] == {"x": "1"}
    assert create["oldObject"] is None
    assert create["dryRun"] is False
    assert create["userInfo"]["username"]
    assert update["operation"] == "UPDATE"
    assert update["object"]["data"] == {"x": "2"}
    assert update["oldObject"] == created
    assert delete["operation"] == "DELETE"
    assert delete["object"] is None
    assert delete["oldObject"]["data"] == {"x": "2"}
    assert delete["options"]["kind"] == "DeleteOptions"


async def test_a_mutating_webhook_changes_the_object(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/hook"] = label("seen")
    await register.add("mutating")
    await register.until_asked()
    created = await api.create(config_maps, config_map("a"))
    assert created["metadata"]["labels"] == {"seen": "yes"}


async def test_validating_webhooks_see_what_mutating_ones_made(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/mutate"] = label("seen")
    hooks.answers["/validate"] = allow
    await register.add("validating", "/validate")
    await register.add("mutating", "/mutate")
    await register.until_asked()
    await asyncio.sleep(0 if api.cluster.embedded else 1)
    await api.create(config_maps, config_map("a"))
    assert hooks.requests[-1]["object"]["metadata"]["labels"] == {"seen": "yes"}


async def test_a_refusal_carries_the_words_of_the_webhook(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/hook"] = lambda _request: {
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "not today"},
    }
    name = await register.add("validating")
    await register.until_asked()
    status = expect(await api.send("POST", config_maps, config_map("a")), 403)
    assert status["message"] == f'admission webhook "{name}" denied the request: not today'
    assert status["reason"] == "Forbidden"
    assert (await api.send("GET", f"{config_maps}/a")).status == 404


async def test_warnings_reach_the_client(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/hook"] = lambda _request: {"warnings": ["mind the gap"]}
    await register.add("validating")
    await register.until_asked()
    answer = await api.send("POST", config_maps, config_map("a"))
    assert answer.warnings == ['299 - "mind the gap"']


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_the_failure_policy_decides(
    api: Api, register: Registrar, hooks: WebhookServer, config_maps: str, policy: str, status: int
) -> None:
    hooks.answers["/hook"] = allow
    await register.add("validating")
    await register.until_asked()
    broken = {"url": "https://127.0.0.1:1/nobody", "caBundle": hooks.ca_bundle}
    await register.add("validating", "/broken", clientConfig=broken, failurePolicy=policy)
    answer = await settled(api, config_maps, status)
    assert answer.status == status
    if policy == "Fail":
        assert 'failed calling webhook "broken.example.com"' in answer.body["message"]


async def settled(api: Api, path: str, status: int) -> Answer:
    """The answer once a real server has learnt of a configuration."""
    answer = await api.send("POST", path, config_map("a"), dryRun="All")
    for _ in range(0 if api.cluster.embedded else 50):
        if answer.status == status:
            break
        await asyncio.sleep(0.1)
        answer = await api.send("POST", path, config_map("a"), dryRun="All")
    return answer


async def test_a_webhook_that_takes_too_long_fails(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        config = {"url": url, "caBundle": hooks.ca_bundle}
        await register.add("validating", clientConfig=config, timeoutSeconds=1)
        answer = await api.send("POST", config_maps, config_map("a"), dryRun="All")
        for _ in range(0 if api.cluster.embedded else 50):
            if answer.status >= 400:
                break
            await asyncio.sleep(0.1)
            answer = await api.send("POST", config_maps, config_map("a"), dryRun="All")
    message = expect(answer, 500)["message"]
    assert f'Post "{url}?timeout=1s": ' in message
    assert message.endswith(("no answer within 1s", "context deadline exceeded"))


async def test_object_selectors_narrow(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/hook"] = lambda _request: {"allowed": False}
    await register.add("validating", objectSelector={"matchLabels": {"guard": "on"}})
    guarded = config_map("b", labels={"guard": "on"})
    answer = await api.send("POST", config_maps, guarded, dryRun="All")
    for _ in range(0 if api.cluster.embedded else 50):
        if answer.status >= 400:
            break
        await asyncio.sleep(0.1)
        answer = await api.send("POST", config_maps, guarded, dryRun="All")
    assert "denied the request" in answer.body["message"]
    await api.create(config_maps, config_map("a"))


async def test_rules_name_subresources(
    api: Api, hooks: WebhookServer, register: Registrar, jobs: str
) -> None:
    hooks.answers["/hook"] = allow
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    await register.add("validating", rules=[{**rule, "resources": ["jobs/status"]}])
    await api.create(jobs, job("a"))
    await asyncio.sleep(0 if api.cluster.embedded else 2)
    await api.merge(f"{jobs}/a", {"metadata": {"labels": {"x": "y"}}})
    await api.merge(f"{jobs}/a/status", {"status": {"active": 1}})
    # Once for us, and once or more for the Job controller of a real cluster.
    assert {each["subResource"] for each in hooks.requests} == {"status"}
    assert not api.cluster.embedded or len(hooks.requests) == 1


async def test_webhooks_with_side_effects_refuse_dry_runs(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    hooks.answers["/hook"] = allow
    name = await register.add("validating", sideEffects="NoneOnDryRun")
    await register.until_asked()
    await api.create(config_maps, config_map("a"), dryRun="All")
    assert hooks.requests[-1]["dryRun"] is True
    assert name


async def test_reinvocation_once_after_a_later_change(
    api: Api, hooks: WebhookServer, register: Registrar, config_maps: str
) -> None:
    seen: list[bool] = []

    def first(request: dict[str, Any]) -> dict[str, Any]:
        seen.append("later" in (request["object"]["metadata"].get("labels") or {}))
        return {}

    hooks.answers["/first"], hooks.answers["/second"] = first, label("later")
    one = {"clientConfig": hooks.client_config("/first"), "reinvocationPolicy": "IfNeeded"}
    await register.add("mutating", "/first", **one)
    if api.cluster.embedded:
        await ordered_after(register, api)
    await register.until_asked()
    seen.clear()
    await api.create(config_maps, config_map("a"))
    if api.cluster.embedded:
        assert seen == [False, True]


async def ordered_after(register: Registrar, api: Api) -> None:
    """Register the second webhook under a name behind the first."""
    await register.add("mutating", "/second")
    path = register.paths.pop()
    body = await api.get(path)
    await api.delete(path)
    body["metadata"] = {"name": "zz-" + body["metadata"]["name"]}
    collection = path.rpartition("/")[0]
    await api.create(collection, body)
    register.paths.append(f"{collection}/{body['metadata']['name']}")
