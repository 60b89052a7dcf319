"""Answers of the fleet API: lists, single objects and watches.

`server` has authorized the user for the path. Here the native rights are checked, then rows are
read. ``If-None-Match`` with the current version gets 304, without any row being built.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson
from aiohttp import web

from multiqueue.api.names import key_of
from multiqueue.kube.clock import Clock
from multiqueue.serving.request import HttpRequest
from multiqueue.views.standing import write_time
from multiqueue.visibility import refusals
from multiqueue.visibility.answers import JSON, wanted_form
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction
from multiqueue.visibility.fleet.journal import Journal
from multiqueue.visibility.fleet.printing import print_table
from multiqueue.visibility.fleet.resources import (
    API_VERSION,
    BY_PLURAL,
    FEEDS,
    GROUP,
    LINES,
    STANDINGS,
    STORIES,
    VERSION,
    WHATIFS,
    FleetResource,
)
from multiqueue.visibility.fleet.rights import FleetRights
from multiqueue.visibility.fleet.rows import FleetRow, RowSource
from multiqueue.visibility.fleet.selection import (
    RowSelection,
    read_limit,
    read_place,
    read_selection,
    select,
    write_continue,
)
from multiqueue.visibility.fleet.standings import Standings, namespace_of
from multiqueue.visibility.fleet.stories import Stories
from multiqueue.visibility.fleet.whatifs import WhatIfAnswers

Json = dict[str, Any]

MAX_BYTES = 2 * 1024 * 1024
"""The greatest answer."""
PIECE = 100
"""Rows that are encoded before other tasks run; this takes about two milliseconds."""


class FleetAnswers:
    """Answers requests.

    Args:
        standings: The rows of Workloads.
        sources: The rows of the other resources, by plural.
        stories: Tells stories and lines.
        rights: Checks native rights.
        journal: Counts changes.
        clock: Tells the time.
        leading: Set while this manager leads.
        whatifs: Tries changes out.
    """

    def __init__(
        self,
        standings: Standings,
        sources: Mapping[str, RowSource],
        stories: Stories,
        *,
        rights: FleetRights,
        journal: Journal,
        clock: Clock,
        leading: asyncio.Event,
        whatifs: WhatIfAnswers,
    ) -> None:
        self._standings = standings
        self._sources = sources
        self._stories = stories
        self._rights = rights
        self._journal = journal
        self._clock = clock
        self._leading = leading
        self._whatifs = whatifs

    async def answer(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        """Answer one request of a user who is authorized for its path.

        Raises:
            StatusRefusal: the request cannot be answered.
        """
        resource = find_resource(http, action)
        await self._rights.require(user, resource, action.namespace, action.name)
        if resource is STORIES:
            return await self._tell(http, action, user)
        if resource is LINES:
            return await self._line(http, action, user)
        if resource is WHATIFS:
            return await self._try_out(http, action, user)
        source = self._sources[resource.plural]
        await source.refresh()
        if action.name:
            return await self._get(http, action, source)
        if (http.headers.get("If-None-Match") or "").strip() == f'"{self._journal.mark}"':
            return web.Response(status=304, headers=self.headers())
        return await self._list(http, action, source)

    # ---------------------------------------------------------------- lists and single rows

    async def _list(
        self, http: HttpRequest, action: ApiAction, source: RowSource
    ) -> web.StreamResponse:
        form = wanted_form(http.headers.get("Accept", ""))
        metadata = self.metadata()
        selection = read_selection(http.query)
        if source.resource is STANDINGS:
            keys, rest = await self.select(selection, action.namespace)
        else:
            _refuse_selectors(selection)
            found = list(source.list_keys())
            keys, rest = _cut(found, read_place(http.query), selection.limit)
        rows = await source.find_rows(keys)
        if rest:
            metadata["continue"] = rest
        if form != JSON:
            now = self._clock.now()
            table = print_table(source.resource.plural, rows, form, now=now, metadata=metadata)
            return web.Response(body=orjson.dumps(table), headers=self.headers())
        kind = f"{source.resource.kind}List"
        head = {"kind": kind, "apiVersion": API_VERSION, "metadata": metadata}
        return await self._send(head, [row.as_item() for row in rows])

    async def select(self, selection: RowSelection, namespace: str) -> tuple[list[str], str]:
        """Return the keys of the wanted Workloads, and ``continue``."""
        keys: Iterable[str] = self._standings.list_keys()
        if namespace:
            keys = (key for key in keys if namespace_of(key) == namespace)
        return await select(selection, keys, self._standings.find_facts)

    async def _get(
        self, http: HttpRequest, action: ApiAction, source: RowSource
    ) -> web.StreamResponse:
        key = key_of(action.namespace, action.name) if action.namespace else action.name
        rows = await source.find_rows([key])
        if not rows:
            raise not_found(source.resource, action.name)
        form = wanted_form(http.headers.get("Accept", ""))
        if form != JSON:
            now, metadata = self._clock.now(), self.metadata()
            table = print_table(source.resource.plural, rows, form, now=now, metadata=metadata)
            return web.Response(body=orjson.dumps(table), headers=self.headers())
        document = self.object_of(source.resource, rows[0])
        return web.Response(body=orjson.dumps(document), headers=self.headers())

    # ---------------------------------------------------------------- stories and lines

    async def _tell(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        metadata = self.metadata()
        status = await self._stories.tell(user, key_of(action.namespace, action.name))
        return self._single(http, STORIES, action, metadata, {"status": status})

    async def _line(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        metadata = self.metadata()
        line = await self._stories.line(
            user,
            action.namespace,
            action.name,
            limit=read_limit(http.query),
            first=read_place(http.query),
        )
        if line.rest:
            metadata["continue"] = line.rest
        body = {"status": line.status, "items": line.items}
        return self._single(http, LINES, action, metadata, body)

    async def _try_out(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        if not self._leading.is_set():
            raise refusals.not_leading()
        body = await self._whatifs.answer(user, action.namespace, await http.read())
        return self._single(http, WHATIFS, action, self.metadata(), body)

    def _single(
        self, http: HttpRequest, resource: FleetResource, action: ApiAction, about: Json, body: Json
    ) -> web.Response:
        if wanted_form(http.headers.get("Accept", "")) != JSON:
            raise refusals.not_acceptable()
        metadata: Json = {"name": action.name, **about}
        if action.namespace:
            metadata["namespace"] = action.namespace
        document = {
            "kind": resource.kind,
            "apiVersion": API_VERSION,
            "metadata": metadata,
            **body,
        }
        return web.Response(body=orjson.dumps(document), headers=self.headers())

    # ---------------------------------------------------------------- forms

    def metadata(self) -> Json:
        """Return the metadata of an answer that is made now."""
        return {
            "resourceVersion": str(self._journal.version),
            "asOf": write_time(self._clock.now()),
            "epoch": self._journal.epoch,
            "version": self._journal.version,
            "leading": self._leading.is_set(),
        }

    def object_of(self, resource: FleetResource, row: FleetRow) -> Json:
        """Return a row as an object of its own."""
        metadata = {**row.metadata, "resourceVersion": str(self._journal.version)}
        return {
            "kind": resource.kind,
            "apiVersion": API_VERSION,
            "metadata": metadata,
            "status": row.status,
        }

    def now(self) -> datetime:
        """Return the current time."""
        return self._clock.now()

    def headers(self) -> dict[str, str]:
        """Return the headers of an answer."""
        mark = f'"{self._journal.mark}"'
        return {"Content-Type": JSON, "Cache-Control": "no-cache, private", "ETag": mark}

    async def _send(self, head: Json, items: list[Json]) -> web.StreamResponse:
        """Encode a list in pieces, so that no piece takes long."""
        pieces = []
        for start in range(0, len(items), PIECE):
            pieces.append(orjson.dumps(items[start : start + PIECE])[1:-1])
            await asyncio.sleep(0)
        body = orjson.dumps(head)[:-1] + b',"items":[' + b",".join(pieces) + b"]}"
        if len(body) > MAX_BYTES:
            raise refusals.bad_request(
                f"the answer would have {len(body)} bytes, {MAX_BYTES} are allowed; ask for fewer "
                "rows with limit"
            )
        return web.Response(body=body, headers=self.headers())


def find_resource(http: HttpRequest, action: ApiAction) -> FleetResource:
    """Return the resource of a path that is served.

    Raises:
        StatusRefusal: 404 or 405, it is not.
    """
    resource = BY_PLURAL.get(action.resource)
    if resource is None or action.subresource or action.version != VERSION:
        raise refusals.no_such_path()
    where = f"namespaces/{action.namespace}/" if action.namespace else ""
    rest = f"/{action.name}" if action.name else ""
    if http.path != f"/apis/{GROUP}/{VERSION}/{where}{action.resource}{rest}":
        raise refusals.no_such_path()
    is_everywhere = resource.namespaced and (not action.name or resource is LINES)
    is_anywhere = is_everywhere or resource is FEEDS
    if bool(action.namespace) != resource.namespaced and not is_anywhere:
        raise refusals.no_such_path()
    if action.verb not in resource.verbs or http.method not in {"GET", "POST"}:
        raise refusals.method_not_allowed()
    return resource


def not_found(resource: FleetResource, name: str) -> refusals.StatusRefusal:
    """Say that there is no such object."""
    details = {"name": name, "group": GROUP, "kind": resource.plural}
    message = f'{resource.plural}.{GROUP} "{name}" not found'
    return refusals.StatusRefusal(404, "NotFound", message, details)


def _cut(keys: list[str], first: int, limit: int) -> tuple[list[str], str]:
    rest = write_continue((first + limit, "")) if first + limit < len(keys) else ""
    return keys[first : first + limit], rest


def _refuse_selectors(selection: RowSelection) -> None:
    if selection.needs_facts:
        raise refusals.bad_request(
            "fieldSelector, labelSelector, search and sortBy are for standings only"
        )
