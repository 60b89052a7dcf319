"""Authentication: finds the user of a bearer token."""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
"""The group whose members may do everything, without roles."""
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
ISSUER = "https://kubernetes.default.svc.cluster.local"
"""The issuer of ServiceAccount tokens, and this server's audience."""
US = (ISSUER,)


@dataclass(frozen=True, slots=True)
class ApiUser:
    """A user, in the form that admission webhooks and reviews get."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_master(self) -> bool:
        """Whether everything is allowed."""
        return MASTERS in self.groups

    def as_dict(self) -> dict[str, Any]:
        """Return a UserInfo."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


def authenticated(user: ApiUser) -> ApiUser:
    """Return a user with the group of authenticated users added."""
    if AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def service_account_name(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount."""
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups that every ServiceAccount of a namespace is in."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def service_account(namespace: str, name: str, uid: str = "") -> ApiUser:
    """Return a ServiceAccount as a user."""
    groups = service_account_groups(namespace)
    return authenticated(ApiUser(service_account_name(namespace, name), groups, uid))


ADMIN = authenticated(ApiUser("admin", (MASTERS,)))
GARBAGE_COLLECTOR = service_account("kube-system", "generic-garbage-collector")
NAMESPACE_CONTROLLER = service_account("kube-system", "namespace-controller")
ANONYMOUS = ApiUser("system:anonymous", (UNAUTHENTICATED,))
API_SERVER = authenticated(ApiUser("system:apiserver", (MASTERS,)))


class BadToken(Exception):  # noqa: N818 - what it is
    """An invalid token; ``str()`` is the reason for a TokenReview."""


class Verified(NamedTuple):
    """The user and audiences of a valid token."""

    user: ApiUser
    audiences: tuple[str, ...]
    """The requested audiences that the token is for."""


class TokenVerifier(Protocol):
    """Verifies tokens that are not in a list."""

    def log_in(self, token: str) -> ApiUser:
        """Return the user of a token for this server.

        Raises:
            BadToken: the token is invalid.
        """

    def verify(self, token: str, audiences: Sequence[str]) -> Verified:
        """Return the user of a token for one of these audiences.

        Raises:
            BadToken: the token is invalid.
        """


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(32)


class TokenAuthenticator:
    """Authenticates the tokens of one server; it finds the first ones fastest."""

    def __init__(
        self, tokens: Mapping[str, ApiUser], service_accounts: TokenVerifier | None = None
    ) -> None:
        self._tokens = [
            (len(token), token.encode(), authenticated(user)) for token, user in tokens.items()
        ]
        self._service_accounts = service_accounts

    def user_of_header(self, authorization: str) -> ApiUser | None:
        """Return the user of an ``Authorization`` header; None if its token is wrong.

        Without a bearer token, or with another scheme, the user is anonymous.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if not token or scheme.lower() != "bearer":
            return ANONYMOUS
        user = self._listed(token)
        if user is not None or self._service_accounts is None:
            return user
        try:
            return self._service_accounts.log_in(token)
        except BadToken:
            return None

    def verify(self, token: str, audiences: Sequence[str] = ()) -> Verified:
        """Return the user of a bearer token; without audiences, the token is for this server.

        Raises:
            BadToken: the token is invalid.
        """
        user = self._listed(token)
        if user is not None and (not audiences or ISSUER in audiences):
            return Verified(user, US)  # a listed token is for this server only
        if user is not None or self._service_accounts is None:
            raise BadToken("invalid bearer token")
        return self._service_accounts.verify(token, audiences or US)

    def _listed(self, token: str) -> ApiUser | None:
        """Find a listed token by a comparison in constant time."""
        for length, known, user in self._tokens:
            if len(token) == length:
                given = token.encode(errors="surrogateescape")  # bytes that are no text come so
                if hmac.compare_digest(known, given):
                    return user
        return None
