"""Bodies in Kubernetes' protobuf encoding, as the objects that the same bodies in JSON are."""

from multiqueue.apiserver.protobuf.envelope import decode_envelope
from multiqueue.apiserver.protobuf.messages import UnknownKind
from multiqueue.apiserver.protobuf.wire import Malformed

__all__ = ["Malformed", "UnknownKind", "decode_envelope"]
