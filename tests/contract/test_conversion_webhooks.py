"""Conversion webhooks: what they are asked, and what their answers mean."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.client import TABLE, Api
from tests.contract.gadgets import Gadgets, served_gadgets

LOCAL = {"127.0.0.1", "localhost", "::1"}


@pytest.fixture
async def gadgets(api: Api, namespace: str) -> AsyncIterator[Gadgets]:
    if urlsplit(api.cluster.url).hostname not in LOCAL:
        pytest.skip("the API server under test cannot reach a webhook on this machine")
    async with served_gadgets(api, namespace) as served:
        yield served


async def test_an_object_is_read_in_another_version(api: Api, gadgets: Gadgets) -> None:
    created = await api.create(gadgets.path("v1"), gadgets.body("v1", value=7))
    got = await api.get(f"{gadgets.path('v2')}/a")
    assert got["spec"] == {"extent": 7}
    assert got["apiVersion"] == f"{gadgets.group}/v2"
    asked = [each for each in gadgets.hooks.requests if each["desiredAPIVersion"].endswith("/v2")]
    for each in asked:
        assert [obj["spec"] for obj in each["objects"]] == [{"size": 7}]
        assert each["objects"][0]["metadata"]["uid"] == created["metadata"]["uid"]
    assert len({each["uid"] for each in asked}) == len(asked) >= 1


async def test_an_object_is_written_in_another_version(api: Api, gadgets: Gadgets) -> None:
    created = await api.create(gadgets.path("v2"), gadgets.body("v2", value=7))
    assert created["spec"] == {"extent": 7}
    stored = await api.get(f"{gadgets.path('v1')}/a")
    assert stored["spec"] == {"size": 7}
    assert stored["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_nobody_is_asked_about_the_stored_version(api: Api, gadgets: Gadgets) -> None:
    await api.create(gadgets.path("v1"), gadgets.body("v1"))
    gadgets.answer_with(lambda _objects: {"result": {"status": "Failure", "message": "never"}})
    await api.get(f"{gadgets.path('v1')}/a")
    await api.merge(f"{gadgets.path('v1')}/a", {"spec": {"size": 2}})


async def test_a_list_is_converted_at_once_and_in_order(api: Api, gadgets: Gadgets) -> None:
    for value in range(5):
        await api.create(gadgets.path("v1"), gadgets.body("v1", f"g{value}", value))
    got = await api.get(gadgets.path("v2"))
    assert got["apiVersion"] == f"{gadgets.group}/v2"
    assert [item["spec"]["extent"] for item in got["items"]] == [0, 1, 2, 3, 4]
    assert {item["apiVersion"] for item in got["items"]} == {f"{gadgets.group}/v2"}


async def test_updates_in_another_version(api: Api, gadgets: Gadgets) -> None:
    await api.create(gadgets.path("v1"), gadgets.body("v1"))
    path = f"{gadgets.path('v2')}/a"
    got = await api.merge(path, {"spec": {"extent": 2}})
    assert got["spec"] == {"extent": 2}
    got["spec"]["extent"] = 3
    got = await api.put(path, got)
    assert got["metadata"]["generation"] == 3
    got = await api.merge(f"{path}/status", {"status": {"seen": 3}})
    assert got["status"] == {"seen": 3}
    stored = await api.get(f"{gadgets.path('v1')}/a")
    assert stored["spec"] == {"size": 3}
    assert stored["status"] == {"seen": 3}


async def test_an_update_that_changes_nothing_keeps_the_revision(
    api: Api, gadgets: Gadgets
) -> None:
    created = await api.create(gadgets.path("v2"), gadgets.body("v2"))
    got = await api.merge(f"{gadgets.path('v2')}/a", {"spec": {"extent": 1}})
    assert got["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_a_request_is_checked_by_the_schema_of_its_version(
    api: Api, gadgets: Gadgets
) -> None:
    answer = await api.send("POST", gadgets.path("v2"), gadgets.body("v2", value=101))
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "spec.extent"


async def test_a_watch_shows_the_version_that_it_asked_for(api: Api, gadgets: Gadgets) -> None:
    for name in ("a", "b"):
        await api.create(gadgets.path("v1"), gadgets.body("v1", name))
    revision = (await api.get(gadgets.path("v1")))["metadata"]["resourceVersion"]
    async with api.watch(gadgets.path("v2"), resourceVersion=revision) as watch:
        await api.merge(f"{gadgets.path('v1')}/a", {"spec": {"size": 5}})
        await api.delete(f"{gadgets.path('v1')}/b")
        frames = [await watch.next() for _ in range(2)]
    got = [(type_, obj["apiVersion"], obj["spec"]) for type_, obj in frames]
    version = f"{gadgets.group}/v2"
    assert got == [("MODIFIED", version, {"extent": 5}), ("DELETED", version, {"extent": 1})]
    async with api.watch(gadgets.path("v2")) as watch:
        type_, obj = await watch.next()
    assert (type_, obj["spec"]) == ("ADDED", {"extent": 5})


async def test_tables_have_the_columns_of_their_version(api: Api, gadgets: Gadgets) -> None:
    await api.create(gadgets.path("v1"), gadgets.body("v1", value=4))
    answer = await api.send("GET", gadgets.path("v2"), headers={"Accept": TABLE})
    assert answer.body["rows"][0]["cells"][:2] == ["a", 4]


async def test_deletes_in_another_version(api: Api, gadgets: Gadgets) -> None:
    for name in ("a", "b", "c"):
        await api.create(gadgets.path("v1"), gadgets.body("v1", name))
    await api.merge(f"{gadgets.path('v1')}/b", {"metadata": {"finalizers": ["example.com/wait"]}})
    await api.delete(f"{gadgets.path('v2')}/a")
    left = await api.delete(f"{gadgets.path('v2')}/b")
    assert left["spec"] == {"extent": 1}
    assert left["metadata"]["deletionTimestamp"]
    await api.delete(gadgets.path("v2"))
    assert await api.names(gadgets.path("v1")) == ["b"]
    await api.merge(f"{gadgets.path('v2')}/b", {"metadata": {"finalizers": None}})
    assert await api.names(gadgets.path("v1")) == []


async def test_a_dry_run_is_shown_in_its_version(api: Api, gadgets: Gadgets) -> None:
    got = await api.create(gadgets.path("v2"), gadgets.body("v2"), dryRun="All")
    assert got["spec"] == {"extent": 1}
    assert await api.names(gadgets.path("v1")) == []


async def test_labels_and_annotations_may_change_and_nothing_else_of_metadata(
    api: Api, gadgets: Gadgets
) -> None:
    await api.create(gadgets.path("v1"), gadgets.body("v1"))

    def change(objects: list[dict[str, Any]]) -> None:
        for obj in objects:
            obj["metadata"] |= {
                "labels": {"l": "1"},
                "annotations": {"a": "1"},
                "finalizers": ["example.com/mine"],
                "generation": 99,
            }

    gadgets.answer_with(change)
    got = (await api.get(f"{gadgets.path('v2')}/a"))["metadata"]
    assert got["labels"] == {"l": "1"}
    assert got["annotations"] == {"a": "1"}
    assert "finalizers" not in got
    assert got["generation"] == 1


def changed(**fields: Any) -> Any:
    """Let the webhook overwrite fields of the converted objects."""

    def change(objects: list[dict[str, Any]]) -> None:
        for obj in objects:
            for name, value in fields.items():
                obj[name] = {**obj[name], **value} if isinstance(value, dict) else value

    return change


SUCCESS = {"status": "Success"}
BAD_ANSWERS = [
    pytest.param(
        lambda _: {"result": {"status": "Failure", "message": "no such luck"}},
        "failed: no such luck",
        id="a failure with words",
    ),
    pytest.param(
        lambda _: {"result": {"status": "Failure"}},
        "failed: response.result.status was 'Failure', not 'Success'",
        id="a failure without words",
    ),
    pytest.param(
        lambda objects: {"uid": "x", "convertedObjects": objects, "result": SUCCESS},
        'failed: expected response.uid="',
        id="another uid",
    ),
    pytest.param(
        lambda _: {"convertedObjects": [], "result": SUCCESS},
        "returned 0 objects, expected 1",
        id="too few objects",
    ),
    pytest.param(
        lambda objects: {"convertedObjects": objects * 2, "result": SUCCESS},
        "returned 2 objects, expected 1",
        id="too many objects",
    ),
    pytest.param(
        changed(apiVersion="example.com/v1"), "invalid groupVersion (expected ", id="another group"
    ),
    pytest.param(changed(kind="Other"), "invalid kind (expected Gadget, ", id="another kind"),
    pytest.param(
        changed(metadata={"name": "b"}), "must have the same name: a != b", id="another name"
    ),
    pytest.param(
        changed(metadata={"namespace": "b"}),
        "must have the same namespace: ",
        id="another namespace",
    ),
    pytest.param(changed(metadata={"uid": "b"}), "must have the same UID: ", id="another object"),
    pytest.param(
        changed(metadata={"labels": {"a": 1}}), "must be a string, but is ", id="labels of no text"
    ),
]


@pytest.mark.parametrize(("answer", "words"), BAD_ANSWERS)
async def test_a_bad_answer_is_an_error(
    api: Api, gadgets: Gadgets, answer: Any, words: str
) -> None:
    await api.create(gadgets.path("v1"), gadgets.body("v1"))
    gadgets.answer_with(answer)
    got = await api.send("GET", f"{gadgets.path('v2')}/a")
    assert got.status == 500
    assert got.body["message"].startswith(
        f"conversion webhook for {gadgets.group}/v1, Kind=Gadget "
    )
    assert words in got.body["message"]
    # A list may show what was converted before; a new object has to be converted now.
    await api.create(gadgets.path("v1"), gadgets.body("v1", "new"))
    await api.until(gadgets.path("v2"), lambda answer: answer.status == 500)
    refused = await api.send("POST", gadgets.path("v2"), gadgets.body("v2", "n"))
    assert refused.status == 500
    assert await api.names(gadgets.path("v1")) == ["a", "new"]


async def test_an_outage_stops_only_what_has_to_be_converted(api: Api, gadgets: Gadgets) -> None:
    await api.create(gadgets.path("v1"), gadgets.body("v1"))
    await gadgets.hooks.stop()
    # What was converted before may be shown; and a connection that is still open may be used once
    # more.
    await api.create(gadgets.path("v1"), gadgets.body("v1", "new"))
    got = await api.until(
        f"{gadgets.path('v2')}/new",
        lambda answer: answer.status == 500 and "connection refused" in answer.text,
    )
    want = f"conversion webhook for {gadgets.group}/v1, Kind=Gadget failed: Post "
    assert got.body["message"].startswith(want)
    assert "reason" not in got.body
    assert (await api.send("POST", gadgets.path("v2"), gadgets.body("v2", "b"))).status == 500
    await api.get(f"{gadgets.path('v1')}/a")
    await api.merge(f"{gadgets.path('v1')}/a", {"spec": {"size": 2}})
    await api.delete(f"{gadgets.path('v1')}/a")


async def test_what_was_stored_in_another_version_is_converted_when_it_is_read(
    api: Api, gadgets: Gadgets
) -> None:
    await api.create(gadgets.path("v1"), gadgets.body("v1"))
    await gadgets.define(stored="v2")
    path = f"{gadgets.path('v2')}/b"
    await api.create(gadgets.path("v2"), gadgets.body("v2", "b", 2))
    await api.until(path, lambda answer: answer.status == 200)
    got = await api.get(gadgets.path("v2"))
    assert [item["spec"] for item in got["items"]] == [{"extent": 1}, {"extent": 2}]
    got = await api.get(gadgets.path("v1"))
    assert [item["spec"] for item in got["items"]] == [{"size": 1}, {"size": 2}]
    assert (await api.merge(f"{gadgets.path('v1')}/a", {"spec": {"size": 3}}))["spec"] == {
        "size": 3
    }
    assert (await api.get(f"{gadgets.path('v2')}/a"))["spec"] == {"extent": 3}
