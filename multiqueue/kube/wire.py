"""The wire format: pages of lists, watch frames, query parameters, and names of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import orjson

from multiqueue.kube.errors import KubeError, TransportError, build_api_error
from multiqueue.kube.resources import Resource
from multiqueue.kube.sizes import check_parts
from multiqueue.lib import bounded_json

T = TypeVar("T")
Json = dict[str, Any]
Params = dict[str, str]

BOOKMARK = "BOOKMARK"
UNREADABLE = (
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""Errors of decoders for unexpected data."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: ADDED, MODIFIED, DELETED, or BOOKMARK whose object has a resourceVersion only."""

    type: str
    raw: bytes


class _Frame(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class ListMeta(msgspec.Struct, gc=False, rename="camel"):
    """Metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct, gc=False):
    """One page of a list; its items are views on the answer, so copy those that you keep."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class _Owner(msgspec.Struct, gc=False, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


class _Object(msgspec.Struct, gc=False, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata | None = None


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_page = msgspec.json.Decoder(ListPage).decode
_check_shape = msgspec.json.Decoder(_Object).decode


def parse_page(body: bytes, what: str) -> ListPage:
    """Cut the answer to a list into its items.

    Raises:
        TransportError: it is not a list; perhaps a proxy answered.
    """
    try:
        return _decode_page(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TransportError(f"{what}: the answer is no list: {error}") from error


def parse_frame(line: bytes, what: str, secrets: Callable[[], Iterable[str]] = tuple) -> WatchEvent:
    """Cut one line of a watch into type and object.

    Args:
        line: One line of the stream.
        what: The watch in words, for errors.
        secrets: Returns the secrets to redact in errors, see `list_secrets`.

    Raises:
        ApiError: the line is an error of the server, usually `Gone`.
        AnswerTooLarge: the object has too many values.
        TransportError: it is not a watch event; perhaps a proxy answered.
    """
    check_parts(line, what)
    try:
        frame = _decode_frame(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TransportError(f"{what}: the stream is no watch: {error}") from error
    raw = bytes(frame.object)
    if frame.type == "ERROR":
        raise _stream_error(raw, what, secrets())
    return WatchEvent(frame.type, raw)


def read_answer(body: bytes, decode: Callable[[bytes], T], what: str) -> T:
    """Decode a server's answer.

    Raises:
        TransportError: the answer cannot be decoded.
    """
    try:
        return decode(body)
    except UNREADABLE as error:
        raise TransportError(f"{what}: the answer cannot be read: {error}") from error


def parse_object(data: bytes) -> Json:
    """Decode an object to a dict with checked metadata.

    Raises:
        ValueError: it is not an object, or its metadata breaks the rules of the API.
    """
    try:
        _check_shape(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"no object: {error}") from error
    obj: Json = bounded_json.load(data, max_containers=None)  # `check_parts` has bounded it
    return obj


def build_loader(resource: Resource) -> Callable[[bytes], Json]:
    """Return a decoder to dicts that adds apiVersion and kind to items of built-in lists."""
    api_version, kind = resource.api_version, resource.kind

    def load(data: bytes) -> Json:
        obj = parse_object(data)
        return obj if "kind" in obj else {"apiVersion": api_version, "kind": kind, **obj}

    return load


def encode(body: Any) -> bytes | None:
    """Return the bytes of a request body."""
    return body if body is None or isinstance(body, bytes) else orjson.dumps(body)


def build_params(**params: str | None) -> Params:
    """Return the parameters that are set."""
    return {key: value for key, value in params.items() if value}


def describe(
    verb: str,
    resource: Resource,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return a request in words: ``PATCH workloads/status "team-a/train"``."""
    what = f"{verb} {resource.plural}"
    if subresource:
        what += f"/{subresource}"
    key = "/".join(part for part in (namespace if resource.namespaced else None, name) if part)
    return f'{what} "{key}"' if key else what


def _stream_error(raw: bytes, what: str, secrets: Iterable[str]) -> KubeError:
    try:
        status = orjson.loads(raw)
        code = status.get("code") or 500
    except (ValueError, AttributeError):
        status = code = None
    if not isinstance(code, int):
        return TransportError(f"{what}: the stream ended with an unreadable error")
    return build_api_error(
        code if 400 <= code <= 599 else 500, status, request=what, secrets=secrets
    )
