"""ConversionReview v1: converts objects of our kinds to another version. Pure.

The API server wants all or nothing: one object that cannot be converted fails the review, and the
message names it. A field of a wrong type does not fail it. For its webhooks an API server converts
objects before it checks the schema, so such fields pass through, and the schema check finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from multiqueue.api.conversion.convert import convert_in_place, is_known_kind
from multiqueue.api.names import GROUP, V1BETA1, V1BETA2
from multiqueue.webhooks.review import MalformedReviewError, open_review

API_VERSION = "apiextensions.k8s.io/v1"
VERSIONS = (V1BETA1, V1BETA2)
MAX_CONTAINERS = 500_000
"""The limit of lists and mappings in one request.

It is the number in a list of 5,000 Workloads, which is ten times the usual page.
"""
CHUNK = 50
"""How many objects are converted before other requests can run: some milliseconds."""


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """The request of the API server; its objects may be changed in place."""

    uid: str
    version: str
    objects: list[Any]


class NotConvertibleError(ValueError):
    """An object cannot be converted to the wanted version; the text says which and why."""


def read_conversion(body: bytes) -> ConversionRequest:
    """Read the request of a ConversionReview.

    Raises:
        MalformedReviewError: the body is no review; with a uid if only its request is unusable.
    """
    request = open_review(body, "ConversionReview", API_VERSION, max_containers=MAX_CONTAINERS)
    uid, version, objects = request["uid"], request.get("desiredAPIVersion"), request.get("objects")
    if not isinstance(version, str):
        raise MalformedReviewError("request.desiredAPIVersion: must be a text", uid=uid)
    if not isinstance(objects, list):
        raise MalformedReviewError("request.objects: must be a list", uid=uid)
    return ConversionRequest(uid, version, objects)


async def answer_conversion(request: ConversionRequest) -> bytes:
    """Convert the objects of a request; other requests can run in between."""
    try:
        for index, obj in enumerate(request.objects):
            convert_one(obj, request.version, index)
            if index % CHUNK == CHUNK - 1:
                await asyncio.sleep(0)
    except NotConvertibleError as error:
        return write_failure(request.uid, str(error))
    result = {"status": "Success"}
    return _write(request.uid, {"convertedObjects": request.objects, "result": result})


def convert_one(obj: Any, version: str, index: int) -> None:
    """Convert one object in place.

    Raises:
        NotConvertibleError: the object is not of our kinds.
    """
    if version not in VERSIONS:
        raise NotConvertibleError(
            f'desiredAPIVersion: "{version}" is not served; use {V1BETA1} or {V1BETA2}'
        )
    if not isinstance(obj, dict):
        raise NotConvertibleError(f"objects[{index}]: must be an object")
    kind, given = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or not is_known_kind(kind):
        raise NotConvertibleError(f'{_title(obj, index)}: kind: "{kind}" is not one of {GROUP}')
    if given not in VERSIONS:
        raise NotConvertibleError(
            f'{_title(obj, index)}: apiVersion: "{given}" is not served; use {V1BETA1} or {V1BETA2}'
        )
    if given == version:
        return
    convert_in_place(obj, version)


def write_failure(uid: str, message: str) -> bytes:
    """Return the refusal of a whole request."""
    result = {"status": "Failure", "reason": "BadRequest", "code": 400, "message": message}
    return _write(uid, {"convertedObjects": [], "result": result})


def _write(uid: str, response: Mapping[str, Any]) -> bytes:
    return orjson.dumps(
        {
            "kind": "ConversionReview",
            "apiVersion": API_VERSION,
            "response": {"uid": uid, **response},
        }
    )


def _title(obj: Mapping[str, Any], index: int) -> str:
    """Return ``Workload "team/a"``, or the index in the request if the object has no name."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        return f"objects[{index}]"
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return f'{obj.get("kind")} "{namespace}/{name}"' if namespace else f'{obj.get("kind")} "{name}"'
