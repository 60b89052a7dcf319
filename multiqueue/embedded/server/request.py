"""One HTTP request for handlers: query, user, requested representation, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import orjson
from aiohttp import web

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.authz.entrance import Entrance
from multiqueue.embedded.server.body import media_type, too_large, too_slow
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.query import (
    is_set,
    parse_dry_run,
    parse_field_manager,
    parse_field_validation,
    parse_int64,
)
from multiqueue.embedded.server.status import (
    StatusError,
    not_acceptable,
)
from multiqueue.serving.request import BodyTimeout

JSON = "application/json"
Form = Literal["Object", "Table", "PartialObjectMetadata"]
_ANY = {"*/*", "application/*", JSON}


@dataclass(slots=True)
class ServerRequest:
    """A request of a known user."""

    http: web.BaseRequest
    objects: Objects
    entrance: Entrance
    user: ApiUser
    query: Mapping[str, str]
    wanted: Form
    """What the Accept header asks for."""
    warnings: list[str] = field(default_factory=list)

    def call(self) -> Call:
        """The context of the operation that this request asks for.

        Raises:
            StatusError: 400, a query parameter is malformed.
        """
        call = self.objects.call(
            self.user,
            dry_run=parse_dry_run(self.query),
            field_validation=parse_field_validation(self.query),
            field_manager=parse_field_manager(self.query, _OPTIONS.get(self.http.method, "")),
            user_agent=self.http.headers.get("User-Agent", ""),
        )
        call.warnings = self.warnings
        return call

    def flag(self, name: str) -> bool:
        """A boolean query parameter, as Go parses it."""
        return is_set(self.query, name)

    def number(self, name: str) -> int | None:
        """An integer query parameter.

        Raises:
            StatusError: 400.
        """
        return parse_int64(self.query[name]) if name in self.query else None

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            StatusError: 408, 413.
        """
        try:
            return await self.http.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large() from error
        except BodyTimeout as error:
            raise too_slow(error.text or "") from error

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters."""
        return media_type(self.http.headers.get("Content-Type", ""))

    def answer(self, body: bytes, *, status: int = 200) -> web.Response:
        """An answer with JSON that is already encoded."""
        headers = {"Cache-Control": "no-cache, private"}
        response = web.Response(body=body, status=status, headers=headers, content_type=JSON)
        for warning in self.warnings:
            response.headers.add("Warning", f"299 - {_quoted(warning)}")
        return response

    def answer_object(self, obj: JsonObject, *, status: int = 200) -> web.Response:
        """An answer with an object."""
        return self.answer(orjson.dumps(obj), status=status)


def parse_accept(accept: str) -> Form:
    """The first representation in an Accept header that can be produced.

    Raises:
        StatusError: 406.
    """
    if not accept or accept in _ANY:
        return "Object"
    for clause in accept.split(","):
        name, *parameters = (part.strip() for part in clause.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        if name not in _ANY:
            continue
        wanted = given.get("as", "")
        if not wanted:
            return "Object"
        if given.get("g") == "meta.k8s.io" and given.get("v") == "v1":
            if wanted == "Table":
                return "Table"
            if wanted in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
                return "PartialObjectMetadata"
    raise not_acceptable((JSON,))


def status_response(error: StatusError) -> web.Response:
    """The answer to a request that failed."""
    return web.Response(
        body=orjson.dumps(error.body()), status=error.code, headers=error.headers, content_type=JSON
    )


_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def _quoted(text: str) -> str:
    """A quoted-string of RFC 7230, on one line and without control characters."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    safe = shown.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + " ".join(safe.split()) + '"'
