"""Who asks, by what they show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from multiqueue.kube.certificates import create_authority, issue_client_certificate
from multiqueue.kube.client import KubeClient
from multiqueue.visibility.authentication import (
    ANONYMOUS,
    AuthenticatedUser,
    Authenticator,
    Headers,
)
from multiqueue.visibility.front_proxy import FrontProxyTrust, read_trust
from multiqueue.visibility.refusals import StatusRefusal

T0 = datetime.now(UTC)
CLIENTS, PROXIES, OTHERS = (create_authority(name, T0) for name in ("clients", "proxies", "others"))
DATA = {
    "client-ca-file": CLIENTS.certificate.decode(),
    "requestheader-client-ca-file": PROXIES.certificate.decode(),
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User", "X-Other-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def der(authority: Any, name: str, *groups: str) -> bytes:
    pair = issue_client_certificate(authority, name, groups, T0)
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


class Reviewer:
    """Stands for the API server: knows one token, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def create(self, _resource: Any, review: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        if review["spec"]["token"] != "good":
            return {"status": {"authenticated": False}}
        user = {"username": "robot", "uid": "7", "groups": ["g"], "extra": {"pod": ["p"]}}
        return {"status": {"authenticated": True, "user": user}}


def authenticator(reviewer: Reviewer | None = None, **data: str) -> Authenticator:
    trust = read_trust({"data": {**DATA, **data}})
    return Authenticator(cast("KubeClient", reviewer or Reviewer()), lambda: trust)


def run(coroutine: Coroutine[Any, Any, AuthenticatedUser]) -> AuthenticatedUser:
    return asyncio.run(coroutine)


PROXY = der(PROXIES, "front-proxy-client")
SAYS_EVE: Headers = [
    ("X-Remote-User", "eve"),
    ("x-remote-group", "a"),
    ("X-Remote-Group", "b"),
    ("X-Remote-Uid", "42"),
    ("X-Remote-Extra-Example.com%2fScopes", "all"),
]


def test_the_front_proxy_speaks_for_users() -> None:
    assert run(authenticator().authenticate(PROXY, SAYS_EVE)) == AuthenticatedUser(
        name="eve",
        uid="42",
        groups=("a", "b", "system:authenticated"),
        extra=(("example.com/scopes", ("all",)),),
    )


def test_the_front_proxy_speaks_for_nobody_in_particular() -> None:
    headers = [("X-Remote-User", ANONYMOUS.name), ("X-Remote-Group", "system:unauthenticated")]
    assert run(authenticator().authenticate(PROXY, headers)) == ANONYMOUS


@pytest.mark.parametrize(
    "certificate",
    [
        der(PROXIES, "somebody-else"),
        der(OTHERS, "front-proxy-client"),
        PROXY,
    ],
    ids=["a name that is not allowed", "another authority", "no user named"],
)
def test_others_may_not_speak_for_users(certificate: bytes) -> None:
    headers = [] if certificate is PROXY else SAYS_EVE
    with pytest.raises(StatusRefusal) as caught:
        run(authenticator().authenticate(certificate, headers))
    assert caught.value.code == 401


def test_any_name_will_do_where_none_is_prescribed() -> None:
    lenient = authenticator(**{"requestheader-allowed-names": "[]"})
    assert run(lenient.authenticate(der(PROXIES, "x"), SAYS_EVE)).name == "eve"


def test_headers_without_a_certificate_are_worth_nothing() -> None:
    assert run(authenticator().authenticate(None, SAYS_EVE)) == ANONYMOUS


def test_a_client_certificate_says_name_and_groups() -> None:
    certificate = der(CLIENTS, "ann", "admins", "staff")
    user = run(authenticator().authenticate(certificate, SAYS_EVE))
    assert user == AuthenticatedUser(name="ann", groups=("admins", "staff", "system:authenticated"))


def test_a_token_is_reviewed_once() -> None:
    reviewer = Reviewer()
    asked = authenticator(reviewer)

    async def twice() -> list[AuthenticatedUser]:
        headers = [("authorization", "bearer good")]
        return [await asked.authenticate(None, headers) for _ in range(2)]

    users = asyncio.run(twice())
    want = AuthenticatedUser(
        name="robot", uid="7", groups=("g", "system:authenticated"), extra=(("pod", ("p",)),)
    )
    assert users == [want, want]
    assert reviewer.asked == 1


def test_a_wrong_token_is_refused_each_time() -> None:
    with pytest.raises(StatusRefusal) as caught:
        run(authenticator().authenticate(None, [("Authorization", "Bearer wrong")]))
    assert caught.value.code == 401


@pytest.mark.parametrize(
    "headers", [[], [("Authorization", "Basic eA==")], [("Authorization", "Bearer ")]]
)
def test_who_shows_nothing_is_anonymous(headers: list[tuple[str, str]]) -> None:
    assert run(authenticator().authenticate(None, headers)) == ANONYMOUS


@pytest.mark.parametrize(
    "config_map",
    [
        None,
        {},
        {"data": {**DATA, "client-ca-file": "-----BEGIN CERTIFICATE-----\nx"}},
        {"data": {**DATA, "requestheader-allowed-names": "x"}},
        {"data": {**DATA, "requestheader-allowed-names": json.dumps({"a": 1})}},
        {"data": {**DATA, "requestheader-group-headers": "[1]"}},
    ],
    ids=["none", "empty", "no PEM", "no JSON", "no list", "no names"],
)
def test_nobody_is_trusted_on_what_cannot_be_read(config_map: Any) -> None:
    assert read_trust(config_map) == FrontProxyTrust()
