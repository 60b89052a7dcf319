"""Who is let in: from a request to its user, and the check of what that user asks for."""

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
    """Finds out who asks, and refuses what they may not do."""

    authenticator: TokenAuthenticator
    authorizer: RoleAuthorizer
    audit: Audit | None = None

    def find_user(self, http: web.BaseRequest) -> ApiUser:
        """The user of a request, or whom it acts as.

        Raises:
            StatusError: 401, a wrong token; 400 or 403, it may not act as somebody else.
        """
        headers = http.headers
        user = self.authenticator.user_of_header(headers.get("Authorization", ""))
        if user is None:
            raise status.unauthorized()
        return impersonated(self.authorizer, user, headers)

    def check_path(self, user: ApiUser, http: web.BaseRequest) -> None:
        """Refuse a request for something that is no resource, or for something below one.

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
        """Refuse a request for a resource, whether there is such a resource or not.

        Raises:
            StatusError: 403.
        """
        if self.audit is not None or not user.is_master:
            self._check(user, of_resource(http.method, route, query, watch=is_set(query, "watch")))

    def check_create(self, user: ApiUser, target: OperationTarget) -> None:
        """Refuse to create with another verb what may not be created.

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
