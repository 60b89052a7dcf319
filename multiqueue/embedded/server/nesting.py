"""Bodies that are small and yet too much: nested too deep, or grown by references to themselves.

The decoders and encoders below give up at some depth, so depth is looked at before.
"""

from typing import Any

from multiqueue.embedded.server.status import bad_request
from multiqueue.lib.bounded_yaml import YamlLimits
from multiqueue.lib.nesting import is_deeper

MAX_DEPTH = 200
"""Deeper than any object is; orjson encodes 254 levels."""
YAML_LIMITS = YamlLimits(nodes=100_000, levels=MAX_DEPTH)
"""With all references written out: reading so many values takes seconds. Clients send large objects
as JSON."""


def check_depth(value: Any, body: bytes | None = None) -> None:
    """Refuse a value with too many levels.

    Args:
        value: What was decoded, or made by a patch.
        body: Its JSON, to see at a glance that it cannot be deep.

    Raises:
        StatusError: 400.
    """
    if body is not None and body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    if is_deeper(value, MAX_DEPTH):
        raise bad_request(f"the object is nested more than {MAX_DEPTH} levels deep")
