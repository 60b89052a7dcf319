"""Who sends a request: the front proxy, a client certificate, or a bearer token says it.

The order is Kubernetes': the first method that knows the user counts. If credentials were shown and
no method knows them, the answer is 401. A user without credentials is anonymous.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import structlog
from cryptography import x509
from cryptography.x509.oid import NameOID

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import KubeError
from multiqueue.kube.resources import TOKEN_REVIEWS
from multiqueue.visibility.expiring import ExpiringCache
from multiqueue.visibility.front_proxy import FrontProxyTrust, is_issued_by
from multiqueue.visibility.refusals import cannot_review, unauthorized
from multiqueue.visibility.slots import Slots

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
TOKEN_SECONDS = 10.0
"""How long a token review stays valid, as in upstream's delegated authenticator."""
MAX_TOKENS = 1024
MAX_REVIEWS, UNKNOWN = 8, ""
"""The limit of concurrent token reviews: invented tokens must not delay everybody else.

Users who come through the API server need no review.
"""

Headers = Iterable[tuple[str, str]]

log = structlog.get_logger(component="visibility")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedUser:
    """An authenticated user; ``extra`` has (key, values), sorted by key."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS = AuthenticatedUser(name="system:anonymous", groups=(UNAUTHENTICATED,))


class Authenticator:
    """Identifies users.

    Args:
        client: The client of the API server that knows the tokens.
        trust: Returns the authorities that the cluster trusts now.
    """

    def __init__(self, client: KubeClient, trust: Callable[[], FrontProxyTrust]) -> None:
        self._client = client
        self._trust = trust
        self._tokens: ExpiringCache[bytes, AuthenticatedUser] = ExpiringCache(
            seconds=TOKEN_SECONDS, limit=MAX_TOKENS
        )
        self._slots = Slots(MAX_REVIEWS, MAX_REVIEWS)

    async def authenticate(self, certificate: bytes | None, headers: Headers) -> AuthenticatedUser:
        """Return the user who sent a request.

        Args:
            certificate: The client's certificate from the TLS handshake, in DER.
            headers: The request's headers, with names in any case.

        Raises:
            StatusRefusal: 401; 429 if too many tokens are under review already; 500 if the API
                server cannot review a token.
        """
        given = [(name.lower(), value) for name, value in headers]
        if certificate is not None:
            user = self._by_certificate(x509.load_der_x509_certificate(certificate), given)
            if user is not None:
                return _with_standard_group(user)
        scheme, _, token = _first(given, ("authorization",)).partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return _with_standard_group(await self._by_token(token.strip()))
        if certificate is not None:
            raise unauthorized()
        return ANONYMOUS

    def _by_certificate(
        self, certificate: x509.Certificate, headers: list[tuple[str, str]]
    ) -> AuthenticatedUser | None:
        trust = self._trust()
        if is_issued_by(certificate, trust.proxy_authorities):
            name = _subject(certificate, NameOID.COMMON_NAME)
            if not trust.allowed_names or trust.allowed_names.intersection(name):
                user = _by_headers(trust, headers)
                if user is not None:
                    return user
            else:
                log.warning("front proxy refused: its name is not allowed", names=name)
        if is_issued_by(certificate, trust.client_authorities):
            names = _subject(certificate, NameOID.COMMON_NAME)
            if names:
                groups = _subject(certificate, NameOID.ORGANIZATION_NAME)
                return AuthenticatedUser(name=names[0], groups=tuple(groups))
        return None

    async def _by_token(self, token: str) -> AuthenticatedUser:
        key = hashlib.sha256(token.encode()).digest()
        user = self._tokens.get(key)
        if user is None:
            with self._slots.take(UNKNOWN):
                user = await self._review(token)
            self._tokens.put(key, user)
        return user

    async def _review(self, token: str) -> AuthenticatedUser:
        review = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token},
        }
        try:
            answer: Mapping[str, Any] = await self._client.create(TOKEN_REVIEWS, review)
        except KubeError as error:
            log.warning("a token cannot be reviewed", error=str(error))
            raise cannot_review("the token cannot be reviewed") from error
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            raise unauthorized()
        info = status.get("user") or {}
        extra = info.get("extra") or {}
        return AuthenticatedUser(
            name=info.get("username", ""),
            uid=info.get("uid", ""),
            groups=tuple(info.get("groups") or ()),
            extra=tuple(sorted((key, tuple(values)) for key, values in extra.items())),
        )


def _by_headers(trust: FrontProxyTrust, headers: list[tuple[str, str]]) -> AuthenticatedUser | None:
    name = _first(headers, trust.user_headers)
    if not name:
        return None
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        for prefix in trust.extra_prefixes:
            if header.startswith(prefix):
                extra.setdefault(unquote(header[len(prefix) :]), []).append(value)
    return AuthenticatedUser(
        name=name,
        uid=_first(headers, trust.uid_headers),
        groups=tuple(value for header, value in headers if header in trust.group_headers),
        extra=tuple(sorted((key, tuple(values)) for key, values in extra.items())),
    )


def _with_standard_group(user: AuthenticatedUser) -> AuthenticatedUser:
    """Add the one of the two standard groups that the user belongs to."""
    if {AUTHENTICATED, UNAUTHENTICATED}.intersection(user.groups):
        return user
    group = UNAUTHENTICATED if user.name == ANONYMOUS.name else AUTHENTICATED
    return AuthenticatedUser(
        name=user.name, uid=user.uid, groups=(*user.groups, group), extra=user.extra
    )


def _first(headers: list[tuple[str, str]], names: tuple[str, ...]) -> str:
    return next((value for wanted in names for name, value in headers if name == wanted), "")


def _subject(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in certificate.subject.get_attributes_for_oid(oid)]
