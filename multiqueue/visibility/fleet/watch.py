"""Watches of the fleet API, as kubectl and client libraries know them: one JSON event a line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson
from aiohttp import web

from multiqueue.lib.digits import is_number
from multiqueue.serving.request import HttpRequest
from multiqueue.visibility.answers import JSON, wanted_form
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction
from multiqueue.visibility.fleet.answers import FleetAnswers
from multiqueue.visibility.fleet.journal import Journal
from multiqueue.visibility.fleet.pace import Pace
from multiqueue.visibility.fleet.printing import print_table
from multiqueue.visibility.fleet.resources import STANDINGS, FleetResource
from multiqueue.visibility.fleet.rights import FleetRights, Recheck
from multiqueue.visibility.fleet.rows import FleetRow, RowSource
from multiqueue.visibility.fleet.selection import RowSelection, read_selection
from multiqueue.visibility.fleet.standings import Standings, namespace_of
from multiqueue.visibility.refusals import StatusRefusal, bad_request

Json = dict[str, Any]

INTERVAL_SECONDS = 0.25
DEFAULT_SECONDS, MAX_SECONDS = 300.0, 3600.0
"""How long a watch lasts; clients begin the next where it ended."""
REVIEW_SECONDS = 30.0
"""How often rights are asked for again."""
WRITE_SECONDS = 20.0
"""How long a reader may take nothing."""
MAX_ROWS = 500
"""Rows that are read at once."""


class FleetWatches:
    """Serves watches.

    Args:
        answers: Makes objects and metadata.
        standings: The rows of Workloads.
        rights: Checks native rights.
        journal: Knows what changed.
        closing: Set when the server stops.
        interval: Seconds between two looks for changes.
        review: Seconds between two checks of rights and credentials.
    """

    def __init__(
        self,
        answers: FleetAnswers,
        standings: Standings,
        *,
        rights: FleetRights,
        journal: Journal,
        closing: asyncio.Event,
        interval: float = INTERVAL_SECONDS,
        review: float = REVIEW_SECONDS,
    ) -> None:
        self._interval = interval
        self._review = review
        self._answers = answers
        self._standings = standings
        self._rights = rights
        self._journal = journal
        self._closing = closing

    async def serve(
        self,
        http: HttpRequest,
        action: ApiAction,
        user: AuthenticatedUser,
        source: RowSource,
        recheck: Recheck,
    ) -> web.StreamResponse:
        """Send changes until the time is over, the reader leaves, or a right is lost.

        Args:
            http: The request.
            action: Its action.
            user: Who reads.
            source: The rows.
            recheck: Raises `StatusRefusal` once the reader's credentials are not valid any more.

        Raises:
            StatusRefusal: the watch cannot begin.
        """
        await self._rights.require_watch(user, source.resource, action)
        selection = read_selection(http.query)
        if selection.needs_facts and source.resource is not STANDINGS:
            raise bad_request("fieldSelector and labelSelector are for standings only")
        since, seconds = _read_since(http), _read_seconds(http)
        form = wanted_form(http.headers.get("Accept", ""))
        events = self._events(source, action, since=since, selection=selection, form=form)
        loop = asyncio.get_running_loop()
        review_at = loop.time() + self._review
        response = web.StreamResponse(
            headers={"Content-Type": JSON, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        await response.prepare(http)
        try:
            async with asyncio.timeout(seconds):
                async for event in events:
                    if http.transport is None or http.transport.is_closing():
                        break
                    if loop.time() >= review_at:
                        review_at = loop.time() + self._review
                        await recheck()
                        await self._rights.require_watch(user, source.resource, action)
                    if event:
                        await _write(response, event)
        except TimeoutError:
            pass  # the client begins the next watch where this one ended
        except StatusRefusal as refusal:
            await _write(response, _error(refusal.code, refusal.reason, str(refusal)))
        except ConnectionError:
            return response  # the reader has left
        finally:
            await events.aclose()
        await response.write_eof()
        return response

    async def _events(
        self,
        source: RowSource,
        action: ApiAction,
        *,
        since: int | None,
        selection: RowSelection,
        form: str,
    ) -> AsyncGenerator[bytes, None]:
        """Yield events; empty ones while nothing happens, so that a reader who left is noticed."""
        pace, topic = Pace(self._interval, self._closing), source.resource.plural
        await source.refresh()
        is_first, version = since is None, self._journal.version if since is None else since
        if not is_first and not self._journal.knows_since(topic, version):
            yield _error(410, "Expired", "too old resource version: list again")
            return
        pending = [key for key in source.list_keys() if _is_in(key, action)] if is_first else []
        while True:
            for start in range(0, len(pending), MAX_ROWS):
                keys = pending[start : start + MAX_ROWS]
                rows = {row.key: row for row in await source.find_rows(keys)}
                for key in keys:
                    row = self._chosen(rows.get(key), selection)
                    if row is not None or not is_first:
                        type_ = "DELETED" if row is None else "ADDED" if is_first else "MODIFIED"
                        yield self._event(source.resource, type_, key, row, form)
            if not await pace.wait():
                return
            await source.refresh()
            is_first = False
            if not self._journal.knows_since(topic, version):
                yield _error(410, "Expired", "too many changes at once: list again")
                return
            changed = self._journal.since(topic, version)
            version = changed[-1][1] if changed else version
            pending = [key for key, _ in changed if _is_in(key, action)]
            yield b""

    def _chosen(self, row: FleetRow | None, selection: RowSelection) -> FleetRow | None:
        if row is None or not selection.needs_facts:
            return row
        facts = self._standings.find_facts(row.key)
        return row if facts is not None and selection.takes(facts) else None

    def _event(
        self, resource: FleetResource, type_: str, key: str, row: FleetRow | None, form: str
    ) -> bytes:
        if row is None:
            row = _gone(resource, key)
        if form != JSON:
            now, metadata = self._answers.now(), self._answers.metadata()
            told = print_table(resource.plural, [row], form, now=now, metadata=metadata)
        else:
            told = self._answers.object_of(resource, row)
        return orjson.dumps({"type": type_, "object": told}) + b"\n"


def _gone(resource: FleetResource, key: str) -> FleetRow:
    """Return a row for what does not exist any more: its identity alone."""
    namespace, _, name = key.rpartition("/")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    empty: Json = dict.fromkeys(resource.columns)
    empty |= {field: [] for field in ("offeredTo", "quotas", "flavors") if field in empty}
    empty |= {field: "Deleted" for field in ("phase",) if field in empty}
    empty |= {field: {"state": "Deleted"} for field in ("use",) if field in empty}
    return FleetRow(key, metadata, empty, b"")


def _is_in(key: str, action: ApiAction) -> bool:
    return not action.namespace or namespace_of(key) == action.namespace


def _error(code: int, reason: str, message: str) -> bytes:
    status = StatusRefusal(code, reason, message).body()
    return orjson.dumps({"type": "ERROR", "object": status}) + b"\n"


def _read_since(http: HttpRequest) -> int | None:
    text = http.query.get("resourceVersion") or "0"
    if not is_number(text):
        raise bad_request(f'resourceVersion: Invalid value: "{text[:80]}": must be a number')
    return int(text) or None


def _read_seconds(http: HttpRequest) -> float:
    text = http.query.get("timeoutSeconds") or "0"
    if not is_number(text):
        raise bad_request(f'timeoutSeconds: Invalid value: "{text[:80]}": must be a number')
    return min(float(text) or DEFAULT_SECONDS, MAX_SECONDS)


async def _write(response: web.StreamResponse, data: bytes) -> None:
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(data)
    except TimeoutError as error:
        raise ConnectionResetError("the reader takes nothing") from error
