"""Bodies in Kubernetes' protobuf encoding, as the objects that the same bodies in JSON are."""

from multiqueue.embedded.server.protobuf.envelope import decode_envelope
from multiqueue.embedded.server.protobuf.messages import UnknownMessageKind
from multiqueue.embedded.server.protobuf.wire import Malformed

__all__ = ["Malformed", "UnknownMessageKind", "decode_envelope"]
