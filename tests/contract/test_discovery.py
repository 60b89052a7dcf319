"""What clients learn about the API before they use it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.client import Answer, Api, expect
from tests.contract.widgets import Widgets, served_widgets

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
async def widgets(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    async with served_widgets(api, namespace) as served:
        yield served


async def aggregated(api: Api, root: str) -> Answer:
    return await api.send("GET", root, headers={"Accept": f"{AGGREGATED},application/json"})


def resource_of(document: Any, group: str, plural: str) -> Any:
    """A resource of the preferred version of a group."""
    groups = {item["metadata"].get("name", ""): item for item in document["items"]}
    resources = groups[group]["versions"][0]["resources"]
    return next(resource for resource in resources if resource["resource"] == plural)


async def test_the_core_is_aggregated_in_one_document(api: Api) -> None:
    answer = await aggregated(api, "/api")
    document = expect(answer, 200)
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    assert (document["kind"], document["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    pods = resource_of(document, "", "pods")
    assert pods["responseKind"]["kind"] == "Pod"
    assert (pods["scope"], pods["singularResource"]) == ("Namespaced", "pod")
    assert pods["shortNames"] == ["po"]
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(pods["verbs"])
    assert "status" in {sub["subresource"] for sub in pods["subresources"]}


async def test_groups_are_aggregated_in_another(api: Api) -> None:
    document = expect(await aggregated(api, "/apis"), 200)
    jobs = resource_of(document, "batch", "jobs")
    assert jobs["responseKind"]["kind"] == "Job"
    assert resource_of(document, "scheduling.k8s.io", "priorityclasses")["scope"] == "Cluster"
    scale = next(
        sub
        for sub in resource_of(document, "apps", "deployments")["subresources"]
        if sub["subresource"] == "scale"
    )
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


async def test_custom_kinds_are_discovered(api: Api, widgets: Widgets) -> None:
    async def found() -> Any:
        document = expect(await aggregated(api, "/apis"), 200)
        names = [item["metadata"].get("name") for item in document["items"]]
        return resource_of(document, widgets.group, "widgets") if widgets.group in names else None

    await api.until(f"/apis/{widgets.group}/v1", lambda answer: answer.status == 200)
    resource = await found()
    assert resource is not None
    assert (resource["shortNames"], resource["categories"]) == (["wdg"], ["toys"])
    assert [sub["subresource"] for sub in resource["subresources"]] == ["status"]


async def test_older_clients_get_the_old_documents(api: Api, widgets: Widgets) -> None:
    assert "v1" in (await api.get("/api"))["versions"]
    groups = (await api.get("/apis"))["groups"]
    batch = next(group for group in groups if group["name"] == "batch")
    assert batch["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    assert (await api.get("/apis/batch"))["kind"] == "APIGroup"
    listed = (await api.until(f"/apis/{widgets.group}/v1", lambda each: each.status == 200)).body
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"{widgets.group}/v1")
    assert [item["name"] for item in listed["resources"]] == ["widgets", "widgets/status"]
    assert listed["resources"][0]["namespaced"] is True


async def test_what_is_not_served_is_not_found(api: Api) -> None:
    for path in ("/apis/nothing.example.com", "/apis/nothing.example.com/v1", "/apis/batch/v9"):
        assert (await api.send("GET", path)).status == 404, path


async def test_a_group_goes_with_its_last_kind(api: Api, namespace: str) -> None:
    async with served_widgets(api, namespace) as widgets:
        path = f"/apis/{widgets.group}"
        await api.until(path, lambda answer: answer.status == 200)
    await api.until_gone(path)


async def test_the_server_tells_its_version(api: Api) -> None:
    version = await api.get("/version")
    assert version["major"] == "1"
    assert int(version["minor"].rstrip("+")) >= 30
    assert version["gitVersion"].startswith("v1.")
