"""``list -w``: what is yielded over interruptions, and how changes are printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import orjson
import pytest

from multiqueue.cli.kueuectl.kinds import CLUSTER_QUEUE
from multiqueue.cli.kueuectl.lists import ListQuery
from multiqueue.cli.kueuectl.watching import ChangePrinter, follow, in_batches
from multiqueue.kube.client import ObjectList
from multiqueue.kube.errors import Gone, KubeError, TransportError
from multiqueue.kube.wire import WatchEvent
from tests.virtual_time import virtual_time

Json = dict[str, Any]
QUERY = ListQuery(namespace=None, watch=True)


def queue(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def event(type_: str, obj: Json) -> WatchEvent:
    return WatchEvent(type=type_, raw=orjson.dumps(obj))


class ScriptedClient:
    """Answers lists and watches one after the other; an exception is raised at its place."""

    def __init__(self, *script: Any) -> None:
        self.script: Iterator[Any] = iter(script)
        self.watched_from: list[str] = []

    async def list(self, *_: Any, **__: Any) -> ObjectList[Json]:
        answer = next(self.script)
        if isinstance(answer, Exception):
            raise answer
        version, objects = answer
        return ObjectList(items=objects, resource_version=str(version))

    async def watch(
        self, *_: Any, resource_version: str, **__: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        self.watched_from.append(resource_version)
        for each in next(self.script):
            if isinstance(each, Exception):
                raise each
            yield each


async def seen(client: Any, count: int) -> list[list[str]]:
    """The first batches that are yielded, as name@version."""
    found: list[list[str]] = []
    async with aclosing(follow(client, CLUSTER_QUEUE, QUERY)) as batches:
        async for batch in batches:
            found.append(
                [f"{o['metadata']['name']}@{o['metadata']['resourceVersion']}" for o in batch]
            )
            if len(found) == count:
                return found
    raise AssertionError(found)


@virtual_time
async def test_a_list_is_followed_by_its_changes() -> None:
    client = ScriptedClient(
        (5, [queue("a", 1)]),
        [event("MODIFIED", queue("a", 6)), event("BOOKMARK", queue("", 8))],
        [event("DELETED", queue("a", 9))],
    )
    assert await seen(client, 3) == [["a@1"], ["a@6"], ["a@9"]]
    assert client.watched_from == ["5", "8"]


@pytest.mark.parametrize("error", [TransportError("reset"), Gone(410, message="too old")])
@virtual_time
async def test_after_a_break_only_what_changed_meanwhile_is_shown(error: KubeError) -> None:
    client = ScriptedClient(
        (5, [queue("a", 1), queue("b", 2)]),
        [event("MODIFIED", queue("a", 6)), error],
        (9, [queue("a", 6), queue("b", 8), queue("c", 9)]),
    )
    assert await seen(client, 3) == [["a@1", "b@2"], ["a@6"], ["b@8", "c@9"]]


@virtual_time
async def test_a_cluster_that_never_answered_is_an_error() -> None:
    with pytest.raises(TransportError):
        await seen(ScriptedClient(TransportError("refused")), 1)


async def broken() -> AsyncGenerator[list[Json], None]:
    yield [queue("a", 1)]
    raise TransportError("gone for good")


@virtual_time
async def test_changes_within_a_moment_are_shown_at_once_with_the_newest_state() -> None:
    async def slowly() -> AsyncGenerator[list[Json], None]:
        yield [queue("a", 1), queue("b", 1)]
        yield [queue("a", 2)]
        await asyncio.sleep(1)
        yield [queue("a", 3)]

    async with aclosing(in_batches(slowly())) as batches:
        assert await anext(batches) == [queue("a", 2), queue("b", 1)]
        assert await anext(batches) == [queue("a", 3)]


@virtual_time
async def test_an_error_ends_the_batches() -> None:
    async with aclosing(in_batches(broken())) as batches:
        with pytest.raises(TransportError):
            await anext(batches)


@pytest.mark.parametrize(
    ("form", "want"),
    [
        ("human", "NAME   AGE\na      1s\n"),
        ("name", "clusterqueue.kueue.x-k8s.io/a\n"),
        ("json", orjson.dumps(queue("a", 1)).decode() + "\n"),
        ("jsonpath={.metadata.name};", "a;"),
        ("custom-columns=N:.metadata.name,X:.x", "N   X\na   <none>\n"),
        ("yaml", "---\nmetadata:\n  name: a\n  uid: uid-a\n  resourceVersion: '1'\n"),
    ],
)
def test_each_form_prints_object_by_object(
    form: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    query = ListQuery(namespace=None, output=form, watch=True)
    printer = ChangePrinter(CLUSTER_QUEUE, query, ("NAME", "AGE"), with_namespace=False)
    printer.print([], [])
    printer.print([queue("a", 1)], [["a", "1s"]])
    assert capsys.readouterr().out == want
