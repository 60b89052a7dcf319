"""Decodes request bodies of all supported formats."""

from typing import Any

import orjson

from multiqueue.embedded.server.protobuf import Malformed, UnknownMessageKind, decode_envelope
from multiqueue.embedded.server.status import StatusError, bad_request, unsupported_media_type
from multiqueue.lib import bounded_json, bounded_yaml

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
OBJECT_TYPES = (JSON, YAML, PROTOBUF)
MAX_BYTES = 3 * 1024 * 1024
"""Kubernetes' limit for a request body."""
YAML_LIMITS = bounded_yaml.YamlLimits(nodes=100_000)
"""Most YAML values with all references written out: reading this many takes seconds. Clients send
large objects as JSON."""


def media_type(content_type: str) -> str:
    """The type without parameters."""
    return content_type.partition(";")[0].strip().lower()


def decode_object(body: bytes, content_type: str) -> Any:
    """Decode JSON, YAML, or the protobuf that kubectl's generators and Go clients send.

    Raises:
        StatusError: 400 malformed, 415 another format, or a kind without a protobuf form.
    """
    given = media_type(content_type) or JSON
    if given == JSON:
        return decode_json(body)
    if given == YAML:
        return decode_yaml(body)
    if given == PROTOBUF:
        return _decode_protobuf(body)
    raise unsupported_media_type(given, OBJECT_TYPES)


def decode_json(body: bytes) -> Any:
    """Decode JSON.

    Raises:
        StatusError: 400.
    """
    if not body.strip():
        raise bad_request("EOF: the request has no body")
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type JSON): {error}"
        ) from error
    check_depth(decoded, body)
    return decoded


def check_depth(value: Any, body: bytes | None = None) -> None:
    """Refuse a value that was decoded from a body, or made by a patch, if it is nested too deep.

    Raises:
        StatusError: 400.
    """
    try:
        bounded_json.check_depth(value, body)
    except bounded_json.JsonError as error:
        raise bad_request(f"the object cannot be taken: {error}") from None


def too_large() -> StatusError:
    """Return the error for a body above the limit."""
    message = f"Request entity too large: limit is {MAX_BYTES}"
    return StatusError(413, "RequestEntityTooLarge", message)


def too_slow(message: str) -> StatusError:
    """Return the error for a body that does not arrive in time."""
    return StatusError(408, "Timeout", message.strip())


def _decode_protobuf(body: bytes) -> Any:
    try:
        return decode_envelope(body)
    except Malformed as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error
    except UnknownMessageKind as error:
        message = f"{error}; send it as {JSON} or {YAML}"
        raise StatusError(415, "UnsupportedMediaType", message) from error


def decode_yaml(body: bytes) -> Any:
    """Decode YAML, or JSON, which is YAML.

    Raises:
        StatusError: 400.
    """
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        pass  # YAML then
    else:
        check_depth(decoded, body)
        return decoded

    try:
        return orjson.loads(
            orjson.dumps(bounded_yaml.load(body, YAML_LIMITS), option=orjson.OPT_NON_STR_KEYS)
        )
    except (TypeError, ValueError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
