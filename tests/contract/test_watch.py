"""Watches: where they start, what they tell, how they end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.client import TABLE, Api, config_map, expect, job, pod
from tests.contract.widgets import Widgets, served_widgets

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@pytest.fixture
async def widgets(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    """A kind whose history begins with the test."""
    async with served_widgets(api, namespace) as served:
        yield served


async def revision(api: Api, path: str) -> str:
    return (await api.get(path))["metadata"]["resourceVersion"]


async def test_a_watch_from_a_list_tells_what_came_after(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("before"))
    start = await revision(api, config_maps)
    async with api.watch(config_maps, resourceVersion=start) as watch:
        created = await api.create(config_maps, config_map("a"))
        changed = await api.merge(f"{config_maps}/a", {"data": {"x": "1"}})
        await api.delete(f"{config_maps}/a")
        assert await watch.next() == ("ADDED", created)
        assert await watch.next() == ("MODIFIED", changed)
        type_, last = await watch.next()
    assert type_ == "DELETED"
    assert last["data"] == {"x": "1"}
    assert int(last["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


async def test_a_watch_replays_what_it_missed(api: Api, config_maps: str) -> None:
    start = await revision(api, config_maps)
    await api.create(config_maps, config_map("a"))
    await api.merge(f"{config_maps}/a", {"data": {"x": "1"}})
    await api.delete(f"{config_maps}/a")
    async with api.watch(config_maps, resourceVersion=start) as watch:
        frames = await watch.next_names(3)
    assert frames == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("start", ["", "0"])
async def test_a_watch_without_a_revision_starts_with_what_is_there(
    api: Api, pods: str, start: str
) -> None:
    await api.create(pods, pod("a"))
    await api.create(pods, pod("b"))
    query = {"resourceVersion": start} if start else {}
    async with api.watch(pods, **query) as watch:
        assert sorted(await watch.next_names(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await api.create(pods, pod("c"))
        assert await watch.next_names(1) == [("ADDED", "c")]


async def test_a_revision_older_than_the_history_is_gone(api: Api, widgets: Widgets) -> None:
    async with api.watch(widgets.path, resourceVersion="1") as watch:
        type_, status = await watch.next()
    assert type_ == "ERROR"
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def test_a_list_of_the_future_is_refused(api: Api, config_maps: str) -> None:
    status = expect(await api.send("GET", config_maps, resourceVersion=str(2**53)), 504)
    assert status["reason"] == "Timeout"
    assert status["message"].startswith(f"Timeout: Too large resource version: {2**53}, current: ")


async def test_updates_that_change_nothing_are_not_told(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", {"x": "1"}))
    start = await revision(api, config_maps)
    async with api.watch(config_maps, resourceVersion=start) as watch:
        await api.merge(f"{config_maps}/a", {"data": {"x": "1"}})
        await api.create(config_maps, config_map("b"))
        assert await watch.next_names(1) == [("ADDED", "b")]


async def test_a_selection_tells_who_moves_in_and_out(api: Api, config_maps: str) -> None:
    start = await revision(api, config_maps)
    query = {"labelSelector": "in=yes", "resourceVersion": start}
    async with api.watch(config_maps, **query) as watch:
        await api.create(config_maps, config_map("a"))
        await api.merge(f"{config_maps}/a", {"metadata": {"labels": {"in": "yes"}}})
        await api.merge(f"{config_maps}/a", {"data": {"x": "1"}})
        left = await api.merge(f"{config_maps}/a", {"metadata": {"labels": {"in": "no"}}})
        frames = [await watch.next() for _ in range(3)]
    assert [type_ for type_, _ in frames] == ["ADDED", "MODIFIED", "DELETED"]
    last = frames[2][1]["metadata"]
    assert last["labels"] == {"in": "yes"}
    assert last["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_field_selection_follows_pods_to_their_node(api: Api, pods: str) -> None:
    start = await revision(api, pods)
    query = {"fieldSelector": "spec.nodeName=nobodys-node", "resourceVersion": start}
    async with api.watch(pods, **query) as watch:
        await api.create(pods, pod("unbound"))
        await api.create(pods, pod("bound", node="nobodys-node"))
        assert await watch.next_names(1) == [("ADDED", "bound")]


async def test_a_watch_of_one_object(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    await api.create(config_maps, config_map("b"))
    async with api.watch(config_maps, fieldSelector="metadata.name=b") as watch:
        assert await watch.next_names(1) == [("ADDED", "b")]
        await api.merge(f"{config_maps}/a", {"data": {"x": "1"}})
        await api.merge(f"{config_maps}/b", {"data": {"x": "1"}})
        assert await watch.next_names(1) == [("MODIFIED", "b")]


async def test_other_namespaces_are_not_told(api: Api, config_maps: str) -> None:
    start = await revision(api, config_maps)
    async with api.watch(config_maps, resourceVersion=start) as watch:
        await api.create(
            "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "elsewhere-"}}
        )
        await api.create(config_maps, config_map("here"))
        assert await watch.next_names(1) == [("ADDED", "here")]


async def test_timeout_seconds_ends_a_watch(api: Api, config_maps: str) -> None:
    async with api.watch(config_maps, timeoutSeconds=1) as watch:
        frames = await watch.rest()
    assert all(type_ in {"ADDED", "MODIFIED"} for type_, _ in frames)


async def test_initial_events_end_with_a_bookmark(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(pods, **query) as watch:
        assert await watch.next_names(1) == [("ADDED", "a")]
        type_, bookmark = await watch.next()
        created = await api.create(pods, pod("b"))
        assert await watch.next() == ("ADDED", created)
    assert type_ == "BOOKMARK"
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("Pod", "v1")
    assert bookmark["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) > 0


async def test_initial_events_need_a_match_rule(api: Api, jobs: str) -> None:
    answer = await api.send("GET", jobs, watch="true", sendInitialEvents="true")
    assert answer.status in {400, 422}
    assert "resourceVersionMatch" in answer.body["message"]


async def test_bookmarks_come_before_a_watch_ends(api: Api, config_maps: str) -> None:
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": 3}
    async with api.watch(config_maps, **query) as watch:
        frames = await watch.rest()
    types = [type_ for type_, _ in frames]
    assert types[-1] == "BOOKMARK"


async def test_a_watch_as_tables(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    async with api.watch(jobs, headers={"Accept": TABLE}) as watch:
        type_, table = await watch.next()
        await api.merge(f"{jobs}/a", {"metadata": {"labels": {"x": "y"}}})
        _, second = await watch.next()
    assert (type_, table["kind"]) == ("ADDED", "Table")
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert table["rows"][0]["cells"][0] == second["rows"][0]["cells"][0] == "a"


async def test_many_watchers_hear_the_same(api: Api, config_maps: str) -> None:
    start = await revision(api, config_maps)

    async def hear() -> list[tuple[str, str]]:
        async with api.watch(config_maps, resourceVersion=start) as watch:
            return await watch.next_names(20)

    async with asyncio.TaskGroup() as group:
        heard = [group.create_task(hear()) for _ in range(10)]
        for index in range(20):
            await api.create(config_maps, config_map(f"c{index:02}"))
    want = [("ADDED", f"c{index:02}") for index in range(20)]
    assert [task.result() for task in heard] == [want] * 10
