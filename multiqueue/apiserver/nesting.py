"""Bodies that are small and yet too much: nested too deep, or grown by references to themselves.

The decoders and encoders below give up at some depth, and libyaml's composer does not even do that:
it runs out of stack, and the process ends. So depth is looked at before.
"""

from typing import Any

from multiqueue.apiserver.status import bad_request

MAX_DEPTH = 200
"""Deeper than any object is; orjson encodes 254 levels."""
MAX_NODES = 100_000
"""Of YAML, with all references written out: reading so many takes seconds. Clients send large
objects as JSON."""


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
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise bad_request(f"the object is nested more than {MAX_DEPTH} levels deep")


def check_yaml(body: bytes) -> None:
    """Refuse YAML with too many levels, before it is composed.

    Raises:
        StatusError: 400.
        YAMLError: it is none.
    """
    import yaml

    depth = nodes = 0
    for event in yaml.parse(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        nodes += isinstance(event, yaml.NodeEvent)
        if nodes > MAX_NODES:
            raise bad_request(f"the YAML has more than {MAX_NODES:,} values; send it as JSON")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise bad_request(f"the YAML is nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def check_references(value: Any) -> None:
    """Refuse YAML that its references make too large or endless; call :func:`check_yaml` before.

    Raises:
        StatusError: 400.
    """
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Any) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in open_nodes:
            raise bad_request("the YAML contains itself")
        open_nodes.add(id(node))
        total = 1 + sum(size(inner) for inner in _inside(node))
        open_nodes.discard(id(node))
        if total > MAX_NODES:
            raise bad_request("the YAML contains excessive aliasing")
        if isinstance(node, dict | list):
            sizes[id(node)] = total
        return total

    try:
        size(value)
    except RecursionError as error:
        raise bad_request("the YAML contains excessive aliasing") from error


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
