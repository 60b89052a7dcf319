"""ConversionReview as an API server asks it, and what an answer must be like. Pure.

Parity: the words are those of Kubernetes, for reviews of one object.
"""

from typing import Any

import orjson

from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.schema.metadata import validate_annotations, validate_labels

API_VERSION = "apiextensions.k8s.io/v1"
_GO_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string"}


class ConversionFailed(Exception):  # noqa: N818 - says what happened
    """The answer of a webhook is no conversion of what it was asked for."""


def build_review(uid: str, api_version: str, objects: list[JsonObject]) -> bytes:
    """The body of a request."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
    return orjson.dumps({"kind": "ConversionReview", "apiVersion": API_VERSION, "request": request})


def read_converted(answer: bytes, uid: str, count: int) -> list[Any]:
    """The converted objects of an answer, as many as were asked for.

    Raises:
        ConversionFailed: the webhook refuses, or answers something else.
    """
    try:
        review = orjson.loads(answer)
        given = f"{review.get('apiVersion', '')}, Kind={review.get('kind', '')}"
        response = review.get("response")
    except (ValueError, AttributeError) as error:
        raise ConversionFailed(f"failed: the answer is not a ConversionReview: {error}") from error
    wanted = f"{API_VERSION}, Kind=ConversionReview"
    if given != wanted:
        raise ConversionFailed(f"failed: expected webhook response of {wanted}, got {given}")
    if not isinstance(response, dict):
        raise ConversionFailed("failed: no response provided")
    if response.get("uid", "") != uid:
        got = response.get("uid", "")
        raise ConversionFailed(f'failed: expected response.uid="{uid}", got "{got}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        status = f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise ConversionFailed(f"failed: {result.get('message') or status}")
    converted = response.get("convertedObjects")
    if not isinstance(converted, list) or len(converted) != count:
        number = len(converted) if isinstance(converted, list) else 0
        raise ConversionFailed(f"returned {number} objects, expected {count}")
    return converted


def check_converted(before: JsonObject, after: Any, api_version: str, index: int) -> JsonObject:
    """The converted object with the metadata that it had: only labels and annotations may change.

    Raises:
        ConversionFailed: it is another object, or in another version.
    """
    if not isinstance(after, dict):
        raise ConversionFailed(f"returned invalid object at index {index}: not an object")
    if (got := after.get("apiVersion", "")) != api_version:
        what = f"invalid groupVersion (expected {api_version}, received {got})"
        raise ConversionFailed(f"returned invalid object at index {index}: {what}")
    if (got := after.get("kind", "")) != before["kind"]:
        what = f"invalid kind (expected {before['kind']}, received {got})"
        raise ConversionFailed(f"returned invalid object at index {index}: {what}")
    metadata = after.get("metadata")
    if not isinstance(metadata, dict):
        raise ConversionFailed("returned invalid metadata: missing metadata in converted object")
    for field, words in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        had, has = before["metadata"].get(field, ""), metadata.get(field, "")
        if had != has:
            what = f"must have the same {words}: {had} != {has}"
            raise ConversionFailed(f"returned invalid object: {what}")
    return {**after, "metadata": _restored(before["metadata"], metadata)}


def _restored(before: JsonObject, after: JsonObject) -> JsonObject:
    metadata = dict(before)
    for field in ("labels", "annotations"):
        values = after.get(field)
        metadata.pop(field, None)
        if values is None:
            continue
        if not isinstance(values, dict):
            raise ConversionFailed(f"returned invalid metadata: invalid metadata.{field}")
        for name, value in values.items():
            if not isinstance(value, str):
                what = f"must be a string, but is {_go_type(value)} in converted object"
                raise ConversionFailed(
                    f"returned invalid metadata: metadata.{field}[{name}] {what}"
                )
        if values != before.get(field):
            check = validate_labels if field == "labels" else validate_annotations
            if causes := check(values, f"metadata.{field}"):
                raise ConversionFailed(f"returned invalid metadata: {causes[0].message}")
        if values:
            metadata[field] = values
    return metadata


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    return "[]interface {}" if isinstance(value, list) else _GO_TYPES.get(type(value), "<nil>")
