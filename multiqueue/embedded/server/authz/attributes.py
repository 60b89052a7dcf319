"""The attributes of a request for authorization, and the message of a refusal."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.causes import show
from multiqueue.embedded.server.field_selectors import parse_field_selector
from multiqueue.embedded.server.routes import Route
from multiqueue.embedded.server.status import StatusError
from multiqueue.lib import object_names as names

VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class Attributes(NamedTuple):
    """One request: a verb on a resource, or on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """If not empty, the request is for this path, and only path and verb count."""

    @property
    def combined(self) -> str:
        """Return resource and subresource: ``pods``, ``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


Audit = Callable[[ApiUser, Attributes], None]
"""Called with the user and the request before the decision."""


def of_resource(method: str, route: Route, query: Mapping[str, str], *, watch: bool) -> Attributes:
    """Return the attributes of a request for a resource path.

    Args:
        method: the HTTP method.
        route: the parsed path.
        query: the first value of each parameter.
        watch: whether the query asks for a watch.
    """
    verb, name = VERBS.get(method, ""), route.name
    if not name and verb == "get":
        verb, name = "watch" if watch else "list", _selected_name(query)
    elif not name and verb == "delete":
        verb = "deletecollection"
    namespace = route.namespace or (route.name if route.plural == "namespaces" else "")
    return Attributes(verb, route.group, route.plural, route.subresource, namespace, name)


def of_path(method: str, path: str) -> Attributes:
    """Return the attributes of a request for another path; the verb is the method."""
    return Attributes(verb=method.lower(), path=path)


def refusal(user: ApiUser, wanted: Attributes, reason: str) -> StatusError:
    """Return the 403 of an authorizer."""
    who = f"User {show(user.name)} cannot {wanted.verb}"
    tail = f": {reason}" if reason else ""
    if wanted.path:
        message = f"forbidden: {who} path {show(wanted.path)}{tail}"
        return StatusError(403, "Forbidden", message)
    where = (
        f"in the namespace {show(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
    )
    what = f"resource {show(wanted.combined)} in API group {show(wanted.group)} {where}"
    details: dict[str, Any] = {
        **({"name": wanted.name} if wanted.name else {}),
        **({"group": wanted.group} if wanted.group else {}),
        "kind": wanted.resource,
    }
    resource = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    subject = f"{resource} {show(wanted.name)}" if wanted.name else resource
    message = f"{subject} is forbidden: {who} {what}{tail}"
    return StatusError(403, "Forbidden", message, details=details)


def _selected_name(query: Mapping[str, str]) -> str:
    """Return the single name that a field selector selects; rules for that name allow the list.

    A selector that cannot be read selects no name here; the list refuses it with a message.
    """
    text = query.get("fieldSelector")
    if not text:
        return ""
    try:
        name = parse_field_selector(text).exact_name or ""
    except StatusError:
        return ""
    return "" if names.segment(name) else name
