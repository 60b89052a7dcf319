"""``list -w``: the objects of a list, then each that changes, as ``kubectl get -w`` prints them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import click
import orjson

from multiqueue.cli.kueuectl.changes import title_of
from multiqueue.cli.kueuectl.kinds import KueuectlKind
from multiqueue.cli.kueuectl.lists import ListQuery, list_pages
from multiqueue.cli.output import COLUMNS, RowPrinter, echo, print_data
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Gone, KubeError
from multiqueue.kube.retries import FOLLOWED

Json = dict[str, Any]
BATCH_SECONDS = 0.25
"""Changes within this time are shown together: what their rows need is asked once."""


async def follow(
    client: KubeClient, kind: KueuectlKind, query: ListQuery
) -> AsyncGenerator[list[Json], None]:
    """Yield the objects of a list, then what changes; a deleted object as it was last.

    A lost connection is tried again; then what changed meanwhile is yielded.

    Raises:
        KubeError: the list cannot be read at all, or not any more.
    """
    known: dict[str, str] | None = None
    pauses = FOLLOWED.pauses()
    head = {"apiVersion": kind.resource.api_version, "kind": kind.kind}
    while True:
        try:
            listed = await list_pages(client, kind, query)
            before, known = known or {}, {_uid(each): _version(each) for each in listed.items}
            changed = [each for each in listed.items if before.get(_uid(each)) != _version(each)]
            yield [{**head, **each} for each in changed]
            version = listed.resource_version
            while True:
                events = client.watch(
                    kind.resource,
                    resource_version=version,
                    namespace=query.namespace if kind.namespaced else None,
                    label_selector=query.selector,
                    field_selector=query.field_selector,
                )
                async with aclosing(events):
                    async for event in events:
                        pauses.reset()
                        obj: Json = orjson.loads(event.raw)
                        version = _version(obj)
                        if event.type != "BOOKMARK":
                            known[_uid(obj)] = version
                            yield [{**head, **obj}]
                await asyncio.sleep(FOLLOWED.first)  # servers end streams after some minutes
        except Gone:
            await asyncio.sleep(pauses.next())
        except KubeError as error:
            if known is None or not error.retryable:
                raise
            click.echo(f"the cluster does not answer, trying again: {error}", err=True)
            await asyncio.sleep(pauses.next())


async def in_batches(changes: AsyncGenerator[list[Json], None]) -> AsyncGenerator[list[Json], None]:
    """Yield changes that come shortly after each other at once, the newest of each object."""
    queue: asyncio.Queue[list[Json] | BaseException] = asyncio.Queue(1000)

    async def pump() -> None:
        try:
            async for change in changes:
                await queue.put(change)
        except KubeError as error:
            await queue.put(error)

    task = asyncio.create_task(pump())
    try:
        while True:
            taken = [await queue.get()]
            await asyncio.sleep(BATCH_SECONDS)
            taken += [queue.get_nowait() for _ in range(queue.qsize())]
            newest: dict[str, Json] = {}
            for each in taken:
                if isinstance(each, BaseException):
                    raise each
                newest |= {_uid(obj): obj for obj in each}
            yield list(newest.values())
    finally:
        task.cancel()
        await asyncio.wait([task])
        await changes.aclose()


class ChangePrinter:
    """Prints objects one by one, in the form of ``-o``; JSON is one object a line.

    Args:
        kind: The kind of the objects.
        query: The list, with the form.
        headers: The titles of the rows.
        with_namespace: Whether the first column is the namespace.
    """

    def __init__(
        self,
        kind: KueuectlKind,
        query: ListQuery,
        headers: Sequence[str],
        *,
        with_namespace: bool,
    ) -> None:
        self._kind = kind
        self._form = query.output
        self._with_namespace = with_namespace
        self._columns = _read_columns(query.output)
        titles = [title for title, _ in self._columns] or list(headers)
        self.has_rows = query.output in {"human", "wide"}
        before = ["NAMESPACE"] if with_namespace and self.has_rows else []
        self._table = RowPrinter([*before, *titles])

    def print(self, objects: Sequence[Json], rows: Sequence[Sequence[Any]]) -> None:
        """Print objects; their rows count if the form is a table."""
        if self.has_rows:
            if self._with_namespace:
                places = [each["metadata"]["namespace"] for each in objects]
                rows = [[place, *row] for place, row in zip(places, rows, strict=True)]
            self._table.print_all(rows)
        elif self._columns:
            self._table.print_all([[cell(obj) for _, cell in self._columns] for obj in objects])
        else:
            for each in objects:
                self._print_one(each)

    def _print_one(self, obj: Json) -> None:
        if self._form == "json":
            click.echo(orjson.dumps(obj).decode())
        elif self._form == "name":
            echo(title_of(self._kind.resource, obj["metadata"]["name"]))
        else:
            if self._form == "yaml":
                click.echo("---")
            print_data(obj, self._form)


def _read_columns(form: str) -> tuple[tuple[str, Callable[[Any], str]], ...]:
    from multiqueue.cli.templates import compile_columns

    return compile_columns(form.removeprefix(COLUMNS)) if form.startswith(COLUMNS) else ()


def _uid(obj: Json) -> str:
    return str(obj["metadata"].get("uid"))


def _version(obj: Json) -> str:
    return str(obj["metadata"]["resourceVersion"])
