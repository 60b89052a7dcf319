"""Tables: what ``kubectl get`` prints is made by the server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.client import TABLE, Api, config_map, expect, job, pod
from tests.contract.widgets import Widgets, served_widgets


@pytest.fixture
async def widgets(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    async with served_widgets(api, namespace) as served:
        yield served


async def table(api: Api, path: str, **query: Any) -> Any:
    answer = await api.send("GET", path, headers={"Accept": TABLE}, **query)
    found = expect(answer, 200)
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    return found


def rows(found: Any, *, wide: bool = False) -> list[dict[str, Any]]:
    """Cells by column name."""
    columns = found["columnDefinitions"]
    return [
        {
            column["name"]: cell
            for column, cell in zip(columns, row["cells"], strict=True)
            if wide or column["priority"] == 0
        }
        for row in found["rows"]
    ]


async def test_a_list_is_a_table_with_metadata_of_its_objects(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", {"x": "1", "y": "2"}))
    found = await table(api, config_maps, fieldSelector="metadata.name=a")
    (row,) = rows(found)
    assert (row["Name"], row["Data"]) == ("a", 2)
    assert row["Age"].endswith("s")
    assert found["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert found["rows"][0]["object"]["metadata"]["name"] == "a"
    assert int(found["metadata"]["resourceVersion"]) > 0


async def test_one_object_is_a_table_too(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, config_map("a"))
    found = await table(api, f"{config_maps}/a")
    assert len(found["rows"]) == 1
    assert found["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("include", "keys"),
    [("None", set()), ("Metadata", {"metadata"}), ("Object", {"metadata", "data"})],
)
async def test_rows_carry_as_much_as_is_asked_for(
    api: Api, config_maps: str, include: str, keys: set[str]
) -> None:
    await api.create(config_maps, config_map("a", {"x": "1"}))
    found = await table(api, config_maps, includeObject=include, fieldSelector="metadata.name=a")
    carried = (found["rows"][0].get("object") or {}).keys()
    assert carried - {"kind", "apiVersion"} == keys


async def test_pages_of_a_table_continue(api: Api, config_maps: str) -> None:
    for name in ("a", "b", "c"):
        await api.create(config_maps, config_map(name, labels={"t": "1"}))
    found = await table(api, config_maps, limit=2, labelSelector="t=1")
    assert [row["Name"] for row in rows(found)] == ["a", "b"]
    more = {"limit": 2, "labelSelector": "t=1", "continue": found["metadata"]["continue"]}
    rest = await table(api, config_maps, **more)
    assert [row["Name"] for row in rows(rest)] == ["c"]


async def test_custom_columns_come_from_the_definition(api: Api, widgets: Widgets) -> None:
    await api.create(widgets.path, widgets.body(note="hello"))
    status = {
        "conditions": [{"type": "Other", "status": "x"}, {"type": "Active", "status": "True"}]
    }
    await api.merge(f"{widgets.path}/a/status", {"status": status})
    found = await table(api, widgets.path)
    (row,) = rows(found)
    assert list(row) == ["Name", "Size", "Active", "Age"]
    assert (row["Name"], row["Size"], row["Active"]) == ("a", 3, "True")
    assert rows(found, wide=True)[0]["Note"] == "hello"
    types = {column["name"]: column["type"] for column in found["columnDefinitions"]}
    assert types["Size"] == "integer"


async def test_a_missing_value_is_empty(api: Api, widgets: Widgets) -> None:
    await api.create(widgets.path, widgets.body())
    assert rows(await table(api, widgets.path))[0]["Active"] is None


async def test_watch_frames_are_tables_with_columns_once(api: Api, config_maps: str) -> None:
    version = (await api.get(config_maps))["metadata"]["resourceVersion"]
    async with api.watch(config_maps, {"Accept": TABLE}, resourceVersion=version) as watch:
        await api.create(config_maps, config_map("a"))
        await api.create(config_maps, config_map("b"))
        frames = [await watch.next(), await watch.next()]
    assert [kind for kind, _ in frames] == ["ADDED", "ADDED"]
    assert [row["cells"][0] for _, found in frames for row in found["rows"]] == ["a", "b"]
    assert [bool(found["columnDefinitions"]) for _, found in frames] == [True, False]


async def test_jobs_show_how_far_they_are(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a", completions=3))
    (row,) = rows(await table(api, jobs))
    assert list(row) == ["Name", "Status", "Completions", "Duration", "Age"]
    assert row["Completions"] == "0/3"


async def test_pods_show_readiness_and_state(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    (row,) = rows(await table(api, pods))
    assert list(row) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert (row["Ready"], row["Status"], row["Restarts"]) == ("0/1", "Pending", "0")


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("/api/v1/nodes", ["Name", "Status", "Roles", "Age", "Version"]),
        ("/api/v1/namespaces", ["Name", "Status", "Age"]),
        ("/api/v1/secrets", ["Name", "Type", "Data", "Age"]),
        ("/api/v1/events", ["Last Seen", "Type", "Reason", "Object", "Message"]),
        ("/apis/apps/v1/deployments", ["Name", "Ready", "Up-to-date", "Available", "Age"]),
        ("/apis/coordination.k8s.io/v1/leases", ["Name", "Holder", "Age"]),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"],
        ),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", ["Name", "Created At"]),
    ],
)
async def test_columns_of_common_kinds(api: Api, path: str, columns: list[str]) -> None:
    found = await table(api, path, limit=1)
    assert [c["name"] for c in found["columnDefinitions"] if c["priority"] == 0] == columns
