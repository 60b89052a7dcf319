"""OpenAPI documents: what kubectl explain and kubectl apply need of them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.contract.client import Api, expect
from tests.contract.widgets import Widgets, served_widgets

SWAGGER_2 = b"\x0a\x032.0"
"""The field ``swagger: "2.0"``, with which every such document begins."""
GVK = "x-kubernetes-group-version-kind"


@pytest.fixture
async def widgets(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    async with served_widgets(api, namespace) as served:
        yield served


async def document(api: Api, path: str) -> Any:
    """The document of a group version, found as clients do."""
    index = await api.get("/openapi/v3")
    answer = await api.send("GET", index["paths"][path]["serverRelativeURL"])
    return expect(answer, 200)


def schema_of(spec: Any, group: str, version: str, kind: str) -> Any:
    """The component of a kind."""
    wanted = {"group": group, "version": version, "kind": kind}
    return next(
        found for found in spec["components"]["schemas"].values() if wanted in found.get(GVK, ())
    )


def followed(spec: Any, schema: Any) -> Any:
    """A schema behind a reference."""
    reference = schema.get("$ref") or schema["allOf"][0]["$ref"]
    return spec["components"]["schemas"][reference.rpartition("/")[2]]


async def test_every_group_version_has_a_document(api: Api) -> None:
    paths = (await api.get("/openapi/v3"))["paths"]
    assert {"api/v1", "apis/batch/v1", "apis/apps/v1"} <= paths.keys()
    assert "hash=" in paths["apis/batch/v1"]["serverRelativeURL"]


async def test_built_in_schemas_can_be_followed(api: Api) -> None:
    spec = await document(api, "apis/batch/v1")
    job_spec = followed(spec, schema_of(spec, "batch", "v1", "Job")["properties"]["spec"])
    assert job_spec["properties"]["parallelism"]["type"] == "integer"
    assert "template" in job_spec["required"]
    pod_spec = followed(
        spec, followed(spec, job_spec["properties"]["template"])["properties"]["spec"]
    )
    containers = pod_spec["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-type"] == "map"


async def test_custom_schemas_are_published_with_their_descriptions(
    api: Api, widgets: Widgets
) -> None:
    path = f"apis/{widgets.group}/v1"
    await api.until("/openapi/v3", lambda answer: path in answer.body["paths"])
    spec = await document(api, path)
    schema = schema_of(spec, widgets.group, "v1", "Widget")
    wanted = schema["properties"]["spec"]
    assert wanted["description"] == "What is wanted."
    assert wanted["required"] == ["size"]
    assert wanted["properties"]["size"]["description"] == "How big."
    assert {"apiVersion", "kind", "metadata"} <= schema["properties"].keys()


async def test_writing_operations_take_the_parameters_that_kubectl_looks_for(
    api: Api, namespace: str
) -> None:
    _ = namespace
    spec = await document(api, "apis/batch/v1")
    operations = spec["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]
    patch = operations["patch"]
    assert patch[GVK] == {"group": "batch", "version": "v1", "kind": "Job"}
    names = {parameter["name"] for parameter in patch["parameters"]}
    assert {"dryRun", "fieldManager", "fieldValidation"} <= names


async def test_documents_can_be_cached(api: Api) -> None:
    url = (await api.get("/openapi/v3"))["paths"]["apis/batch/v1"]["serverRelativeURL"]
    answer = await api.send("GET", url)
    tag = answer.headers["Etag"]
    again = await api.send("GET", url, headers={"If-None-Match": tag})
    assert again.status == 304


async def test_a_changed_definition_changes_the_hash(api: Api, widgets: Widgets) -> None:
    path = f"apis/{widgets.group}/v1"
    await api.until("/openapi/v3", lambda answer: path in answer.body["paths"])
    before = (await api.get("/openapi/v3"))["paths"][path]
    definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{widgets.group}"
    field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/extra"
    patch = [{"op": "add", "path": field, "value": {"type": "string"}}]
    answer = await api.send(
        "PATCH", definition, json.dumps(patch), content_type="application/json-patch+json"
    )
    expect(answer, 200)
    await api.until("/openapi/v3", lambda found: found.body["paths"][path] != before)


async def test_the_old_document_is_protobuf_for_those_who_ask(api: Api) -> None:
    accept = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    async with aiohttp.ClientSession() as session:
        cluster = api.cluster
        url, headers = f"{cluster.url}/openapi/v2", {**cluster.headers, **accept}
        async with session.get(url, headers=headers, ssl=cluster.ssl or True) as response:
            assert response.status == 200
            assert "spec.v2" in response.headers["Content-Type"]
            assert (await response.read()).startswith(SWAGGER_2)
