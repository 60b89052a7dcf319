"""Parses a URL path into the resource it names. Pure; handlers check that it is served."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Route:
    """A resource path:
    ``/apis/<group>/<version>[/namespaces/<ns>]/<plural>[/<name>[/<subresource>]]``.
    """

    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


@lru_cache(maxsize=4096)
def parse_route(path: str) -> Route | None:
    """The resource that a raw (still escaped) path names; None if it is not a resource path.

    ``/api/v1/namespaces/a`` is the object "a" of ``namespaces``; ``/api/v1/namespaces/a/pods`` are
    pods in "a";
    ``status`` and ``finalize`` after a namespace are its subresources.
    """
    parts = [unquote(part) if "%" in part else part for part in path.split("/")]
    if parts[-1] == "":
        parts.pop()
    if len(parts) < 2 or not all(parts[1:]):
        return None
    if parts[1] == "api":
        group, rest = "", parts[2:]
    elif parts[1] == "apis" and len(parts) > 2:
        group, rest = parts[2], parts[3:]
    else:
        return None
    if len(rest) < 2:
        return None
    version, *tail = rest
    namespace = None
    if (
        tail[0] == "namespaces"
        and len(tail) > 2
        and (len(tail) > 3 or tail[2] not in {"status", "finalize"})
    ):
        namespace, tail = tail[1], tail[2:]
    if len(tail) > 3:
        return None
    plural, name, subresource = (*tail, "", "")[:3]
    return Route(group, version, plural, namespace, name, subresource)


def find_resource(path: str) -> Route | None:
    """The resource that a longer path goes through, such as ``.../pods/a/proxy/and/more``."""
    while path.startswith(("/api/", "/apis/")):
        route = parse_route(path)
        if route is not None:
            return route
        path = path.rpartition("/")[0]
    return None
