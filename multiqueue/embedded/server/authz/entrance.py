"""Who is let in: from a request to its user, and the check of what that user asks for."""

from collections.abc import Mapping

from aiohttp import web

from multiqueue.embedded.server import status
from multiqueue.embedded.server.auth import User
from multiqueue.embedded.server.authz.attributes import Attributes, of_path, of_resource
from multiqueue.embedded.server.authz.impersonation import impersonated
from multiqueue.embedded.server.plane import Call, ControlPlane, Target
from multiqueue.embedded.server.request import is_set
from multiqueue.embedded.server.routes import Route, find_resource


def find_user(plane: ControlPlane, http: web.BaseRequest) -> User:
    """The user of a request, or whom it acts as.

    Raises:
        StatusError: 401, a wrong token; 400 or 403, it may not act as somebody else.
    """
    headers = http.headers
    user = plane.authenticator.user_of_header(headers.get("Authorization", ""))
    if user is None:
        raise status.unauthorized()
    return impersonated(plane.authorizer, user, headers)


def check_path(plane: ControlPlane, user: User, http: web.BaseRequest) -> None:
    """Refuse a request for something that is no resource, or for something below one.

    Raises:
        StatusError: 403.
    """
    if plane.audit is not None or not user.is_master:
        route = find_resource(http.rel_url.raw_path)
        if route is None:
            wish = of_path(http.method, http.path)
        else:
            wish = of_resource(http.method, route, {}, watch=False)
        _check(plane, user, wish)


def check_resource(
    plane: ControlPlane,
    user: User,
    http: web.BaseRequest,
    route: Route,
    query: Mapping[str, str],
) -> None:
    """Refuse a request for a resource, whether there is such a resource or not.

    Raises:
        StatusError: 403.
    """
    if plane.audit is not None or not user.is_master:
        wish = of_resource(http.method, route, query, watch=is_set(query, "watch"))
        _check(plane, user, wish)


def _check(plane: ControlPlane, user: User, wish: Attributes) -> None:
    if plane.audit is not None:
        plane.audit(user, wish)
    plane.authorizer.check(user, wish)


def check_create(call: Call, target: Target) -> None:
    """Refuse to create with another verb what may not be created.

    Raises:
        StatusError: 403.
    """
    kind = target.kind
    wish = Attributes(
        "create", kind.group, kind.plural, target.subresource, target.namespace, target.name
    )
    _check(call.plane, call.user_info, wish)
