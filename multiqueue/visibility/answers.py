"""Routes of the visibility API. A request gets here only once its user is authorized."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from multiqueue.api.names import key_of
from multiqueue.serving.request import HttpRequest
from multiqueue.visibility import documents, remote_documents
from multiqueue.visibility.authorization import ApiAction
from multiqueue.visibility.fleet import documents as fleet_documents
from multiqueue.visibility.fleet import resources as fleet_resources
from multiqueue.visibility.positions import PositionReader, Positions
from multiqueue.visibility.refusals import (
    GROUP,
    StatusRefusal,
    method_not_allowed,
    not_acceptable,
    queue_not_found,
)
from multiqueue.visibility.summary import (
    PIECE,
    VERSIONS,
    FindWorkload,
    build_items,
    build_table,
    encode,
    places,
    read_page,
)

JSON = "application/json"
_QUEUES = {plural: (singular, namespaced) for plural, singular, _, namespaced in documents.QUEUES}


class Answers:
    """Answers requests of authorized users.

    Args:
        positions: Reads the queues' orders.
        find: Returns a Workload by its key.
    """

    def __init__(self, positions: PositionReader, find: FindWorkload) -> None:
        self._positions = positions
        self._find = find

    async def answer(self, http: HttpRequest, action: ApiAction) -> web.StreamResponse:
        """Answer one request.

        Raises:
            StatusRefusal: the resource does not exist, or cannot be had this way.
        """
        if http.method not in {"GET", "HEAD"}:
            raise method_not_allowed()
        if action.resource:
            return await self._answer_resource(http, action)
        accept = http.headers.get("Accept", "")
        match action.path.strip("/").split("/"):
            case ["healthz" | "livez" | "readyz"]:
                return web.Response(text="ok")
            case ["version"]:
                return _json(documents.version())
            case ["openapi", *rest]:
                return _openapi(rest)
            case ["apis", *rest]:
                return _describe_groups(rest, accept)
        return _page_not_found()

    async def _answer_resource(self, http: HttpRequest, action: ApiAction) -> web.StreamResponse:
        known = _QUEUES.get(action.resource)
        if (
            known is None
            or action.group != GROUP
            or action.version not in VERSIONS
            or action.subresource != documents.PENDING
            or known[1] is not bool(action.namespace)
        ):
            return _page_not_found()
        form = wanted_form(http.headers.get("Accept", ""))
        page = read_page(http.query)
        if action.namespace:
            local_queue = key_of(action.namespace, action.name)
            positions = await self._positions.of_local_queue(local_queue)
        else:
            local_queue = None
            positions = await self._positions.of_cluster_queue(action.name)
        if positions is None:
            raise queue_not_found(known[0], action.name)
        wanted = places(positions, page, local_queue)
        if form != JSON:
            return await self._answer_table(positions, wanted, form)
        return await _send(http, encode(action.version, positions, wanted, self._find))

    async def _answer_table(
        self, positions: Positions, wanted: Any, version: str
    ) -> web.StreamResponse:
        items: list[Mapping[str, Any]] = []
        for start in range(0, len(wanted), PIECE):
            items += build_items(positions, wanted[start : start + PIECE], self._find)
            await asyncio.sleep(0)
        return _json(build_table(items, version))


async def _send(http: HttpRequest, pieces: Any) -> web.StreamResponse:
    """Send a document: small ones with a length, large ones in chunks as they are made."""
    begin = [piece for piece, _ in zip(pieces, range(3), strict=False)]
    rest = next(pieces, None)
    headers = {"Content-Type": JSON, "Cache-Control": "no-cache, private"}
    if rest is None:
        return web.Response(body=b"".join(begin), headers=headers)
    response = web.StreamResponse(headers=headers)
    await response.prepare(http)
    await response.write(b"".join(begin) + rest)
    for piece in pieces:
        await asyncio.sleep(0)
        await response.write(piece)
    await response.write_eof()
    return response


def wanted_form(accept: str) -> str:
    """Return ``application/json``, or the version of meta.k8s.io in which a Table is wanted."""
    for choice in accept.split(",") if accept else ("*/*",):
        media, *parameters = (part.strip() for part in choice.split(";"))
        options = dict(part.partition("=")[::2] for part in parameters)
        if media not in {JSON, "*/*", "application/*"}:
            continue
        if options.get("as") == "Table" and options.get("v") in {"v1", "v1beta1"}:
            return options["v"]
        if not options.get("as"):
            return JSON
    raise not_acceptable()


def _describe_groups(rest: list[str], accept: str) -> web.Response:
    match rest:
        case []:
            wanted = documents.wanted_discovery(accept)
            if wanted is None:
                return _json(documents.group_list())
            type_ = f"{JSON};g={documents.DISCOVERY_GROUP};v={wanted};as=APIGroupDiscoveryList"
            return _json(documents.aggregated(wanted), type_)
        case [group] if group == GROUP:
            return _json(documents.group())
        case [remote_documents.GROUP]:
            return _json({"kind": "APIGroup", "apiVersion": "v1", **remote_documents.group()})
        case [fleet_resources.GROUP]:
            return _json({"kind": "APIGroup", "apiVersion": "v1", **fleet_documents.group()})
        case [group, version] if group == GROUP and version in VERSIONS:
            return _json(documents.resource_list(version))
        case [remote_documents.GROUP, remote_documents.VERSION]:
            return _json(remote_documents.resource_list())
        case [fleet_resources.GROUP, fleet_resources.VERSION]:
            return _json(fleet_documents.resource_list())
    return _page_not_found()


def _openapi(rest: list[str]) -> web.Response:
    match rest:
        case ["v2"]:
            return _bytes(documents.openapi_v2())
        case ["v3"]:
            return _json(documents.openapi_v3_index())
        case ["v3", "apis", group, version] if group == GROUP and version in VERSIONS:
            headers = {"ETag": f'"{documents.openapi_hash(version)}"'}
            return _bytes(documents.openapi_v3(version), headers)
    return _page_not_found()


def status_response(refusal: StatusRefusal) -> web.Response:
    """Return the response for a refused request."""
    seconds = (refusal.details or {}).get("retryAfterSeconds", 1)
    headers = {"Retry-After": str(seconds)} if refusal.code == 429 else {}
    body = orjson.dumps(refusal.body())
    return web.Response(body=body, status=refusal.code, content_type=JSON, headers=headers)


def _json(document: Mapping[str, Any], content_type: str = JSON) -> web.Response:
    return web.Response(body=orjson.dumps(document), headers={"Content-Type": content_type})


def _bytes(document: bytes, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=document, headers={"Content-Type": JSON, **(headers or {})})


def _page_not_found() -> web.Response:
    """Return the answer of Go's HTTP server, which Kubernetes clients know."""
    return web.Response(text="404 page not found\n", status=404)
