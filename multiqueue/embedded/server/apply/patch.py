"""Patches: turns a body and its content type into a function on objects."""

from collections.abc import Mapping
from typing import Any

import orjson

from multiqueue.embedded.server.apply.patch_strategic import apply_strategic_merge_patch
from multiqueue.embedded.server.body import MAX_BYTES, check_depth, decode_json
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.status import (
    StatusError,
    bad_request,
    unprocessable,
    unsupported_media_type,
)
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.update import Change, Produce
from multiqueue.lib.merge_patch import apply_merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"

MAX_OPERATIONS = 10_000
"""Kubernetes' limit for one JSON patch."""


def parse_patch(target: OperationTarget, media_type: str, body: bytes) -> Change:
    """What a patch that is not an apply does to an object in the version of the request.

    Raises:
        StatusError: 400 malformed, 415 a type that the kind does not take.
    """
    supported = supported_types(target)
    if media_type not in supported:
        raise unsupported_media_type(media_type, supported)
    patch = decode_json(body)
    if media_type == JSON_PATCH:
        return Change(produce=_json_patch(patch))
    if not isinstance(patch, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type "
            "map[string]interface {}"
        )
    if media_type == MERGE_PATCH:
        return Change(produce=lambda obj: apply_merge_patch(obj, patch), mutates=False)
    schema = target.version.schema
    return Change(produce=lambda obj: _strategic(obj, patch, schema), mutates=False)


def supported_types(target: OperationTarget) -> tuple[str, ...]:
    """Patch types that a kind takes: custom kinds know no strategic merge."""
    if target.kind.builtin:
        return (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_YAML)
    return (JSON_PATCH, MERGE_PATCH, APPLY_YAML)


def _strategic(obj: JsonObject, patch: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    try:
        return apply_strategic_merge_patch(obj, patch, schema)
    except ValueError as error:
        raise bad_request(str(error)) from error


def _json_patch(operations: Any) -> Produce:
    import jsonpatch

    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch"
        )
    if len(operations) > MAX_OPERATIONS:
        limit = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}"
        message = f"{limit}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    try:
        patches = [(each, jsonpatch.JsonPatch([each])) for each in operations]
    except (
        jsonpatch.JsonPatchException,
        jsonpatch.JsonPointerException,
        TypeError,
        KeyError,
    ) as error:
        raise bad_request(f"error decoding patch: {error}") from error

    def produce(obj: JsonObject) -> Any:
        copied = 0
        try:
            for operation, patch in patches:
                if operation["op"] == "copy":  # each may double the object
                    pointer = jsonpatch.JsonPointer(operation["from"])
                    copied += len(orjson.dumps(pointer.resolve(obj)))
                    if copied > MAX_BYTES:
                        raise unprocessable(f"copies of more than {MAX_BYTES} bytes in one patch")
                obj = patch.apply(obj, in_place=True)
        except (
            jsonpatch.JsonPatchException,
            jsonpatch.JsonPointerException,
            TypeError,
            KeyError,
        ) as error:
            raise unprocessable(
                f"the server rejected our request due to an error in our request: {error}"
            ) from error
        check_depth(obj)
        return obj

    return produce
