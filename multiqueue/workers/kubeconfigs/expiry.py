"""When the credentials in a kubeconfig end, and when to warn about it. Pure.

A credential that cannot be read has no known end: a token need not be a JSON web token, and broken
data is refused elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

TOKEN, CLIENT, AUTHORITY = "token", "client certificate", "CA certificate"
WARN_BEFORE = timedelta(days=7)
"""Enough time to renew by hand."""
WARN_SHARE = 0.1
"""A credential that lives less than ten weeks is reported when this part of its life is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The end of a credential.

    Attributes:
        what: The credential, in words.
        begins_at: Since when it is valid; None: it does not say.
        ends_at: When it ends.
    """

    what: str
    begins_at: datetime | None = None
    ends_at: datetime

    @property
    def warn_at(self) -> datetime:
        """From when on to warn that it should be renewed."""
        before = WARN_BEFORE
        if self.begins_at is not None:
            before = min(before, (self.ends_at - self.begins_at) * WARN_SHARE)
        return self.ends_at - before

    def seconds_left(self, now: Callable[[], datetime]) -> float:
        """How long it is still valid."""
        return (self.ends_at - now()).total_seconds()

    def describe(self) -> str:
        """Say when it ends."""
        return f"the {self.what} expires at {self.ends_at:%Y-%m-%dT%H:%M:%SZ}"


def find_expiries(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> tuple[Expiry, ...]:
    """Return when the parts of a kubeconfig's context end, the first to end first."""
    found = [
        *_token(user.get("token")),
        *_certificate(CLIENT, user.get("client-certificate-data")),
        *_certificate(AUTHORITY, cluster.get("certificate-authority-data")),
    ]
    return tuple(sorted(found, key=lambda expiry: (expiry.ends_at, expiry.what)))


def _token(token: object) -> Iterator[Expiry]:
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != 3:
        return
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return
    if not isinstance(claims, dict):
        return
    ends_at = _time(claims.get("exp"))
    if ends_at is not None:
        begins_at = _time(claims.get("iat")) or _time(claims.get("nbf"))
        yield Expiry(what=TOKEN, begins_at=begins_at, ends_at=ends_at)


def _time(seconds: object) -> datetime | None:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _certificate(what: str, data: object) -> Iterator[Expiry]:
    """Yield the end of a client's certificate, or of the CA of a bundle that ends last."""
    if not isinstance(data, str) or not data:
        return
    try:
        pem = base64.b64decode("".join(data.split()), validate=True)
        known = _last_authority(pem) if what == AUTHORITY else None
        begins_at, ends_at = known or _last_read(what, pem)
    except (binascii.Error, ValueError):
        return
    yield Expiry(what=what, begins_at=begins_at, ends_at=ends_at)


def _last_authority(pem: bytes) -> tuple[datetime, datetime] | None:
    """Return the life of the CA that ends last; None if not all certificates are readable CAs.

    OpenSSL reads them for TLS anyway; cryptography costs a short command a tenth of its time.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError):
        return None
    found = context.get_ca_certs()
    if not found or len(found) != context.cert_store_stats()["x509"]:
        return None
    lives = ((_read_time(each["notAfter"]), _read_time(each["notBefore"])) for each in found)
    ends_at, begins_at = max(lives)
    return begins_at, ends_at


def _read_time(text: object) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(text)), UTC)


def _last_read(what: str, pem: bytes) -> tuple[datetime, datetime]:
    """Return the life of a client's certificate, or of the certificate that ends last.

    Raises:
        ValueError: there is none.
    """
    from cryptography import x509

    found = x509.load_pem_x509_certificates(pem)
    # A chain begins with the certificate itself; a bundle may have old CAs beside new ones.
    counting = found[:1] if what == CLIENT else found
    last = max(counting, key=lambda certificate: certificate.not_valid_after_utc)
    return last.not_valid_before_utc, last.not_valid_after_utc
