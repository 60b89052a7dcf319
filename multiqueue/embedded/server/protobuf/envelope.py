"""The envelope of every protobuf body: four magic bytes and a message that names the kind."""

from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.protobuf.messages import decode_message
from multiqueue.embedded.server.protobuf.wire import BYTES, Malformed, read_fields

MAGIC = b"k8s\x00"
_TYPE_META, _RAW = 1, 2
_API_VERSION, _KIND = 1, 2


def decode_envelope(body: bytes) -> JsonObject:
    """The object in a body.

    Raises:
        Malformed: the bytes are no envelope, or no message of the kind that it names.
        UnknownMessageKind: there is no protobuf form of the kind.
    """
    if not body.startswith(MAGIC):
        raise Malformed(
            "provided data does not appear to be a protobuf message, "
            f"expected prefix [{' '.join(map(str, MAGIC))}]"
        )
    outer = _texts(body[len(MAGIC) :])
    meta = _texts(outer.get(_TYPE_META, b""))
    try:
        api_version, kind = meta.get(_API_VERSION, b"").decode(), meta.get(_KIND, b"").decode()
    except UnicodeDecodeError as error:
        raise Malformed("the kind is not UTF-8") from error
    if not kind:
        raise Malformed("Object 'Kind' is missing")
    if not api_version:
        raise Malformed("Object 'apiVersion' is missing")
    return decode_message(api_version, kind, outer.get(_RAW, b""))


def _texts(data: bytes) -> dict[int, bytes]:
    """The length-delimited fields of a message; the last of each counts."""
    return {
        number: value
        for number, wire_type, value in read_fields(data)
        if wire_type == BYTES and isinstance(value, bytes)
    }
