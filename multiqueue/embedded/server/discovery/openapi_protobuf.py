"""The old OpenAPI document as protobuf, the only form in which kubectl reads it.

kubectl asks for it about kinds that version 3 does not show as patchable (reviews), to see whether
it has to check an object itself. The answer names the server and describes no types: kubectl then
leaves the checking to the server. What there is to know is in the documents of version 3.
"""

from multiqueue.embedded.server.discovery.discovery import SERVER_MINOR

CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_SWAGGER, _INFO = 1, 2
_TITLE, _VERSION = 1, 2


def document() -> bytes:
    """The encoded Document message."""
    info = _field(_TITLE, b"Kubernetes") + _field(_VERSION, f"v1.{SERVER_MINOR}.0".encode())
    return _field(_SWAGGER, b"2.0") + _field(_INFO, info)


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field (wire type 2); all lengths here fit into one byte."""
    assert len(content) < 0x80
    return bytes((number << 3 | 2, len(content))) + content
