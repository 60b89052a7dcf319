"""Who asks: bearer tokens to users."""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
"""Its members may do everything, whatever the roles say."""
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
ISSUER = "https://kubernetes.default.svc.cluster.local"
"""Who signs the tokens of ServiceAccounts, and the audience that this server is."""
US = (ISSUER,)


@dataclass(frozen=True, slots=True)
class ApiUser:
    """A user as admission webhooks and reviews see it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_master(self) -> bool:
        """Whether everything is allowed."""
        return MASTERS in self.groups

    def as_dict(self) -> dict[str, Any]:
        """The shape of a UserInfo."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


def authenticated(user: ApiUser) -> ApiUser:
    """A user as it is once it has proven who it is."""
    if AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def service_account_name(namespace: str, name: str) -> str:
    """As whom a ServiceAccount is logged in."""
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups that a ServiceAccount is in for what it is."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def service_account(namespace: str, name: str, uid: str = "") -> ApiUser:
    """A ServiceAccount that is logged in."""
    groups = service_account_groups(namespace)
    return authenticated(ApiUser(service_account_name(namespace, name), groups, uid))


ADMIN = authenticated(ApiUser("admin", (MASTERS,)))
GARBAGE_COLLECTOR = service_account("kube-system", "generic-garbage-collector")
NAMESPACE_CONTROLLER = service_account("kube-system", "namespace-controller")
ANONYMOUS = ApiUser("system:anonymous", (UNAUTHENTICATED,))
API_SERVER = authenticated(ApiUser("system:apiserver", (MASTERS,)))


class BadToken(Exception):  # noqa: N818 - what it is
    """A token that proves nothing; ``str()`` tells a TokenReview why."""


class Verified(NamedTuple):
    """What a token proves."""

    user: ApiUser
    audiences: tuple[str, ...]
    """For whom the token is meant, of those who were named."""


class TokenVerifier(Protocol):
    """Knows tokens that are not in a list."""

    def log_in(self, token: str) -> ApiUser:
        """The user of a token that is meant for this server.

        Raises:
            BadToken: there is none.
        """

    def verify(self, token: str, audiences: Sequence[str]) -> Verified:
        """What a token proves to one of these audiences.

        Raises:
            BadToken: nothing.
        """


def new_token() -> str:
    """A fresh secret."""
    return secrets.token_urlsafe(32)


class TokenAuthenticator:
    """Knows the tokens of one server, the first ones fastest."""

    def __init__(
        self, tokens: Mapping[str, ApiUser], service_accounts: TokenVerifier | None = None
    ) -> None:
        self._tokens = [
            (len(token), token.encode(), authenticated(user)) for token, user in tokens.items()
        ]
        self._service_accounts = service_accounts

    def user_of_header(self, authorization: str) -> ApiUser | None:
        """The user of an ``Authorization`` header; None: somebody who gave a wrong token.

        Who gives no bearer token is anonymous, as with any other scheme.
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
        """What a bearer token proves; without audiences: to this server.

        Raises:
            BadToken: nothing.
        """
        user = self._listed(token)
        if user is not None and (not audiences or ISSUER in audiences):
            return Verified(user, US)  # a listed token is meant for this server alone
        if user is not None or self._service_accounts is None:
            raise BadToken("invalid bearer token")
        return self._service_accounts.verify(token, audiences or US)

    def _listed(self, token: str) -> ApiUser | None:
        """The comparison does not tell by its time how much of a guess was right."""
        for length, known, user in self._tokens:
            if len(token) == length:
                given = token.encode(errors="surrogateescape")  # bytes that are no text come so
                if hmac.compare_digest(known, given):
                    return user
        return None
