"""What stands on the wire: pages of lists, watch frames, query parameters, and requests in
words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from multiqueue.kube.errors import KubeError, TransportError, build_api_error
from multiqueue.kube.resources import Resource

Json = dict[str, Any]
Params = dict[str, str]

BOOKMARK = "BOOKMARK"


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


class Page(msgspec.Struct, gc=False):
    """One page of a list; its items are views on the answer, so copy what outlives it."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_page = msgspec.json.Decoder(Page).decode


def parse_page(body: bytes, what: str) -> Page:
    """Cut the answer to a list into its items.

    Raises:
        TransportError: something else answered, a proxy perhaps.
    """
    try:
        return _decode_page(body)
    except msgspec.MsgspecError as error:
        raise TransportError(f"{what}: the answer is no list: {error}") from error


def parse_frame(line: bytes, what: str) -> WatchEvent:
    """Cut one line of a watch into type and object.

    Raises:
        ApiError: the line is an error of the server, `Gone` above all.
        TransportError: something else answered, a proxy perhaps.
    """
    try:
        frame = _decode_frame(line)
    except msgspec.MsgspecError as error:
        raise TransportError(f"{what}: the stream is no watch: {error}") from error
    raw = bytes(frame.object)
    if frame.type == "ERROR":
        raise _stream_error(raw, what)
    return WatchEvent(frame.type, raw)


def build_loader(resource: Resource) -> Callable[[bytes], Json]:
    """Return a decoder to dicts that gives items of built-in lists their apiVersion and kind
    back.
    """
    api_version, kind = resource.api_version, resource.kind

    def load(data: bytes) -> Json:
        obj: Json = orjson.loads(data)
        return obj if "kind" in obj else {"apiVersion": api_version, "kind": kind, **obj}

    return load


def encode(body: Any) -> bytes | None:
    """Return the bytes of a request body."""
    return body if body is None or isinstance(body, bytes) else orjson.dumps(body)


def build_params(**params: str | None) -> Params:
    """Return the parameters that say something."""
    return {key: value for key, value in params.items() if value}


def describe(
    verb: str,
    resource: Resource,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """``PATCH workloads/status "team-a/train"``."""
    what = f"{verb} {resource.plural}"
    if subresource:
        what += f"/{subresource}"
    key = "/".join(part for part in (namespace if resource.namespaced else None, name) if part)
    return f'{what} "{key}"' if key else what


def _stream_error(raw: bytes, what: str) -> KubeError:
    try:
        status = orjson.loads(raw)
        code = int(status.get("code") or 500)
    except (ValueError, TypeError, AttributeError):
        return TransportError(f"{what}: the stream ended with an unreadable error")
    return build_api_error(code, status, request=what)
