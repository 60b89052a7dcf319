"""Decodes bodies in Kubernetes' protobuf encoding to the objects that JSON bodies give."""

from multiqueue.embedded.server.protobuf.envelope import decode_envelope
from multiqueue.embedded.server.protobuf.messages import UnknownMessageKind
from multiqueue.embedded.server.protobuf.wire import Malformed

__all__ = ["Malformed", "UnknownMessageKind", "decode_envelope"]
