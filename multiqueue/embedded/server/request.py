"""One HTTP request as handlers need it: query, user, wanted representation, and how to answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

import orjson
from aiohttp import web

from multiqueue.embedded.server.auth import User
from multiqueue.embedded.server.body import media_type, too_large, too_slow
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.managed.tracking import check_manager
from multiqueue.embedded.server.plane import Call, ControlPlane
from multiqueue.embedded.server.schema import FieldValidation
from multiqueue.embedded.server.status import (
    StatusError,
    bad_request,
    invalid_options,
    not_acceptable,
)
from multiqueue.serving.request import BodyTimeout

JSON = "application/json"
YAML = "application/yaml"
Form = Literal["Object", "Table", "PartialObjectMetadata"]
_ACCEPTED = (JSON, YAML)
MAX_INT64, MAX_DIGITS = 2**63 - 1, 20
_ANY = {"*/*", "application/*", JSON}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the Accept header asks for."""

    form: Form = "Object"
    media_type: str = JSON
    meta_version: str = "v1"


_PLAIN = Wanted()


@dataclass(slots=True)
class Request:
    """A request of a known user."""

    http: web.BaseRequest
    plane: ControlPlane
    user: User
    query: Mapping[str, str]
    wanted: Wanted
    warnings: list[str] = field(default_factory=list)

    def call(self) -> Call:
        """The context of the operation that this request asks for.

        Raises:
            StatusError: 400, a query parameter is malformed.
        """
        call = self.plane.call(
            self.user,
            dry_run=_dry_run(self.query.get("dryRun", "")),
            field_validation=_validation(self.query),
            field_manager=field_manager(self.query, _OPTIONS.get(self.http.method, "")),
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
        content_type = JSON
        if self.wanted.media_type == YAML:
            body, content_type = to_yaml(body), YAML
        response = web.Response(
            body=body, status=status, headers=headers, content_type=content_type
        )
        for warning in self.warnings:
            response.headers.add("Warning", f"299 - {_quoted(warning)}")
        return response

    def answer_object(self, obj: JsonObject, *, status: int = 200) -> web.Response:
        """An answer with an object."""
        return self.answer(orjson.dumps(obj), status=status)


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Whether a boolean query parameter says yes, as Go parses it."""
    value = query.get(name)
    return value is not None and value.lower() not in {"0", "false", "f"}


def parse_accept(accept: str) -> Wanted:
    """The first representation in an Accept header that can be produced.

    Raises:
        StatusError: 406.
    """
    if not accept or accept in _ANY:
        return _PLAIN
    for clause in accept.split(","):
        name, *parameters = (part.strip() for part in clause.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        if name not in {*_ANY, YAML}:
            continue
        kind = YAML if name == YAML else JSON
        wanted = given.get("as", "")
        if not wanted:
            return Wanted("Object", kind)
        if given.get("g") == "meta.k8s.io" and given.get("v") in {"v1", "v1beta1"}:
            if wanted == "Table":
                return Wanted("Table", kind, given["v"])
            if wanted in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
                return Wanted("PartialObjectMetadata", kind, given["v"])
    raise not_acceptable(_ACCEPTED)


def status_response(error: StatusError) -> web.Response:
    """The answer to a request that failed."""
    return web.Response(
        body=orjson.dumps(error.body()), status=error.code, headers=error.headers, content_type=JSON
    )


def to_yaml(body: bytes) -> bytes:
    """JSON as YAML."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(orjson.loads(body), Dumper=dumper)
    return text.encode()


def parse_int64(text: str) -> int:
    """A number as Go reads it.

    Raises:
        StatusError: 400.
    """
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = int(text) if len(text) <= MAX_DIGITS else MAX_INT64 + 1
    if not -MAX_INT64 - 1 <= number <= MAX_INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def _dry_run(value: str) -> bool:
    if value not in {"", "All"}:
        raise bad_request(
            f'Invalid value: "{value}": dryRun: Unsupported value: "{value}": supported values: '
            '"All"'
        )
    return value == "All"


def _validation(query: Mapping[str, str]) -> FieldValidation:
    value = query.get("fieldValidation") or "Warn"
    if value not in {"Strict", "Warn", "Ignore"}:
        supported = '"Ignore", "Strict", "Warn"'
        raise bad_request(
            f'fieldValidation: Unsupported value: "{value}": supported values: {supported}'
        )
    return cast("FieldValidation", value)


_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def field_manager(query: Mapping[str, str], options: str) -> str:
    """The query parameter ``fieldManager``; ``options`` names the kind that it is a field of.

    Raises:
        StatusError: 422.
    """
    manager = query.get("fieldManager", "")
    if manager and options and (causes := check_manager(manager)):
        raise invalid_options(options, causes)
    return manager


def _quoted(text: str) -> str:
    """A quoted-string of RFC 7230, on one line and without control characters."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    safe = shown.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + " ".join(safe.split()) + '"'


def first_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first value of each query parameter."""
    query: dict[str, str] = {}
    for name, value in pairs:
        query.setdefault(name, value)
    return query
