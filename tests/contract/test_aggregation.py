"""API aggregation: versions of groups that another server answers for."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.client import TABLE, Api, expect, unique
from tests.contract.extension_server import DISCOVERY, SERVICES, ExtensionServer, serving


@pytest.fixture
async def extension(api: Api, namespace: str, tmp_path: Path) -> AsyncIterator[ExtensionServer]:
    """A server that is there, but not registered."""
    group = f"{unique('g')}.example.com"
    async with serving(api, group, namespace, tmp_path) as server:
        yield server


@pytest.fixture
async def registered(api: Api, namespace: str, extension: ExtensionServer) -> ExtensionServer:
    """A server that the API server found."""
    await api.create(SERVICES, extension.registration(namespace))
    await until_condition(api, extension.group, "True")
    for path in (extension.root, f"/apis/{extension.group}"):  # a real server learns it later
        await api.until(path, lambda answer: answer.status == 200)
    return extension


async def until_condition(api: Api, group: str, status: str, reason: str = "") -> dict[str, Any]:
    """The condition Available, once it says so; and for that reason, where one is given."""

    def condition_of(answer: Any) -> dict[str, Any]:
        conditions = answer.body.get("status", {}).get("conditions", [{}])
        return {key: conditions[0].get(key) for key in ("type", "status", "reason", "message")}

    def holds(answer: Any) -> bool:
        condition = condition_of(answer)
        return condition["status"] == status and reason in {"", condition["reason"]}

    answer = await api.until(f"{SERVICES}/v1.{group}", holds)
    return condition_of(answer)


async def test_a_server_that_answers_is_available(api: Api, registered: ExtensionServer) -> None:
    assert await until_condition(api, registered.group, "True") == {
        "type": "Available",
        "status": "True",
        "reason": "Passed",
        "message": "all checks passed",
    }
    checks = [each for each in registered.asked if each.path == registered.root]
    assert checks[0].client == "front-proxy-client"
    assert checks[0].all("X-Remote-User") == ["system:kube-aggregator"]
    assert checks[0].all("X-Remote-Group") == ["system:masters"]


async def test_a_request_is_passed_on_in_the_name_of_its_user(
    api: Api, registered: ExtensionServer
) -> None:
    answer = await api.send(
        "POST",
        f"{registered.root}/things?a=1&b=x%2Fy",
        {"some": "body"},
        headers={
            "X-Remote-User": "mallory",
            "X-Remote-Group": "system:mallory",
            "X-Remote-Extra-Scopes": "all",
            "X-Other": "kept",
        },
    )
    assert (answer.status, answer.body) == (201, {"kind": "Thing"})
    assert answer.headers["X-Mine"] == "yes"
    (asked,) = (each for each in registered.asked if each.method == "POST")
    assert (asked.method, asked.client) == ("POST", "front-proxy-client")
    assert asked.path in {
        f"{registered.root}/things?a=1&b=x%2Fy",
        f"{registered.root}/things?a=1&b=x/y",
    }
    assert json.loads(asked.body) == {"some": "body"}
    assert len(asked.all("X-Remote-User")) == 1
    assert "mallory" not in asked.all("X-Remote-User")
    assert "system:masters" in asked.all("X-Remote-Group")
    assert "system:mallory" not in asked.all("X-Remote-Group")
    assert asked.all("X-Remote-Extra-Scopes") == []
    assert asked.all("Authorization") == []
    assert asked.all("X-Other") == ["kept"]


async def test_an_answer_arrives_as_it_is_made(api: Api, registered: ExtensionServer) -> None:
    async with api.watch(f"{registered.root}/things/slow") as stream:
        assert await stream.response.content.readline() == b"first\n"
        registered.more.set()
        assert await stream.response.content.read() == b"last\n"


async def test_its_resources_are_discovered(api: Api, registered: ExtensionServer) -> None:
    group = registered.group
    version = {"groupVersion": f"{group}/v1", "version": "v1"}
    wanted = {"name": group, "versions": [version], "preferredVersion": version}

    def has_group(answer: Any) -> bool:
        return group in {each["name"] for each in answer.body["groups"]}

    groups = (await api.until("/apis", has_group)).body["groups"]
    assert next(each for each in groups if each["name"] == group) == wanted
    assert await api.get(f"/apis/{group}") == {"kind": "APIGroup", "apiVersion": "v1", **wanted}
    assert await api.get(registered.root) == registered.resources()
    assert (await api.send("GET", f"/apis/{group}/v2")).status == 404


async def test_its_resources_are_in_aggregated_discovery(
    api: Api, registered: ExtensionServer
) -> None:
    item: Any = None
    while item is None or item["versions"][0]["freshness"] != "Current":
        answer = await api.send("GET", "/apis", headers={"Accept": DISCOVERY})
        items = {each["metadata"]["name"]: each for each in answer.body["items"]}
        item = items.get(registered.group)
    assert item["versions"] == registered.discovery()["items"][0]["versions"]


async def test_its_openapi_is_listed_and_passed_on(api: Api, registered: ExtensionServer) -> None:
    key = registered.root[1:]
    answer = await api.until("/openapi/v3", lambda answer: key in answer.body["paths"])
    url = answer.body["paths"][key]["serverRelativeURL"]
    assert (await api.get(url))["info"] == {"title": "things"}


async def test_a_server_that_goes_away_is_told(api: Api, namespace: str, tmp_path: Path) -> None:
    group = f"{unique('g')}.example.com"
    async with serving(api, group, namespace, tmp_path) as server:
        await api.create(SERVICES, server.registration(namespace))
        await until_condition(api, group, "True")
        registration = server.registration(namespace)
    await api.create(SERVICES, registration)
    try:
        condition = await until_condition(api, group, "False")
        assert condition["reason"] == "FailedDiscoveryCheck"
        start = "failing or missing response from https://127.0.0.1:"
        assert condition["message"].startswith(start)
        assert "connection refused" in condition["message"]
        # A real server acts on the condition a moment after it has written it.
        said = (503, "service unavailable\n")
        await api.until(
            f"{server.root}/things", lambda answer: (answer.status, answer.text) == said
        )
    finally:  # no namespace can be removed while a group cannot be discovered
        await api.delete(f"{SERVICES}/v1.{group}")


async def test_a_broken_connection_is_said_in_plain_text(
    api: Api, registered: ExtensionServer
) -> None:
    """Available was true a moment ago; nothing listens on port 1."""
    path = f"{SERVICES}/v1.{registered.group}"
    await api.merge(path, {"spec": {"service": {"port": 1}}})
    answer = await api.until(f"{registered.root}/things", lambda answer: answer.status == 503)
    unreached = answer.text.startswith("error trying to reach service: ")
    assert unreached or answer.text == "service unavailable\n"
    assert answer.headers["Content-Type"].startswith("text/plain")


async def test_what_is_not_registered_any_more_is_gone(
    api: Api, registered: ExtensionServer
) -> None:
    await api.delete(f"{SERVICES}/v1.{registered.group}")
    await api.until(f"{registered.root}/things", lambda answer: answer.status == 404)
    await api.until(f"/apis/{registered.group}", lambda answer: answer.status == 404)


@pytest.mark.parametrize(
    ("service", "reason", "message"),
    [
        ({"name": "none"}, "ServiceNotFound", 'service/none in "{ns}" is not present'),
        (
            {"name": "plain", "port": 444},
            "ServicePortError",
            'service/plain in "{ns}" is not listening on port 444',
        ),
    ],
    ids=["no such service", "no such port"],
)
async def test_why_a_server_is_not_available(
    api: Api, namespace: str, extension: ExtensionServer, service: Any, reason: str, message: str
) -> None:
    plain = {"metadata": {"name": "plain"}, "spec": {"ports": [{"port": 443}]}}
    await api.create(f"/api/v1/namespaces/{namespace}/services", plain)
    service = {"namespace": namespace, **service}
    await api.create(SERVICES, extension.registration(namespace, service=service))
    # A server that has not seen the Service yet says first that there is none.
    assert await until_condition(api, extension.group, "False", reason) == {
        "type": "Available",
        "status": "False",
        "reason": reason,
        "message": message.format(ns=namespace),
    }


async def test_a_wrong_authority_is_not_trusted(
    api: Api, namespace: str, extension: ExtensionServer
) -> None:
    await api.create(SERVICES, extension.registration(namespace, caBundle=""))
    await until_condition(api, extension.group, "False", "FailedDiscoveryCheck")
    assert not extension.asked

    await api.merge(f"{SERVICES}/v1.{extension.group}", {"spec": {"insecureSkipTLSVerify": True}})
    await until_condition(api, extension.group, "True")


async def test_without_a_service_it_is_local(api: Api, extension: ExtensionServer) -> None:
    registration = extension.registration("none")
    del registration["spec"]["service"], registration["spec"]["caBundle"]
    await api.create(SERVICES, registration)
    assert await until_condition(api, extension.group, "True") == {
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


async def test_its_table(api: Api, namespace: str, registered: ExtensionServer) -> None:
    path = f"{SERVICES}/v1.{registered.group}"
    answer = expect(await api.send("GET", path, headers={"Accept": TABLE}), 200)
    names = [each["name"] for each in answer["columnDefinitions"]]
    assert names == ["Name", "Service", "Available", "Age"]
    cells = answer["rows"][0]["cells"]
    assert cells[:3] == [f"v1.{registered.group}", f"{namespace}/extension", "True"]


GOOD = {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
SERVICE = {"namespace": "a", "name": "b"}


@pytest.mark.parametrize(
    ("name", "spec", "fields"),
    [
        ("wrong", GOOD, ["metadata.name"]),
        ("v1.g.example.com", {**GOOD, "groupPriorityMinimum": 0}, ["spec.groupPriorityMinimum"]),
        (
            "v1.g.example.com",
            {**GOOD, "groupPriorityMinimum": 20001, "versionPriority": 1001},
            ["spec.groupPriorityMinimum", "spec.versionPriority"],
        ),
        (
            "v1.g.example.com",
            {"group": "g.example.com", "version": "v1"},
            ["spec.groupPriorityMinimum", "spec.versionPriority"],
        ),
        ("v1.", {**GOOD, "group": "", "version": "v2"}, ["metadata.name", "spec.group"]),
        ("-.g.example.com", {**GOOD, "version": "-"}, ["spec.version"]),
        (
            "v1.g.example.com",
            {**GOOD, "service": {"namespace": "", "name": ""}},
            ["spec.service.namespace", "spec.service.name"],
        ),
        (
            "v1.g.example.com",
            {**GOOD, "service": {**SERVICE, "port": 70000}},
            ["spec.service.port"],
        ),
        (
            "v1.g.example.com",
            {**GOOD, "service": SERVICE, "insecureSkipTLSVerify": True, "caBundle": "eA=="},
            ["spec.insecureSkipTLSVerify"],
        ),
        (
            "v1.g.example.com",
            {**GOOD, "insecureSkipTLSVerify": True},
            ["spec.insecureSkipTLSVerify"],
        ),
        ("v1.g.example.com", {**GOOD, "caBundle": "eA=="}, ["spec.caBundle"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_refused(api: Api, name: str, spec: Any, fields: list[str]) -> None:
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": spec,
    }
    answer = await api.send("POST", SERVICES, body)
    assert answer.status == 422, answer
    assert [each["field"] for each in answer.body["details"]["causes"]] == fields
