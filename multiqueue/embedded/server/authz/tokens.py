"""Tokens of ServiceAccounts: issued on request, valid while the objects they name exist."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from multiqueue.embedded.server.auth import ISSUER, US, ApiUser, BadToken, Verified, service_account
from multiqueue.embedded.server.authz.rules import quoted
from multiqueue.embedded.server.authz.signing import SIGNATURE_LENGTH, NotSigned, Signer
from multiqueue.embedded.server.causes import show
from multiqueue.embedded.server.kinds import GroupPlural
from multiqueue.embedded.server.metadata import generated_uid
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.kube.clock import Clock

ACCOUNTS: GroupPlural = ("", "serviceaccounts")
BOUND: Mapping[str, GroupPlural] = {
    "Pod": ("", "pods"),
    "Secret": ("", "secrets"),
    "Node": ("", "nodes"),
}
"""Kinds of objects that a token may be bound to: the token is valid while the object exists."""
MAX_REMEMBERED = 1024
"""Most cached tokens with a verified signature; then the cache is cleared."""

_PRIVATE = "kubernetes.io"
_EXTRA = "authentication.kubernetes.io"


@dataclass(frozen=True, slots=True)
class _Token:
    """A token with a verified signature."""

    token: str
    user: ApiUser
    namespace: str
    name: str
    expires_at: datetime
    audiences: tuple[str, ...]
    is_ours: bool
    """Whether this server is one of the audiences."""
    bound: tuple[tuple[GroupPlural, str, str, str], ...]
    """(kind, namespace, name, uid) of each object that must still exist."""


class ServiceAccountTokens:
    """Issues and verifies tokens.

    Cost: a signature is checked once per token; then a few dictionary lookups per request.
    """

    def __init__(self, store: ObjectStore, clock: Clock, key: bytes) -> None:
        self._store = store
        self._clock = clock
        self._signer = Signer(key)
        self._known: dict[str, _Token] = {}
        """Verified tokens by signature."""

    def issue(
        self,
        account: Mapping[str, Any],
        audiences: Sequence[str],
        expires_at: datetime,
        bound: tuple[str, Mapping[str, Any]] | None,
    ) -> str:
        """A new token.

        Args:
            account: metadata of the ServiceAccount.
            audiences: the audiences that the token is for.
            expires_at: the expiry of the token.
            bound: kind and metadata of the object that the token is bound to.
        """
        now = int(self._clock.now().timestamp())
        private: dict[str, Any] = {
            "namespace": account["namespace"],
            "serviceaccount": {"name": account["name"], "uid": account["uid"]},
        }
        if bound is not None:
            kind, metadata = bound
            private[kind.lower()] = {"name": metadata["name"], "uid": metadata["uid"]}
        claims = {
            "aud": list(audiences),
            "exp": int(expires_at.timestamp()),
            "iat": now,
            "iss": ISSUER,
            "jti": generated_uid(),
            _PRIVATE: private,
            "nbf": now,
            "sub": service_account(account["namespace"], account["name"]).name,
        }
        return self._signer.sign(claims)

    def log_in(self, token: str) -> ApiUser:
        """Return the ServiceAccount of a token for this server, as most requests need it.

        Raises:
            BadToken: as ``verify``.
        """
        known = self._known.get(token[-SIGNATURE_LENGTH:])  # shorter to hash than all of it
        if known is None or known.token != token or not known.is_ours:
            return self.verify(token, US).user
        if self._clock.now() >= known.expires_at:
            return self.verify(token, US).user
        self._check_alive(known)
        return known.user

    def verify(self, token: str, audiences: Sequence[str]) -> Verified:
        """Return the ServiceAccount of a token.

        Raises:
            BadToken: not signed here, expired, for another audience, or its object is gone.
        """
        known = self._read(token)
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[token[-SIGNATURE_LENGTH:]] = known
        if self._clock.now() >= known.expires_at:
            raise _bad("service account token has expired")
        meant = tuple(each for each in audiences if each in known.audiences)
        if not meant:
            given, wanted = quoted(known.audiences), quoted(audiences)
            raise _bad(f"token audiences {given} is invalid for the target audiences {wanted}")
        self._check_alive(known)
        return Verified(known.user, meant)

    def _read(self, token: str) -> _Token:
        try:
            claims = self._signer.read(token)
        except NotSigned as error:
            raise BadToken("invalid bearer token") from error
        private = claims[_PRIVATE]
        namespace, account = private["namespace"], private["serviceaccount"]
        bound = tuple(
            (kind, key, private[kind.lower()])
            for kind, key in BOUND.items()
            if kind.lower() in private
        )
        extra = {f"{_EXTRA}/credential-id": (f"JTI={claims['jti']}",)}
        for kind, _, reference in bound:
            if kind != "Secret":
                extra[f"{_EXTRA}/{kind.lower()}-name"] = (reference["name"],)
                extra[f"{_EXTRA}/{kind.lower()}-uid"] = (reference["uid"],)
        user = service_account(namespace, account["name"], account["uid"])
        return _Token(
            token=token,
            user=ApiUser(user.name, user.groups, user.uid, tuple(sorted(extra.items()))),
            namespace=namespace,
            name=account["name"],
            expires_at=datetime.fromtimestamp(claims["exp"], UTC),
            audiences=tuple(claims["aud"]),
            is_ours=ISSUER in claims["aud"],
            bound=tuple(
                (key, "" if kind == "Node" else namespace, reference["name"], reference["uid"])
                for kind, key, reference in bound
            ),
        )

    def _check_alive(self, token: _Token) -> None:
        """Check that the account and the bound object still exist, with the same uid."""
        account = self._store.get(ACCOUNTS, token.namespace, token.name)
        if account is None:
            raise _bad(f"serviceaccounts {show(token.name)} not found")
        if account.uid != token.user.uid:
            raise _bad(
                f"service account UID ({account.uid}) does not match claim ({token.user.uid})"
            )
        for key, namespace, name, uid in token.bound:
            entry = self._store.get(key, namespace, name)
            if entry is None or entry.uid != uid:
                raise _bad("service account token has been invalidated")


def _bad(why: str) -> BadToken:
    return BadToken(f"[invalid bearer token, {why}]")
