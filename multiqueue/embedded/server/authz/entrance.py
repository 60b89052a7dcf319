"""Authenticates requests, and checks that their users may send them."""

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from multiqueue.embedded.server import status
from multiqueue.embedded.server.auth import ApiUser, TokenAuthenticator
from multiqueue.embedded.server.authz.attributes import (
    Attributes,
    Audit,
    of_path,
    of_resource,
)
from multiqueue.embedded.server.authz.authorizer import RoleAuthorizer
from multiqueue.embedded.server.authz.impersonation import impersonated
from multiqueue.embedded.server.query import is_set
from multiqueue.embedded.server.routes import Route, find_resource
from multiqueue.embedded.server.target import OperationTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Finds the user of a request, and refuses requests that the user may not send."""

    authenticator: TokenAuthenticator
    authorizer: RoleAuthorizer
    audit: Audit | None = None

    def find_user(self, http: web.BaseRequest) -> ApiUser:
        """Return the user of a request, or the impersonated user.

        Raises:
            StatusError: 401, a wrong token; 400 or 403, the impersonation is not allowed.
        """
        headers = http.headers
        user = self.authenticator.user_of_header(headers.get("Authorization", ""))
        if user is None:
            raise status.unauthorized()
        return impersonated(self.authorizer, user, headers)

    def check_path(self, user: ApiUser, http: web.BaseRequest) -> None:
        """Refuse a request for a path that is not a resource, or is below one.

        Raises:
            StatusError: 403.
        """
        if self.audit is not None or not user.is_master:
            route = find_resource(http.rel_url.raw_path)
            if route is None:
                wanted = of_path(http.method, http.path)
            else:
                wanted = of_resource(http.method, route, {}, watch=False)
            self._check(user, wanted)

    def check_resource(
        self, user: ApiUser, http: web.BaseRequest, route: Route, query: Mapping[str, str]
    ) -> None:
        """Refuse a request for a resource, even if the resource does not exist.

        Raises:
            StatusError: 403.
        """
        if self.audit is not None or not user.is_master:
            self._check(user, of_resource(http.method, route, query, watch=is_set(query, "watch")))

    def check_create(self, user: ApiUser, target: OperationTarget) -> None:
        """Refuse to create an object by another verb without the permission to create it.

        Raises:
            StatusError: 403.
        """
        kind = target.kind
        wanted = Attributes(
            "create", kind.group, kind.plural, target.subresource, target.namespace, target.name
        )
        self._check(user, wanted)

    def _check(self, user: ApiUser, wanted: Attributes) -> None:
        if self.audit is not None:
            self.audit(user, wanted)
        self.authorizer.check(user, wanted)
