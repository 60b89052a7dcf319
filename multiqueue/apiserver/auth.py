"""Who asks: bearer tokens to users."""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AUTHENTICATED = "system:authenticated"
PUBLIC_PATHS = ("/healthz", "/readyz", "/livez", "/version")
"""What anybody may ask, with everything below it."""


@dataclass(frozen=True, slots=True)
class User:
    """A user as admission webhooks and reviews see it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The shape of a UserInfo."""
        info: dict[str, Any] = {"username": self.name, "groups": [*self.groups, AUTHENTICATED]}
        if self.uid:
            info["uid"] = self.uid
        return info


ADMIN = User("admin", ("system:masters",))
GARBAGE_COLLECTOR = User(
    "system:serviceaccount:kube-system:generic-garbage-collector", ("system:serviceaccounts",)
)
NAMESPACE_CONTROLLER = User(
    "system:serviceaccount:kube-system:namespace-controller", ("system:serviceaccounts",)
)
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
API_SERVER = User("system:apiserver", ("system:masters",))


def new_token() -> str:
    """A fresh secret."""
    return secrets.token_urlsafe(32)


class Authenticator:
    """Knows the tokens of one server."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = dict(tokens)

    def user_of_header(self, authorization: str) -> User | None:
        """The user of an ``Authorization`` header; None: nobody we know."""
        scheme, _, token = authorization.partition(" ")
        return self.user_of_token(token.strip()) if scheme.lower() == "bearer" else None

    def user_of_token(self, token: str) -> User | None:
        """The user of a token, found without telling by timing how much of a guess was right."""
        found: User | None = None
        given = token.encode()
        for known, user in self._tokens.items():
            if hmac.compare_digest(known.encode(), given):
                found = user
        return found


def is_public(path: str) -> bool:
    """Whether a path needs no user."""
    return path.startswith(PUBLIC_PATHS)
